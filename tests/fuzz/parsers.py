"""Whatever text and whatever values, by hypothesis: settings, TOML, configs, expressions, grids, worker counts.

Each check is a function that hypothesis gives examples to, from a seed; every example counts as an input.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from samebits import api
from samebits.checks import parse_grid
from samebits.cli.common import worker_counts
from samebits.config import parse_setting, read_toml, to_toml
from samebits.devices.cpu.pool import worker_count
from samebits.errors import SamebitsError
from samebits.families import discover
from samebits.families.graph.expressions import from_graph, parse, text_of
from samebits.families.logic_ca.simulation.experiments import Damage
from tests.fuzz.bases import Bases, tiny
from tests.fuzz.judge import check_message, frame_of
from tests.fuzz.kinds import Outcome, kind
from tests.fuzz.values import ABSURD, FLOATS, LARGE, SMALL, TEXTS, UNWRITABLE, WORK

EXAMPLES = 20  # of an input of the fuzzer
TASKS = sorted(task for family in discover().values() for task in family.tasks)

anything = st.text(st.characters(exclude_categories=()), max_size=40)
texts = st.one_of(st.sampled_from(TEXTS + UNWRITABLE), anything)
numbers = st.one_of(st.sampled_from(SMALL + ABSURD + LARGE + FLOATS), st.integers(), st.floats())
leaves = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3))
small_work = st.one_of(st.sampled_from(SMALL + ABSURD), st.text(max_size=5), st.none(), st.lists(leaves, max_size=3))
words = st.sampled_from(
    ["(", ")", " ", "x", "and", "\t", "\n", "\0", "(f ", "\x1b", "\ud800", "(" * 3000, "x " * 500, "\u2028"]
)
toml_lines = st.sampled_from(
    ["[config]", "[run]", "[[run]]", "lr = 0.1", "lr = {}", "lr.a = 1", "steps = 1", 'task = "life"', "a = [",
     "a = '''", "a = 1e999",     f"a = {'9' * 5000}",
     f"a = {'[' * 3000}", f"a = {'[' * 3000}{']' * 3000}", f"a = {'{b=' * 3000}", "config = 3",
     "run = []",
     "a = 2020-13-45", "a = 0xfffffffffffffffffffffff", '"\\u0000" = 1', 'x = "\\ud800"', "\x00", "a.b.c.d = nan",
     "target = 'lizard'"]
)  # fmt: skip

Check = Callable[..., None]
CHECKS: dict[str, Callable[[], Check]] = {}
tally = [0, 0]  # accepted and refused examples of the check that is running


def check(*strategies: st.SearchStrategy) -> Callable[[Check], Check]:
    """Register a function of examples. It is given to hypothesis anew each time: settings can be set only once."""

    def register(function: Check) -> Check:
        CHECKS[function.__name__] = lambda: given(*strategies)(function)
        return function

    return register


def ends_well(function: Callable[[], Any]) -> None:
    """A value, or a SamebitsError that is fit to print; anything else escapes."""
    try:
        function()
    except SamebitsError as error:
        check_message(str(error), frame_of(error), "")
        tally[1] += 1
    else:
        tally[0] += 1


@check(st.one_of(texts, st.builds("{}={}".format, texts, texts), st.builds("lr={}".format, texts)))
def setting(text: str) -> None:
    ends_well(lambda: parse_setting(text))


@check(st.one_of(st.lists(st.one_of(toml_lines, anything), max_size=6).map("\n".join), st.binary(max_size=60)))
def toml(content: str | bytes) -> None:
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "x.toml")
        path.write_bytes(raw)
        ends_well(lambda: read_toml(path))
        ends_well(lambda: api.configure("life", "small", {}, path))


@st.composite
def odd_settings(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A task, and a few keys of its config with odd values."""
    task = draw(st.sampled_from(TASKS))
    keys = next(list(family.config.model_fields) for family in discover().values() if task in family.tasks)
    chosen = draw(st.lists(st.sampled_from(keys), max_size=3))
    return task, {key: draw(small_work if key in WORK else values) for key in chosen}


@check(odd_settings(), st.sampled_from(["small", "full", None]))
def config(found: tuple[str, dict[str, Any]], preset: str | None) -> None:
    """Every family's config; what is accepted can be written down and read again."""
    task, odd = found

    def body() -> None:
        _, _, made = api.configure(task, preset, odd)
        with tempfile.TemporaryDirectory() as name:
            path = Path(name, "x.toml")
            path.write_text(to_toml({"config": made.model_dump(mode="json")}), encoding="utf-8")
            assert api.configure(task, preset, {}, path)[2] == made

    ends_well(body)


@check(st.sampled_from(TASKS), st.dictionaries(texts, values, max_size=2), texts)
def names(task: str, odd: dict[str, Any], preset: str) -> None:
    """Keys and presets that there are not."""
    ends_well(lambda: api.configure(task, "small", {**tiny(task), **odd}))
    ends_well(lambda: api.configure(preset, None, {}))
    ends_well(lambda: api.configure(task, preset, {}))


@check(st.one_of(st.lists(words, max_size=20).map("".join), anything), st.sampled_from([1, 5, 160, 400]))
def expression(text: str, most: int) -> None:
    """What parses is what its own text parses to."""

    def body() -> None:
        tree = parse(text, most)
        assert parse(text_of(tree), most) == tree

    ends_well(body)


@check(st.one_of(values, st.fixed_dictionaries({"labels": st.lists(texts, max_size=5), "children": values})))
def graph(value: Any) -> None:
    ends_well(lambda: from_graph(value, 160))


sizes = st.sampled_from(["", "0", "1", "3", "64", "²", "٣", "-1", "9" * 5000, " 4", "4 ", "x", "1e3"])


@check(st.one_of(texts, st.builds("{}x{}".format, sizes, sizes)))
def grid(text: str) -> None:
    ends_well(lambda: parse_grid(text))


@check(st.one_of(texts, st.builds("{}x{}@{}-{}".format, sizes, sizes, sizes, sizes)))
def damage(text: str) -> None:
    ends_well(lambda: Damage.parse(text).rectangles(9, (9, 9)))


@check(st.one_of(texts, sizes, numbers, st.none(), st.lists(numbers, max_size=2)))
def workers(value: Any) -> None:
    ends_well(lambda: worker_count(value))


@check(st.one_of(texts, st.lists(sizes, max_size=4).map(",".join)))
def counts(text: str) -> None:
    ends_well(lambda: worker_counts(text))


def run_check(name: str, start: int, examples: int) -> None:
    """One check, with examples that follow from the seed. No shrinking: it takes long, and the example is printed."""
    chosen = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    seed(start)(chosen(CHECKS[name]()))()


@kind("parsers", 4)
def parsers(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """Some examples of one of the checks."""
    name = draw.choice(sorted(CHECKS))
    tally[:] = 0, 0
    run_check(name, draw.randrange(1 << 32), EXAMPLES)
    return Outcome(*tally, f"{EXAMPLES} examples of {name}")
