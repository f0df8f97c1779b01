"""Our training step on a GPU beside the peers on the same GPU, in turns, as contest.py does it on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from samebits.bench.cases import OURS, ROUNDS, Row, compared
from samebits.bench.contest import Note, open_field
from samebits.bench.on_gpu import bound_on
from samebits.config import TrainConfig
from samebits.errors import SamebitsError
from samebits.training.contract import Family
from samebits.training.trainer import resolve

FIRST_STEPS = 6  # whose losses and weights are compared: peers capture a step after three, ours when one comes again


def gpu_contest(
    family: Family,
    config: TrainConfig,
    device: str,
    steps: int,
    proof: Callable[[], Mapping[str, Any]],
    peers: bool = False,
    note: Note = lambda text: None,
) -> tuple[Mapping[str, str], Mapping[str, Any], list[Row]]:
    """The GPU, what was proved, and a row a contestant. `proof` has the CPU's weights after FIRST_STEPS: ours here must
    be the same. It is made while the contestants get ready, since both compile for long, and before anything is timed.
    """
    absent: list[Row] = []
    with ThreadPoolExecutor(1) as beside, open_field(family, config, note) as field:
        proving = beside.submit(proof)
        more: dict[str, Any] = {"device": device, "first_steps": FIRST_STEPS}
        first = field.enter(OURS, 1, **more).first
        for peer in family.bench.gpu_peers if peers else ():
            absent += [row] if (row := field.enter_peer(peer, 1, first["losses"], **more)) else []
        note("the CPU's part: what must come out")
        proved = proving.result()
        if first["weights"] != proved["weights"]:
            raise SamebitsError(
                f"{first['device']['name']} gives other bits than the CPU; a timing would be meaningless"
            )
        for turn in range(ROUNDS):
            note(f"round {turn + 1} of {ROUNDS}")
            for contestant in field.contestants:
                contestant.take_turn(-(-steps // ROUNDS))
        rows = [contestant.row() for contestant in field.contestants]
    bound = bound_on(first["device"]["name"], family, resolve(family, config))
    for row in compared(rows):
        if bound:
            row |= {"bound": bound._asdict(), "of_bound": bound.most / row["median"]}
    return first["device"], proved, rows + absent
