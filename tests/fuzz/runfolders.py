"""Run folders that somebody edited, moved about or lost parts of."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from samebits.config import config_hash
from samebits.families import discover
from tests.fuzz.bases import BASES, Bases
from tests.fuzz.checkpoints import LAST, read_record, sign
from tests.fuzz.kinds import Outcome, kind
from tests.fuzz.uses import use
from tests.fuzz.values import odd_json, odd_setting, odd_text, spoil_bytes, spoil_text


def toml(value: Any) -> str:
    """A value as TOML, tables inline. What TOML cannot say comes out as something that is not TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float) and value != value:
        return "nan"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return json.dumps(value)  # which writes halves of characters as \ud800: no TOML


def write_toml(path: Path, tables: dict[str, Any]) -> None:
    lines = []
    for name, table in tables.items():
        if isinstance(table, dict):
            lines += [f"[{name}]", *(f"{json.dumps(key)} = {toml(value)}" for key, value in table.items()), ""]
        else:
            lines.insert(0, f"{name} = {toml(table)}")
    path.write_text("\n".join(lines), encoding="utf-8", errors="replace")


@kind("config-values", 4)
def config_values(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """config.toml with other values, and half the time a checkpoint that claims to be of it."""
    name = draw.choice(list(BASES))
    family, run = BASES[name].family, bases.copy(name, place)
    tables: dict[str, Any] = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))
    for _ in range(draw.choice((1, 1, 2, 3))):
        _edit(draw, tables)
    write_toml(run / "config.toml", tables)
    if draw.random() < 0.7:
        claim(run, family, tables)
    return use(draw, place, family)


def _edit(draw: random.Random, tables: dict[str, Any]) -> None:
    """One value another one, lost, or where none was."""
    table = draw.choices(("config", "run", "made_with"), (6, 2, 1))[0]
    if draw.random() < 0.05:
        tables[table] = odd_json(draw)
    values = tables.get(table)
    if not isinstance(values, dict) or not values:
        return
    key = draw.choice(list(values))
    if draw.random() < 0.1:
        values.pop(key)
    elif draw.random() < 0.05:
        values[odd_text(draw)] = odd_json(draw)
    else:
        values[key] = odd_setting(draw, key, values[key])


def claim(run: Path, family: str, tables: dict[str, Any]) -> None:
    """The last checkpoint says that it is of this config, whatever it holds."""
    try:
        values = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))
        head = values["run"]
        record = read_record(run)
        record["config_hash"] = config_hash(discover()[family].config, family, str(head.get("task")), values["config"])
    except (tomllib.TOMLDecodeError, KeyError, AttributeError, TypeError, ValueError, RecursionError):
        return
    sign(run, record)


@kind("config-text", 1)
def config_text(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """config.toml as a text that somebody garbled."""
    name = draw.choice(list(BASES))
    run = bases.copy(name, place)
    path = run / "config.toml"
    path.write_bytes(spoil_text(draw, path.read_text(encoding="utf-8")))
    return use(draw, place, BASES[name].family)


@kind("metrics", 1.5)
def metrics(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """metrics.csv edited, cut, garbled or binary; training goes on from it or plots it."""
    name = draw.choice(list(BASES))
    run = bases.copy(name, place)
    path = run / draw.choice(("metrics.csv", "metrics.csv", "metrics.csv", "timing.csv"))
    text = path.read_text(encoding="utf-8")
    forms: list[Callable[[], bytes]] = [
        lambda: spoil_text(draw, text), lambda: spoil_text(draw, text), lambda: spoil_bytes(draw, text.encode()),
        lambda: b"", lambda: draw.randbytes(draw.randrange(2000)), lambda: text.encode() * 3,
        lambda: text.replace("0.", draw.choice(("nan", "inf", "-", "1e999", "x"))).encode(),
    ]  # fmt: skip
    path.write_bytes(draw.choice(forms)())
    if draw.random() < 0.6:  # as long as its checkpoint says, so that it is believed
        size = read_record(run)["state"]["metrics_bytes"]
        with path.open("ab") as file:
            file.write(b"\n" * max(0, size - file.tell()))
    return use(draw, place, BASES[name].family)


def _some_path(draw: random.Random, run: Path) -> Path:
    return draw.choice(sorted(run.rglob("*")))


def _remove(path: Path) -> bool:
    """Whether it was a folder, and no link to one."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return False
    shutil.rmtree(path)
    return True


def _lose(draw: random.Random, run: Path) -> None:
    _remove(_some_path(draw, run))


def _empty(draw: random.Random, run: Path) -> None:
    path = _some_path(draw, run)
    path.mkdir() if _remove(path) else path.write_bytes(b"")


def _exchange(draw: random.Random, run: Path) -> None:
    """A folder where a file was, or a file where a folder was."""
    path = _some_path(draw, run)
    path.write_text("x") if _remove(path) else path.mkdir()


def _link(draw: random.Random, run: Path) -> None:
    """A link in its place: to itself, to nothing, to a file or a folder, to what it was."""
    path = _some_path(draw, run)
    moved = run.parent / f"moved-{draw.randrange(10**9)}"
    path.rename(moved)
    path.symlink_to(draw.choice((path.name, "nothing", "/dev/null", str(run), str(moved), str(run.parent))))


def _copy(draw: random.Random, run: Path) -> None:
    """Checkpoint folders under other names: of other steps, or of none."""
    names = (
        "step-12",
        "step-0",
        "step-06",
        "step-",
        "step-x",
        "step-²",
        "step-٣",
        "step--1",
        f"step-{10**25}",
        ".step-6.set-aside",
    )
    names += (".step-x.set-aside", ".step-6.replaced", ".step-9.replaced", ".step-6.partial", "step-" + "9" * 200)
    source = run / "checkpoints" / draw.choice(("step-2", "step-4", "step-6"))
    target = run / "checkpoints" / draw.choice(names)
    if source.is_dir() and not source.is_symlink() and not os.path.lexists(target):
        source.rename(target) if draw.random() < 0.4 else shutil.copytree(source, target)


def _forbid(draw: random.Random, run: Path) -> None:
    _some_path(draw, run).chmod(draw.choice((0, 0o400, 0o200)))


def _mix(draw: random.Random, run: Path) -> None:
    """A file of another checkpoint, or the run's config in its place."""
    name = draw.choice(("arrays.safetensors", "state.json"))
    source = draw.choice((run / "checkpoints/step-4" / name, run / "config.toml"))
    if source.is_file() and (run / LAST).is_dir() and not (run / LAST / name).is_dir():
        shutil.copyfile(source, run / LAST / name)


def _pipe(draw: random.Random, run: Path) -> None:
    """Something that is neither file nor folder, but does not block."""
    path = run / draw.choice((".lock", "plots", "pictures", ".config.toml.partial"))
    if run.is_dir() and not os.path.lexists(path):
        path.symlink_to(draw.choice(("/dev/full", "/dev/null", "nothing/at/all")))


@kind("folders", 3)
def folders(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """Files and folders of a run lost, emptied, renamed, exchanged, linked or forbidden."""
    name = draw.choice(list(BASES))
    run = bases.copy(name, place)
    changes = (_lose, _empty, _exchange, _link, _copy, _copy, _copy, _forbid, _mix, _pipe)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        change = draw.choice(changes)
        with contextlib.suppress(OSError):  # an earlier change may have left nothing to change
            if any(run.rglob("*")):
                change(draw, run)
    which = (
        ("--checkpoint", draw.choice(("best", "4", "step-4", "12", odd_text(draw, False))))
        if draw.random() < 0.2
        else ()
    )
    return use(draw, place, BASES[name].family, which)
