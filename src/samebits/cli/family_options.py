"""Options that families add to verbs (Family.options): in --help, on the command line, and checked for a run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from samebits import checks
from samebits.errors import SamebitsError
from samebits.families import discover
from samebits.training.contract import Family
from samebits.training.parts import Option

VERBS = ("train", "eval", "render", "sample", "export")  # the verbs that families may add options to
GIVEN = "samebits.options"  # in the context's meta: what was typed of them, by key


class FamilyCommand(TyperCommand):
    """A verb with the options that families add to it. Families are loaded when it is parsed or asked for help."""

    @cached_property
    def _added(self) -> list[Any]:
        own = {flag for param in self.params for flag in (*param.opts, *param.secondary_opts)}
        found = added_options(self.name or "")
        for key, families in found.items():
            name, option = next(iter(families.items()))
            if taken := own & set(flags_of(key, option).split("/")):
                raise SamebitsError(
                    f"the family {name} adds {min(taken)} to samebits {self.name}, which has that option already; "
                    "rename it in Family.options, or uninstall its package"
                )
        return as_parameters(found)

    def get_params(self, ctx: Any) -> list[Any]:
        *own, asks_for_help = super().get_params(ctx)
        return [*own, *self._added, asks_for_help]

    def invoke(self, ctx: Any) -> Any:
        typed = {param.name: ctx.params.pop(param.name) for param in self._added}
        ctx.meta[GIVEN] = {key: value for key, value in typed.items() if value is not None}
        return super().invoke(ctx)


def added_options(verb: str) -> dict[str, dict[str, Option]]:
    """By key, then by family. Families may share a key, if they mean the same kind of value by it."""
    found: dict[str, dict[str, Option]] = {}
    for family in discover().values():
        for key, option in family.options.get(verb, {}).items():
            others = found.setdefault(key, {})
            for name, other in others.items():
                if (other.kind, other.flags) != (option.kind, option.flags):
                    raise SamebitsError(
                        f"the families {name} and {family.name} add {flags_of(key, option)} to samebits {verb}, each "
                        "with another kind of value; rename one of them in Family.options, or uninstall its package"
                    )
            others[family.name] = option
    return found


def flags_of(key: str, option: Option) -> str:
    return option.flags or f"--{key.replace('_', '-')}"


def as_parameters(options: Mapping[str, Mapping[str, Option]]) -> list[Any]:
    """The parameters that typer makes of a function with these arguments."""

    def collected(**values: Any) -> None: ...

    arguments = []
    for key, families in options.items():
        option = next(iter(families.values()))
        lines = dict.fromkeys(one.help for one in families.values())
        text = "; ".join(
            f"{', '.join(name for name, one in families.items() if one.help == line)}: {line}" for line in lines
        )
        low, high = option.bounds or (None, None)
        kind: Any = str if option.kind is Path or option.parse else option.kind
        told = typer.Option(flags_of(key, option), help=text, metavar=option.metavar, min=low, max=high)
        arguments.append(Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, told]))
    vars(collected)["__signature__"] = Signature(arguments)
    collected.__annotations__ = {argument.name: argument.annotation for argument in arguments}
    made = typer.Typer(add_completion=False, rich_markup_mode=None)
    made.command()(collected)
    return list(typer.main.get_command(made).params)


def given(context: typer.Context, family: Family, refused: str) -> dict[str, Any]:
    """What was typed of the options of this family, as values; `refused` says why another one is not for this run."""
    known, values = family.options.get(context.command.name or "", {}), {}
    for key, value in context.meta.get(GIVEN, {}).items():
        if key not in known:
            option = next(iter(added_options(context.command.name or "")[key].values()))
            raise SamebitsError(f"{flags_of(key, option).partition('/')[0]} is not for {refused}; leave it out")
        option = known[key]
        if option.parse:
            values[key] = option.parse(value)
        else:
            values[key] = checks.path(key, value) if option.kind is Path else value
    return values


def of_run(task: str, family: Family) -> str:
    """Why an option of another family is not for a run; what `given` takes."""
    return f"{task}: a {family.name} run has no such option"
