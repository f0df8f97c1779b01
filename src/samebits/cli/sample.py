"""samebits sample"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from samebits import api
from samebits.cli.common import (
    CheckpointOption,
    DeviceOption,
    InexactOption,
    RunPath,
    WorkerOption,
    computed_by,
)
from samebits.cli.family_options import given, of_run
from samebits.cli.terminal import echo, say
from samebits.devices.choose import device_for
from samebits.errors import SamebitsError
from samebits.training.computation import kernels_for


def sample(
    context: typer.Context,
    folder: RunPath,
    prompt: Annotated[str, typer.Option("--prompt", help="what the text begins with; empty: after a line break")] = "",
    tokens: Annotated[int, typer.Option("--tokens", help="how many to write; may exceed the context")] = 500,
    temperature: Annotated[float, typer.Option("--temperature", help="0: always the likeliest token")] = 0.8,
    top_p: Annotated[float, typer.Option("--top-p", help="the likeliest that add up to this; 1: off")] = 1.0,
    top_k: Annotated[int, typer.Option("--top-k", help="the likeliest so many; 0: off")] = 0,
    seed: Annotated[int, typer.Option("--seed", help="with the sample's number, it decides every draw")] = 0,
    samples: Annotated[int, typer.Option("--samples", help="how many texts")] = 1,
    workers: WorkerOption = "auto",
    device: DeviceOption = "cpu",
    inexact: InexactOption = False,
    checkpoint: CheckpointOption = "last",
) -> None:
    """Let a trained GPT write. Once the context is full, it forgets the older half of it and goes on."""
    run = api.open_run(folder)
    if "sample" not in run.family.verbs:
        raise SamebitsError(
            f"{folder} is a {run.family.name} run; sample needs a model that writes text; try: samebits eval {folder}"
        )
    options = given(context, run.family, of_run(run.task, run.family))
    with device_for(device, workers, inexact) as used:
        kernels_for(run.family, used)
        begun, found, tally = run.family.verbs["sample"](
            api.load(folder, checkpoint), prompt, samples, used,
            tokens=tokens, temperature=temperature, top_p=top_p, top_k=top_k, seed=seed, **options,
        )  # fmt: skip
        for number, pieces in enumerate(found):
            if samples > 1:
                echo(f"--- sample {number} ---")
            echo(begun, nl=False)
            for piece in pieces:
                echo(piece, nl=False)
                sys.stdout.flush()
            echo()
    speed = tally.tokens / max(tally.seconds, 1e-9)
    say(f"{tally.tokens:,} tokens, {speed:,.0f} tokens/s")
    for told in filter(None, (run.doubts, computed_by(used))):
        say(told)
