"""Run folders as file systems: links, pipes, devices, odd names, empty files and huge ones in place of what a run has.

Whatever a command does, the tree `outside` stays as it was; whatever the server answers, it is nothing of that tree.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import random
import shutil
import socket
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch
from urllib.parse import quote

import httpx

from samebits.serve.app import make_app
from samebits.serve.events import Watchers
from samebits.serve.guard import Guard
from samebits.serve.runs import Library
from tests.fuzz.bases import BASES, STEPS, Bases
from tests.fuzz.judge import attempt, command
from tests.fuzz.kinds import BrokenRuleError, Outcome, kind
from tests.fuzz.uses import exercise, use

MARK = "what lies outside"
HUGE = 1 << 40  # bytes, none of them written
FILES = (
    "config.toml", "metrics.csv", "timing.csv", ".lock", ".job", "checkpoints/step-6/state.json", "sweep.toml",
    "checkpoints/step-6/arrays.safetensors", "plots/loss.png", "plots/against.png", "pictures/rollout.gif",
    "pictures/rollout.png", "pictures/circuit.json", "pictures/circuit.svg", "pictures/answers.png",
    "export/config.json", "export/model.safetensors", "export/load_in_pytorch.py", "export/tokenizer.json",
    "export/life_cell.v", ".config.toml.partial", "metrics-changed-1.csv",
)  # fmt: skip
FOLDERS = (
    "checkpoints", "checkpoints/step-6", "checkpoints/step-2", "checkpoints/step-9", "plots", "pictures", "export",
    "checkpoints/.step-7.partial", "checkpoints/.step-2.deleted", "checkpoints/.step-6.replaced",
    "checkpoints/.step-8.set-aside",
)  # fmt: skip
ODD_NAMES = (b"\xff\xfe.png", b"a\nb.png", b"\x1b[2J.gif", b"-rf", b"~", b"x" * 255, "é\u202e.svg".encode(), b"'\".png")
ADDRESSES = ("/api/runs", "/api/run?id=run", "/v1/models", "/v1/models/run", "/api/rewrite?run=run&expression=x")


def link_out(draw: random.Random, path: Path, outside: Path) -> None:
    """To a file, to a folder, to nothing yet, or to another link."""
    target = outside / draw.choice(("text", "folder", "folder/deep.csv", "new", "chain", "run", "run/config.toml", "."))
    path.symlink_to(os.path.relpath(target, path.parent) if draw.random() < 0.3 else target)


def move_out(draw: random.Random, path: Path, outside: Path) -> None:
    """What was there, now outside, and a link to it."""
    moved = outside / f"moved-{draw.randrange(10**9)}"
    if not os.path.lexists(moved):
        path.rename(moved)
        if path.suffix == ".toml":
            with moved.open("a") as file:
                file.write(f"\n# {MARK}\n")
        path.symlink_to(moved)


def hard_link(draw: random.Random, path: Path, outside: Path) -> None:
    os.link(outside / "shared", path)


def second_name(draw: random.Random, path: Path, outside: Path) -> None:
    os.link(path, outside / f"second-{draw.randrange(10**9)}")


def loop(draw: random.Random, path: Path, outside: Path) -> None:
    path.symlink_to(path.name)


def pipe(draw: random.Random, path: Path, outside: Path) -> None:
    os.mkfifo(path)


def device(draw: random.Random, path: Path, outside: Path) -> None:
    """zero, full or random, for those who may make one; a socket."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, draw.choice((5, 7, 8))))
    except OSError:
        with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):
            made.bind(path.name)


def sparse(draw: random.Random, path: Path, outside: Path) -> None:
    size = draw.choice((HUGE, 1 << 33, 1 << 21))
    with path.open("wb") as file:
        file.truncate(size)


def long_tail(draw: random.Random, path: Path, outside: Path) -> None:
    os.truncate(path, HUGE)


def empty(draw: random.Random, path: Path, outside: Path) -> None:
    path.write_bytes(b"")


def folder(draw: random.Random, path: Path, outside: Path) -> None:
    path.mkdir()
    if draw.random() < 0.5:
        link_out(draw, path / "inner", outside)


def odd_step(draw: random.Random, path: Path, outside: Path) -> None:
    path.write_text(f"step,loss\n1,2\n{draw.choice(('inf', '1e400', '9' * 400, 'nan', '-1', '2,3,4', ''))},1\n")


KEEP = (move_out, second_name, long_tail)  # changes of what is there; the others need the name
CHANGES: tuple[Callable[[random.Random, Path, Path], None], ...] = (
    link_out, link_out, link_out, move_out, move_out, move_out, second_name, hard_link, loop, pipe, pipe, device,
    sparse, long_tail, empty, folder, odd_step,
)  # fmt: skip


def make_outside(place: Path) -> Path:
    """What no command may change: files, folders, a link, and a folder that looks like a run."""
    outside = place / "outside"
    (outside / "folder/step-6").mkdir(parents=True)
    (outside / "run/checkpoints/step-4").mkdir(parents=True)
    for name in ("text", "folder/deep.csv", "folder/loss.png", "folder/rollout.png", "folder/model.safetensors",
                 "folder/step-6/state.json", "run/config.toml", "run/metrics.csv"):  # fmt: skip
        (outside / name).write_text(f"step,loss\n1,2\n# {MARK}\n")
    (outside / "chain").symlink_to("text")
    (outside / "shared").write_text("step,loss\n1,2\n")  # a hard link is the file itself: it may be read, not changed
    return outside


def tree(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything below: mode, size, time of the last change, content."""
    found = {}
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(parent, name)
            about = os.lstat(path)
            small = stat.S_ISREG(about.st_mode) and about.st_size < 1 << 20
            content = (
                Path(path).read_bytes() if small else os.readlink(path).encode() if stat.S_ISLNK(about.st_mode) else b""
            )
            found[path] = about.st_mode, about.st_size, about.st_mtime_ns, content
    return found


def forge(draw: random.Random, run: Path, outside: Path) -> str:
    """One to four changes; what they are, for a report."""
    said = []
    for _ in range(draw.choice((1, 1, 2, 3, 4))):
        kinds = draw.random()
        name = draw.choice(FILES) if kinds < 0.6 else draw.choice(FOLDERS)
        if kinds > 0.93:
            name = draw.choice(("", "plots/", "checkpoints/")) + os.fsdecode(draw.choice(ODD_NAMES))
        change, path = draw.choice(CHANGES), run / name
        with contextlib.suppress(OSError):  # an earlier change may be in the way
            path.parent.mkdir(exist_ok=True)
            if path.parent.resolve().is_relative_to(run.resolve()):
                if change not in KEEP and os.path.lexists(path):
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
                change(draw, path, outside)
                said.append(f"{change.__name__} {name!a}")
    return ", ".join(said)


def unchanged(before: dict[str, tuple[int, int, int, bytes]], outside: Path, what: str, told: str) -> None:
    after = tree(outside)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if changed:
        raise BrokenRuleError("written outside", what, f"{told}\n{changed}")


@kind("links", 4)
def links(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """A command on such a folder."""
    name = draw.choice(list(BASES))
    family, run, outside = BASES[name].family, bases.copy(name, place), make_outside(place)
    forged = forge(draw, run, outside)
    before = tree(outside)
    with patch("matplotlib.figure.Figure.savefig", _drawn):
        outcome = _use(draw, place, family)
    told = f"{forged}\n{outcome.told}"
    unchanged(before, outside, outcome.told.splitlines()[0][:40], told)
    return outcome._replace(told=told)


def _drawn(figure: object, content: io.BytesIO, **options: object) -> None:
    """In place of drawing, which takes most of the time and is looked at elsewhere."""
    content.write(b"\x89PNG")


def _use(draw: random.Random, place: Path, family: str) -> Outcome:
    """Mostly what is quick, and often what writes."""
    chance = draw.random()
    if chance < 0.06:
        return use(draw, place, family)
    if chance < 0.14:
        return command(place, "resume", "run", "--workers", 1, "--steps", STEPS + draw.randrange(2), "--keep", 1)
    if chance < 0.2:
        return command(place, "resume", "run", "--workers", 1, "--new-metrics", "--checkpoint", draw.choice((2, 4)))
    out = draw.choice(((), (), (), ("--out", "run/export"), ("--out", "run/pictures/more"), ("--out", "run")))
    if family == "gpt" and chance < 0.7:
        return command(place, "export", "run", "--to", draw.choice(("hf", "safetensors")), *out)
    if family == "logic_ca" and chance < 0.45:
        return command(place, "render", "run", "--workers", 1, "--steps", 1, *out)
    if family == "logic_ca" and chance < 0.6:
        return command(
            place, "export", "run", "--to", draw.choice(("c", "verilog", "aiger")), "--no-prove", "--minimise", 0, *out
        )
    seed = draw.randrange(1 << 30)

    def body() -> object:
        import samebits

        model = samebits.load("run", draw.choice(("last", "best", 2)))
        return exercise(model, random.Random(seed)) if chance > 0.97 else None

    return attempt(f"samebits.load('run'), exercise({seed})", [], body)


@kind("served", 4)
def served(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """The server over such a folder: its addresses, and what it sends by itself."""
    name = draw.choice(list(BASES))
    run, outside = bases.copy(name, place, "served"), make_outside(place)
    (place / "runs").mkdir()
    run = run.rename(place / "runs/run")
    forged = forge(draw, run, outside)
    before = tree(outside)
    answers = served_app().loop.run_until_complete(_ask(draw, place / "runs"))
    told = "\n".join([forged, *(f"{address} {status}" for address, status, _ in answers)])
    for address, status, text in answers:
        if status not in (200, 400, 404):
            raise BrokenRuleError(f"status {status}", address[:14], f"{told}\n{text[:400]}")
        if MARK in text or "Traceback" in text:
            raise BrokenRuleError("told what lies outside", address[:14], f"{told}\n{text[:400]}")
    unchanged(before, outside, "the server", told)
    damaged = '"problem":"",' not in answers[0][2]
    return Outcome(int(not damaged), int(damaged), told)


class App(NamedTuple):
    guard: Guard
    loop: asyncio.AbstractEventLoop


@cache
def served_app() -> App:
    """One application and one event loop for all inputs: making them takes longer than most inputs do."""
    return App(make_app(Library([])), asyncio.new_event_loop())


async def _ask(draw: random.Random, folder: Path) -> list[tuple[str, int, str]]:
    guard = served_app().guard
    library: Library = guard.served.library
    library.folders, library.shown, library.runs = [folder.resolve()], [str(folder)], {}
    guard.served.models.kept.clear()
    guard.served.automata.clear()
    library.scan()
    answers = []
    transport = httpx.ASGITransport(guard)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        names = ["plots/loss.png", *(os.fsdecode(name) for name in ODD_NAMES), *FILES, *FOLDERS]
        pictures = [f"/api/picture?run=run&name={quote(draw.choice(names), errors='replace')}" for _ in range(2)]
        others = ["/api/automaton?run=run"] if draw.random() < 0.02 else []
        for address in (*ADDRESSES, *pictures, *others):
            answer = await client.get(address)
            answers.append((address, answer.status_code, answer.content.decode("utf-8", "replace")))
    for runs in (["run"] if "run" in library.runs else [], []):
        watchers = Watchers(library)
        stream = watchers.events(runs, watchers.add())
        sent = [await anext(stream) for _ in range(2)]
        await stream.aclose()
        answers.append((f"events of {runs}", 200, "".join(sent)))
    return answers
