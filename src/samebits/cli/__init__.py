"""The command line: one file per verb, each thin: parse, call, print."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from numba.core import event

from samebits.cli import (
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
from samebits.cli.common import CompilingNotice
from samebits.engine.runfolder import made_with
from samebits.errors import SamebitsError

app = typer.Typer(
    name="samebits",
    help="Train small, unusual models on every core; the same bits whatever the number of workers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"samebits {made_with()['samebits']}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="say which samebits this is, and end"),
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
    except SamebitsError as error:
        print(f"samebits: {error}", file=sys.stderr)
        sys.exit(2)
    except MemoryError:
        print("samebits: not enough memory; lower --batch-size, --grid or slot_memory", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        print(
            f"samebits: cannot write or read{where} ({error.strerror or error}); look at its rights and the room on "
            "its disk, or choose another path",
            file=sys.stderr,
        )
        sys.exit(2)
