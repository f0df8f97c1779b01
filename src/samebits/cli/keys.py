"""samebits keys"""

from __future__ import annotations

import json
import textwrap
from typing import Annotated, Any, Literal, get_args, get_origin

import annotated_types
import typer
from pydantic.fields import FieldInfo

from samebits import api
from samebits.cli.common import PresetOption, TaskName
from samebits.cli.terminal import echo
from samebits.config import TrainConfig, costs, outside_hash
from samebits.errors import SamebitsError, nearest
from samebits.printing import shown

WIDTH = 80
MOST_SHOWN = 28  # characters of a default


def keys(
    task: TaskName,
    wanted: Annotated[list[str] | None, typer.Argument(help="only these keys", metavar="[KEY]...")] = None,
    preset: PresetOption = None,
) -> None:
    """Every config key of a task: its meaning, its default in the preset, its range, and what it costs."""
    family, chosen, config = api.configure(task, preset, {})
    fields = type(config).model_fields
    for key in wanted or ():
        if key not in fields:
            raise SamebitsError(f"there is no config key {shown(key)}; {nearest(key, fields)}")
    shared = TrainConfig.model_fields
    own = [key for key in fields if key not in shared]
    if not wanted:
        echo(f"{task}, preset {chosen}. Set with --set KEY=VALUE; * changes no bit.\n")
    for title, names in ((f"Of {family.name}", own), ("Of every family", [key for key in fields if key in shared])):
        some = [key for key in names if not wanted or key in wanted]
        if some and not wanted:
            echo(f"{title}:\n")
        for key in some:
            echo("\n".join(described(config, key)) + "\n")


def described(config: TrainConfig, key: str) -> list[str]:
    """The lines on one key."""
    field = type(config).model_fields[key]
    mark = "*" if key in outside_hash(type(config)) else " "
    head = f"{mark} {key} = {value(getattr(config, key))}"
    allowed = range_of(field)
    gap = " " * max(2, WIDTH - len(head) - len(allowed))
    lines = [f"{head}{gap}{allowed}"] if len(head) + 2 + len(allowed) <= WIDTH else [head, f"      {allowed}"]
    told = field.description or ""
    price = costs(type(config)).get(key)
    told += f". Costs {price}" if price else ""
    return lines + textwrap.wrap(told, WIDTH, initial_indent="      ", subsequent_indent="      ")


def value(given: Any) -> str:
    """As --set takes it, cut short where it is long."""
    text = "(none)" if given is None else given if isinstance(given, str) else json.dumps(given)
    text = text or '""'
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"


def range_of(field: FieldInfo) -> str:
    """What a key may be, of its type and its bounds."""
    kind = field.annotation
    options = [one for one in (*get_args(kind), kind) if get_origin(one) is Literal]
    if options:
        return " | ".join(str(one) for one in get_args(options[0]))
    if kind is bool:
        return "true | false"
    bounds = {type(one): one for one in field.metadata}
    if any(get_origin(one) is tuple for one in (*get_args(kind), kind)):
        return "a list"
    low = _bound(bounds, annotated_types.Ge, "ge", "") or _bound(bounds, annotated_types.Gt, "gt", "above ")
    high = _bound(bounds, annotated_types.Le, "le", "") or _bound(bounds, annotated_types.Lt, "lt", "below ")
    if not low and not high:
        return "a text" if kind in (str, str | None) else ""
    step = bounds.get(annotated_types.MultipleOf)
    return f"{low} to {high}" + (f", a multiple of {step.multiple_of}" if step else "")


def _bound(bounds: dict[type, Any], kind: type, attribute: str, word: str) -> str:
    return f"{word}{_number(getattr(bounds[kind], attribute))}" if kind in bounds else ""


def _number(bound: float) -> str:
    """Powers of two that nobody reads as digits are written as powers."""
    if isinstance(bound, int) and bound >= 2**24 and bound & (bound - 1) == 0:
        return f"2^{bound.bit_length() - 1}"
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
