"""Our training step on a GPU beside the peers on the same GPU, in turns, as contest.py does it on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samebits.bench.cases import OURS, ROUNDS, Row, compared
from samebits.bench.contest import Note, open_field
from samebits.bench.on_gpu import bound_on, require_cuda_peers
from samebits.config import TrainConfig
from samebits.engine.family import Family
from samebits.engine.trainer import resolve
from samebits.errors import SamebitsError

FIRST_STEPS = 6  # whose losses and weights are compared: peers capture a step after three, ours when one comes again


def gpu_contest(
    family: Family,
    config: TrainConfig,
    device: str,
    steps: int,
    weights: str,
    peers: bool = False,
    note: Note = lambda text: None,
) -> tuple[Mapping[str, str], list[Row]]:
    """The GPU, and a row a contestant. `weights` are the CPU's after FIRST_STEPS: ours here must be the same."""
    if peers:
        require_cuda_peers(device)
    absent: list[Row] = []
    with open_field(family, config, note) as field:
        more: dict[str, Any] = {"device": device, "first_steps": FIRST_STEPS}
        first = field.enter(OURS, 1, **more).first
        if first["weights"] != weights:
            raise SamebitsError(
                f"{first['device']['name']} gives other bits than the CPU; a timing would be meaningless"
            )
        for peer in family.bench.gpu_peers if peers else ():
            absent += [row] if (row := field.enter_peer(peer, 1, first["losses"], **more)) else []
        for turn in range(ROUNDS):
            note(f"round {turn + 1} of {ROUNDS}")
            for contestant in field.contestants:
                contestant.take_turn(-(-steps // ROUNDS))
        rows = [contestant.row() for contestant in field.contestants]
    bound = bound_on(first["device"]["name"], family, resolve(family, config))
    for row in compared(rows):
        if bound:
            row |= {"bound": bound._asdict(), "of_bound": bound.most / row["median"]}
    return first["device"], rows + absent
