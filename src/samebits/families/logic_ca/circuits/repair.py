"""The last mile of training: gates of the hard circuit are changed one by one, each time for fewer wrong cells.

Soft training can end with a circuit that is right as long as its gates are soft, and wrong in a few cells once they are
decided. What is left is a search over decided circuits, and they are cheap to judge exactly: 64 variants in the bits of
a word (repair_kernels.py), thousands of variants a second. So all circuits that differ in one gate are tried, the
best of them is kept, and so on. Where none is better, those that are hardly worse get a second change.

Everything here is whole numbers, and a tie goes to the gate that training was least sure of. So the result is the same
for any number of workers, on any device, and on every process of a group, each of which does all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.devices.cpu.workers import Workers
from samebits.families.logic_ca.circuits.circuit import READS_A, READS_B, full_circuit, gate_numbers
from samebits.families.logic_ca.circuits.repair_kernels import (
    BITS,
    PASS,
    Candidates,
    Cell,
    Trials,
    Variants,
    each_start_worker,
    judge_worker,
    plane_words,
    reach,
    vary,
)
from samebits.families.logic_ca.config import LogicConfig, gate_count
from samebits.families.logic_ca.data import REPAIR, LogicData, actions, judged, repair_boards, table_of
from samebits.families.logic_ca.simulation.packed import MASKS
from samebits.training.contract import Constants, Params

STARTS = 1024  # random ones that a circuit is judged by; training and evaluation draw others
MASKS_OF_FIRE = 32  # where cells update, or are cleared, at random
FEW = 32  # starts that all variants are tried on: half of them wrong ones
BEST = 64  # variants that are then tried on all starts
HOPEFUL = 32  # variants no better than the circuit that get a second change
NO_LIMIT = (1 << BITS) - 1
OWNER = "logic_ca.repair"


@dataclass
class Search:
    """The circuit as it stands, and what it is judged by."""

    config: LogicConfig
    logits: Array  # (G, 16) as trained
    ops: Array  # (G,) int64: what every gate is now
    cell: Cell
    numbers: Array  # (m,) gate of the parameters that each gate of the cell is
    trials: Trials
    workers: Workers

    def singles(self, ops: Array) -> Array:
        """(n, 1, 2): every other operation for every gate that can reach the picture; the least sure choices first."""
        m, n = len(self.numbers), len(self.cell.inputs)
        variants = Variants(np.empty((m, 4), np.uint64), np.empty((m, 2), bool), np.empty(m, np.int64))
        vary(variants, ops, np.empty((0, 0, 2), np.int64), self.cell)
        needed, live = np.empty(n + m, bool), np.empty(self.config.channels, bool)
        reach(needed, live, variants.reads, self.cell, self.trials.targets.shape[1])
        gates = np.unique(self.numbers[needed[n:]])
        found = np.column_stack([np.repeat(gates, 16), np.tile(np.arange(16), len(gates))])
        found = found[found[:, 1] != ops[found[:, 0]]]
        sure = self.logits[found[:, 0], ops[found[:, 0]]] - self.logits[found[:, 0], found[:, 1]]
        return found[np.argsort(sure, kind="stable")][:, None]

    def count(self, ops: Array, flips: Array, starts: Array, limit: int = NO_LIMIT) -> Array:
        """(n,) wrong cells of each variant from these starts; exact where that is at most `limit`, else above it."""
        counts = np.zeros(len(flips), np.int64)
        some = _subset(self.trials, starts)
        candidates = Candidates(ops, np.ascontiguousarray(flips))
        arguments = self._memory(), candidates, self.cell, some, limit
        self.workers.run(judge_worker, self.workers.tickets(), counts, *arguments)
        return counts

    def count_each(self, ops: Array) -> Array:
        """(B,) wrong cells from every start."""
        counts = np.zeros(len(self.trials.starts), np.int64)
        self.workers.run(each_start_worker, self.workers.tickets(), counts, self._memory(), ops, self.cell, self.trials)
        return counts

    def _memory(self) -> Array:
        config = self.config
        words = 2 * config.channels * plane_words(config.height, config.width) + (len(self.numbers) + 1) * PASS
        return self.workers.scratch(OWNER).per_worker("memory", words, np.uint64)


def _subset(trials: Trials, starts: Array) -> Trials:
    fire = trials.fire[starts % len(trials.fire)] if len(trials.fire) else trials.fire
    return trials._replace(starts=trials.starts[starts], targets=trials.targets[starts], fire=fire)


def cell_of(config: LogicConfig, wires: Mapping[str, Array]) -> tuple[Cell, Array]:
    """The gates of a cell, and which gate of the parameters each of them is."""
    circuit, numbers = full_circuit(config, np.zeros((gate_count(config), 16)), wires), gate_numbers(config)
    _, first, copies = np.unique(numbers, return_index=True, return_counts=True)  # copies lie side by side
    inputs, a, b, outputs = (part.astype(np.int64) for part in (circuit.inputs, circuit.a, circuit.b, circuit.outputs))
    reads = np.ascontiguousarray(np.array([READS_A, READS_B]).T)
    return Cell(inputs, a, b, outputs, first.astype(np.int64), copies.astype(np.int64), MASKS, reads), numbers


def trials_of(config: LogicConfig, loaded: LogicData) -> Trials:
    """What a circuit of this config is judged by: many starts, or the only ones there are."""
    boards = repair_boards(config, loaded, STARTS)
    masks = [table_of(actions(config, REPAIR, i)) for i in range(MASKS_OF_FIRE)]
    fire = np.stack(masks) if masks[0].size else np.zeros((0, 0, 0), np.uint8)
    if len(fire) > len(boards[0]):  # one start, hurt in many places
        repeated = np.arange(len(fire)) % len(boards[0])
        boards = boards[0][repeated], boards[1][repeated]
    starts, targets = (np.ascontiguousarray(np.moveaxis(part, 3, 1), np.uint8) for part in boards)
    return Trials(starts, targets, fire, judged(config), config.boundary == "periodic")


def best_change(search: Search, wrong: Array) -> Array | None:
    """(f, 2) the change of one gate, or of two, that leaves the fewest wrong cells; None where none was found."""
    ops, total = search.ops, int(wrong.sum())
    order = np.argsort(-wrong, kind="stable")  # the worst first: hopeless variants are soon given up
    bad = int((wrong > 0).sum())
    few = np.concatenate([order[: min(bad, FEW // 2)], order[bad : bad + FEW // 2]])
    singles, before = search.singles(ops), int(wrong[few].sum())
    counts = search.count(ops, singles, few, before - 1)
    promising = np.argsort(counts, kind="stable")[:BEST]
    promising = promising[counts[promising] < before]
    everywhere = singles[:0] if len(few) == len(order) else singles  # tried already
    for flips in (singles[promising], everywhere):
        overall = search.count(ops, flips, order, total - 1)
        if overall.size and overall.min() < total:
            return np.asarray(flips[np.argmin(overall)])
    # None alone: first those that change something and cost little.
    counts = search.count(ops, singles, few, 2 * before)
    costs = np.where(counts == before, NO_LIMIT, counts)
    for first in singles[np.argsort(costs, kind="stable")[:HOPEFUL]]:
        changed = ops.copy()
        changed[first[0, 0]] = first[0, 1]
        seconds = search.singles(changed)
        overall = search.count(changed, seconds, order, total - 1)
        if overall.min() < total:
            return np.concatenate([first, seconds[np.argmin(overall)]])
    return None


def repair(
    config: LogicConfig, wires: Mapping[str, Array], logits: Array, trials: Trials, workers: Workers,
    tell: Callable[[int], None] = lambda wrong: None,
) -> Array:  # fmt: skip
    """Logits (G, 16) whose hard circuit has fewer wrong cells in these trials, or as many; at most config.repair gates
    are changed. `tell` hears of the wrong cells left after each."""
    cell, numbers = cell_of(config, wires)
    ops = np.argmax(logits, axis=1).astype(np.int64)
    search = Search(config, logits, ops, cell, numbers, trials, workers)
    wrong, changes = search.count_each(ops), 0
    while wrong.any() and changes < config.repair:
        tell(int(wrong.sum()))
        change = best_change(search, wrong)
        if change is None:
            break
        ops[change[:, 0]] = change[:, 1]
        wrong, changes = search.count_each(ops), changes + len(change)
    return decide(logits, ops)


def finish(
    config: LogicConfig, constants: Constants, params: Params, data: LogicData, workers: Workers,
    tell: Callable[[dict[str, Any]], None],
) -> Params | None:  # fmt: skip
    """The parameters after the last step of the schedule; None: as they are."""
    if not config.repair:
        return None
    trials = trials_of(config, data)
    repaired = repair(
        config, constants, params.reshape(-1, 16), trials, workers, lambda left: tell({"wrong_cells": left})
    )
    return repaired.reshape(-1)


def decide(logits: Array, ops: Array) -> Array:
    """The logits with each gate's largest where `ops` says: a gate that is changed swaps two of them."""
    found, old = logits.copy(), np.argmax(logits, axis=1)
    for g in np.flatnonzero(ops != old):
        found[g, [old[g], ops[g]]] = logits[g, [ops[g], old[g]]]
        if np.argmax(found[g]) != ops[g]:  # another was as large, and comes first
            found[g, ops[g]] = np.nextafter(found[g].max(), np.inf, dtype=logits.dtype)
    return found
