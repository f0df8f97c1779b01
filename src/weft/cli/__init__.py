"""The command line: one file per verb, each thin: parse, call, print."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from numba.core import event

from weft.cli import (
    bench,
    circuit,
    doctor,
    evaluate,
    export,
    predict,
    profile,
    render,
    resume,
    sample,
    tasks,
    train,
    verify,
)
from weft.cli.common import CompilingNotice
from weft.engine.runfolder import made_with
from weft.errors import WeftError

app = typer.Typer(
    name="weft",
    help="Train small, unusual models on every core; the same bits whatever the number of workers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"weft {made_with()['weft']}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="say which weft this is, and end")
    ] = False,
) -> None:
    """What stands before the verb."""


for name, function in (
    ("tasks", tasks.tasks),
    ("train", train.train),
    ("resume", resume.resume),
    ("eval", evaluate.evaluate),
    ("render", render.render),
    ("predict", predict.predict),
    ("circuit", circuit.circuit),
    ("sample", sample.sample),
    ("export", export.export),
    ("verify", verify.verify),
    ("bench", bench.bench),
    ("profile", profile.profile),
    ("doctor", doctor.doctor),
):
    app.command(name)(function)


def main() -> None:
    try:
        with event.install_listener("numba:compile", CompilingNotice()):
            app()  # ends the program itself on Ctrl-C, and when nobody reads what it prints
    except WeftError as error:
        print(f"weft: {error}", file=sys.stderr)
        sys.exit(2)
    except MemoryError:
        print("weft: not enough memory; lower --batch-size, --grid or slot_memory", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        print(
            f"weft: cannot write or read{where} ({error.strerror or error}); look at its rights and the room on its "
            "disk, or choose another path",
            file=sys.stderr,
        )
        sys.exit(2)
