"""samebits predict"""

from __future__ import annotations

from typing import Annotated

import typer

from samebits import api
from samebits.cli.common import CheckpointOption, RunPath
from samebits.cli.terminal import echo
from samebits.errors import SamebitsError


def predict(
    folder: RunPath,
    expression: Annotated[str, typer.Argument(help='such as "(and x (or x y))"', metavar="EXPRESSION")],
    checkpoint: CheckpointOption = "last",
) -> None:
    """Rewrite an expression step by step, as the trained network does."""
    run = api.open_run(folder)
    if "predict" not in run.family.verbs:
        raise SamebitsError(
            f"{folder} is a {run.family.name} run; predict rewrites expressions; try: samebits eval {folder}"
        )
    found, judged = run.family.verbs["predict"](api.load(folder, checkpoint), expression, workers=1)
    width = len(str(len(found.texts) - 1))
    for number, text in enumerate(found.texts):
        echo(f"{number:>{width}}  {text}")
    if judged:
        echo(judged)
