"""samebits predict"""

from __future__ import annotations

from typing import Annotated

import typer

from samebits import api
from samebits.cli.common import CheckpointOption, DeviceOption, InexactOption, RunPath, computed_by
from samebits.cli.terminal import echo
from samebits.devices.choose import device_for
from samebits.errors import SamebitsError
from samebits.training.computation import kernels_for


def predict(
    folder: RunPath,
    expression: Annotated[str, typer.Argument(help='such as "(and x (or x y))"', metavar="EXPRESSION")],
    checkpoint: CheckpointOption = "last",
    device: DeviceOption = "cpu",
    inexact: InexactOption = False,
) -> None:
    """Rewrite an expression step by step, as the trained network does."""
    run = api.open_run(folder)
    if "predict" not in run.family.verbs:
        raise SamebitsError(
            f"{folder} is a {run.family.name} run; predict rewrites expressions; try: samebits eval {folder}"
        )
    with device_for(device, 1, inexact) as used:
        kernels_for(run.family, used)
        found, judged = run.family.verbs["predict"](api.load(folder, checkpoint), expression, used)
    width = len(str(len(found.texts) - 1))
    for number, text in enumerate(found.texts):
        echo(f"{number:>{width}}  {text}")
    for told in filter(None, (judged, run.doubts, computed_by(used))):
        echo(told)
