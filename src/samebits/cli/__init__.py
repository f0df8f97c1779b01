"""The command line: one file per verb, each thin: parse, call, print."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer
from numba.core import event

from samebits.cli import (
    bench,
    circuit,
    compare,
    doctor,
    evaluate,
    export,
    keys,
    predict,
    profile,
    render,
    resume,
    sample,
    serve,
    sweep,
    tasks,
    train,
    verify,
)
from samebits.cli.examples import epilog
from samebits.cli.family_options import VERBS, FamilyCommand
from samebits.cli.terminal import echo, say
from samebits.cli.waiting import notice
from samebits.compiler.compile_workers import watched_by
from samebits.compiler.kernel_cache import CacheWarning
from samebits.errors import SamebitsError
from samebits.groups.torchrun import rank_and_size
from samebits.runs.loop import GroupWarning
from samebits.runs.runfolder import made_with

app = typer.Typer(
    name="samebits",
    help="Train small, unusual models on every core; the same bits whatever the number of workers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: no boxes, and a flag is a flag
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(asked: bool) -> None:
    if asked:
        echo(f"samebits {made_with()['samebits']}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="say which samebits this is, and end"),
    ] = False,
) -> None:
    """What stands before the verb."""


for name, function, summary in (  # a line each at 80 columns
    ("tasks", tasks.tasks, "What can be trained, a line a task; or one task's presets."),
    ("keys", keys.keys, "Every config key of a task: meaning, default, range, cost."),
    ("train", train.train, "Train a task into a new run folder."),
    ("resume", resume.resume, "Continue a run, or a sweep, exactly where it was."),
    ("sweep", sweep.sweep, "Train every combination of some settings, side by side."),
    ("compare", compare.compare, "Lay the curves of runs over each other; how configs differ."),
    ("eval", evaluate.evaluate, "Test a trained model: evaluation sets and experiments."),
    ("render", render.render, "Draw what was learned: a rollout as GIF and PNG, or graphs."),
    ("predict", predict.predict, "Rewrite an expression step by step, as the network does."),
    ("circuit", circuit.circuit, "Count the learned gates, make them fewer, prove, draw them."),
    ("sample", sample.sample, "Let a trained GPT write."),
    ("export", export.export, "Write what was learned for others: weights, or the circuit."),
    ("serve", serve.serve, "Show runs in a browser, play with them, answer OpenAI clients."),
    ("verify", verify.verify, "Train a few steps at each worker count: is any bit other?"),
    ("bench", bench.bench, "Step time at several worker counts, beside the peers."),
    ("profile", profile.profile, "Where the time of a training step goes, and peak memory."),
    ("doctor", doctor.doctor, "This machine: cores, BLAS, GPUs, versions; are its bits right?"),
):
    kind = FamilyCommand if name in VERBS else None
    app.command(name, cls=kind, short_help=summary, epilog=epilog(name))(function)


def show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Ours is a line as any other: where in the code it came from helps nobody."""
    own = issubclass(category, CacheWarning | GroupWarning)
    say(f"samebits: {message}" if own else warnings.formatwarning(message, category, filename, lineno).rstrip())


def by_ctrl_c(end: BaseException | None) -> bool:
    """Whether it was Ctrl-C that nobody has handled, and so said nothing about."""
    while end is not None and not isinstance(end, KeyboardInterrupt):
        end = end.__cause__ or end.__context__
    return end is not None


def main() -> None:
    warnings.showwarning = show_warning
    rank, size = 0, 1
    try:
        rank, size = rank_and_size()
        told = notice(rank)
        try:
            with event.install_listener("numba:compile", told), watched_by(told):
                app(prog_name="samebits")  # ends the program itself on Ctrl-C, and when nobody reads what it prints
        except SystemExit as end:
            if told.busy and end.code == 130:
                say("samebits: stopped while compiling; kernels that were ready are kept")
            elif end.code == 130 and by_ctrl_c(end):
                say("samebits: interrupted")
            raise
    except SamebitsError as error:
        if rank == 0 or not error.everywhere:
            say(f"samebits: rank {rank} of {size}: {error}" if size > 1 else f"samebits: {error}")
        sys.exit(error.exit_code)
    except MemoryError:
        say("samebits: not enough memory; lower --batch-size, --grid or slot_memory")
        sys.exit(2)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        say(
            f"samebits: cannot write or read{where} ({error.strerror or error}); look at its rights and the room on "
            "its disk, or choose another path"
        )
        sys.exit(2)
