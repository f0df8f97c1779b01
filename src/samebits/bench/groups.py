"""One process with many workers beside many processes with few: `samebits bench TASK --processes N`."""

from __future__ import annotations

from samebits.bench.cases import OURS, ROUNDS, Row
from samebits.bench.contest import Contestant, Note, open_field
from samebits.config import TrainConfig
from samebits.errors import SamebitsError
from samebits.training.contract import Family


def compare_groups(
    family: Family, config: TrainConfig, processes: int, workers: int, steps: int, peers: bool, note: Note
) -> list[Row]:
    """Ours as one process and as several, and the peers that can do that too, in turns; the same weights first."""
    rows: list[Row] = []
    with open_field(family, config, note) as field:
        alone = field.enter(OURS, processes * workers)
        group = field.enter(OURS, workers, processes=processes)
        if alone.first["weights"] != group.first["weights"]:
            raise SamebitsError(f"{processes} processes give other bits than one; a timing would be meaningless")
        for peer in family.bench.peers if peers else ():
            if peer.distributed is not None:
                several = peer._replace(options=peer.distributed)
                if absent := field.enter_peer(several, workers, alone.first["losses"], processes=processes):
                    note(f"{peer.name} left out: {absent['absent']}")
        timed = list(field.contestants)
        for turn in range(ROUNDS):
            note(f"round {turn + 1} of {ROUNDS}")
            for contestant in timed:
                contestant.take_turn(-(-steps // ROUNDS))
        rows = [_row(contestant) for contestant in timed]
    for row in rows:
        row["of_one_process"] = rows[0]["median"] / row["median"]
    return rows


def _row(contestant: Contestant) -> Row:
    return {**contestant.row(), "processes": contestant.spec.processes}
