"""A text that is the same on every machine: short scenes drawn from a little grammar by indexed random numbers.

For canaries, for hashes that anybody can reproduce, and for whoever has no text at hand: sentences, questions, sums
that are right, names that come back. It has rules that a small model can be seen to learn.
"""

from __future__ import annotations

from collections.abc import Iterator

from samebits.arithmetic import rng

SCENES, LINES = 400, 40
SEED, PURPOSE = 2026, 9
NAMES = ("ADA", "ALAN", "EMMY", "GRACE", "KURT", "MARIE", "OTTO", "ROSA")
ADJECTIVES = ("red", "small", "plain", "quiet", "bright", "heavy", "green", "round", "late", "wooden")
NOUNS = ("house", "river", "clock", "garden", "letter", "engine", "window", "bridge", "lamp", "stone", "boat", "map")
VERBS = ("sees", "finds", "builds", "opens", "paints", "loses", "hears", "follows", "counts", "repairs")
PLACES = ("by the sea", "in the hall", "on the hill", "under the tree", "at the station", "behind the wall")
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
KINDS = 6  # of lines


def documents() -> Iterator[bytes]:
    """SCENES of them, about a megabyte in all."""
    for scene in range(SCENES):
        draws = (rng.words((LINES, 8), SEED, PURPOSE, scene) >> rng.HALF).tolist()
        cast = [NAMES[draws[0][k] % len(NAMES)] for k in range(3)]
        lines = [f"SCENE {scene + 1}. {PLACES[draws[0][4] % len(PLACES)].capitalize()}.", ""]
        for draw in draws:
            lines += [f"{cast[draw[0] % 3]}:", _line(draw, cast), ""]
        yield "\n".join(lines).encode()


def _line(draw: list[int], cast: list[str]) -> str:
    _, kind, a, b, c, d, e, f = draw
    thing = f"{ADJECTIVES[a % len(ADJECTIVES)]} {NOUNS[b % len(NOUNS)]}"
    other = f"{ADJECTIVES[c % len(ADJECTIVES)]} {NOUNS[d % len(NOUNS)]}"
    friend = cast[e % 3].capitalize()
    low, high = a % 6, b % 5
    many = f"{DIGITS[2 + a % 9]} {NOUNS[d % len(NOUNS)]}s"
    return (
        f"{friend} {VERBS[f % len(VERBS)]} the {thing} {PLACES[c % len(PLACES)]}.",
        f"Where is the {thing}? It is {PLACES[c % len(PLACES)]}, {friend}.",
        f"{DIGITS[low].capitalize()} and {DIGITS[high]} make {DIGITS[low + high]}.",
        f"The {thing} is not a {other}; a {other} is not a {thing}.",
        f"If the {thing} is {PLACES[c % len(PLACES)]}, then {friend} {VERBS[f % len(VERBS)]} it.",
        f"I have {many}, said {friend}, and each of them is {ADJECTIVES[c % len(ADJECTIVES)]}.",
    )[kind % KINDS]
