"""A trained automaton to use from Python: plain NumPy in and out, grids of any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.checks import array, flag, refuse, whole
from samebits.devices.choose import device_for
from samebits.devices.cpu.workers import Workers, workers_for
from samebits.devices.interface import Device
from samebits.errors import SamebitsError
from samebits.families.logic_ca import automaton
from samebits.families.logic_ca.circuits.circuit import Circuit, full_circuit
from samebits.families.logic_ca.circuits.minimise import usual
from samebits.families.logic_ca.circuits.pruning import prune
from samebits.families.logic_ca.config import LogicConfig, gate_count, layout
from samebits.families.logic_ca.data import ALL_SOFT, ALWAYS, Boards
from samebits.families.logic_ca.gpu import kernels as gpu
from samebits.families.logic_ca.simulation.packed import are_bits, simulate
from samebits.families.logic_ca.tiling import Tiling, tiling
from samebits.report.notebook import model_card
from samebits.training.computation import computation
from samebits.training.contract import Batch, Constants
from samebits.training.params import check_model, views, weights_hash

if TYPE_CHECKING:
    from samebits.families.logic_ca.circuits.page import Animation

MOST_STEPS = 2**31 - 1
ANY_MEMORY = 1 << 40  # megabytes: grids of the caller are one wave, whatever their size
ROLLOUT: Mapping[str, Callable[..., Array]] = {"cpu": automaton.rolled_out, "gpu": gpu.rollout}


@dataclass(eq=False)
class LogicModel:
    """`params` maps names to arrays, wires included; the arrays of logits are views into `weights`."""

    config: LogicConfig
    weights: Array  # the flat vector
    constants: Constants
    params: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        check_model(LogicConfig, layout, self.config, self.weights, self.constants)
        self.params = {**views(layout(self.config), self.weights), **self.constants}
        self._read_from = np.zeros(0)  # the weights that the circuits below were read from
        self._pruned: Circuit | None = None
        self._smaller: Circuit | None = None

    def __repr__(self) -> str:
        config = self.config
        channels = f"{config.channels} channel{'s' if config.channels > 1 else ''}"
        size = f"{config.height}×{config.width} cells, {channels}, {gate_count(config):,} gates"
        return f"LogicModel({config.rule}, {size})"

    @property
    def pruned(self) -> Circuit:
        """The learned circuit with everything superfluous removed; all channels kept."""
        if self._pruned is None or not np.array_equal(self._read_from, self.weights):  # changed in place, perhaps
            self._read_from, self._smaller = self.weights.copy(), None
            self._pruned = prune(full_circuit(self.config, self.weights.reshape(-1, 16), self.constants))
        return self._pruned

    @property
    def circuit(self) -> Circuit:
        """The same with fewer gates still, where a few seconds of searching find any; searched for once."""
        pruned = self.pruned
        if self._smaller is None:
            self._smaller = usual(pruned)
        return self._smaller

    def rollout(
        self,
        grids: Array,
        steps: int,
        soft: bool = False,
        trajectory: bool = False,
        fire: Array | None = None,
        workers: int | str | Workers = "auto",
        device: str | Device = "cpu",
        packed: bool = True,
    ) -> Array:
        """The grids (B, H, W, C) after `steps` CA steps, or with `trajectory` all of them, (steps + 1, B, H, W, C).

        fire (steps, H, W): cells where it is 0 keep their state at that step; by default every cell updates.
        Hard gates on cells of 0 and 1 run with 64 cells in a machine word. `packed=False` takes the way that soft gates
        and cells in between take, gate by gate in floating point: the same bits, hundreds of times slower.
        """
        given, steps = self._check(grids), whole("steps", steps, 0, MOST_STEPS)
        soft, trajectory, packed = flag("soft", soft), flag("trajectory", trajectory), flag("packed", packed)
        masks = self._masks(fire, given, steps)
        run = self._packed if packed and not soft and are_bits(given) else self._gate_by_gate
        with device_for(device, workers) as used:
            try:
                return run(given, steps, soft, trajectory, masks, used)
            except MemoryError:
                if not trajectory:
                    raise
                rule = f"fewer, for all states of {given.size} numbers to fit into memory"
                raise refuse("steps", steps, rule, "go in parts, or without trajectory") from None

    def _packed(self, grids: Array, steps: int, soft: bool, trajectory: bool, masks: Array, device: Device) -> Array:
        """By the CPU, whatever the device: no other kernels are as fast."""
        fire = None if masks is ALWAYS else masks.reshape(steps, *grids.shape[1:3])
        given = self.pruned, grids, steps, self.config.boundary == "periodic", device.workers, fire
        if trajectory:
            return simulate(*given, every=1, visible=self.config.channels)[1].astype(self.weights.dtype)
        return simulate(*given).astype(self.weights.dtype)

    def _gate_by_gate(
        self, grids: Array, steps: int, soft: bool, trajectory: bool, masks: Array, device: Device
    ) -> Array:
        cells, plan, params = self._cells("grids", grids), self._plan(grids), device.upload(self.weights)
        run = automaton.Rollout(cells, masks, plan, steps)
        return ROLLOUT[device.kind](self.config, self.constants, params, run, soft, trajectory, device)

    def loss_and_gradient(
        self, grids: Array, targets: Array, fire: Array | None = None, workers: int | str | Workers = "auto"
    ) -> tuple[float, dict[str, Array]]:
        """Soft loss after config.ca_steps steps, and d loss / d logits by name. Targets (B, H, W) or (B, H, W, k)."""
        grids = self._cells("grids", self._check(grids))
        from samebits.families.logic_ca.family import FAMILY  # which imports this module

        masks = self._masks(fire, grids, self.config.ca_steps)
        boards = Boards(grids, self._targets(targets, grids), masks, ALL_SOFT)
        batch = Batch(boards, len(grids), 1.0)
        with workers_for(workers) as team:
            model = computation(FAMILY, self.config, self.constants, self.weights, team, slot_memory=ANY_MEMORY)
            loss, gradient = model.loss_and_gradient(batch)
            return loss, views(layout(self.config), gradient)

    def _repr_html_(self) -> str:
        """The model as a notebook shows it."""
        facts = {"channels": self.config.channels, "gates": sum(self.config.update), "boundary": self.config.boundary}
        return model_card("logic automaton", facts, self.weights.size, weights_hash(self.weights), self.params)

    def animate(self, grid: tuple[int, int] | None = None, height: int = 780) -> Animation:
        """The automaton to play with in a notebook: cells to paint on and to hurt, and the circuit of each.

        grid: height and width in cells; height: of the frame in pixels. It is what
        `--to html` of samebits export writes; `.page` is its HTML.
        """
        from samebits.families.logic_ca.circuits.page import animate

        return animate(self, grid, height)

    def _targets(self, targets: Array, grids: Array) -> Array:
        found = array("targets", targets, "biuf", "numbers (B, H, W) or (B, H, W, k)")
        wanted = found[..., None] if found.ndim == 3 else found
        if wanted.ndim != 4 or wanted.shape[:3] != grids.shape[:3] or not 1 <= wanted.shape[3] <= self.config.channels:
            raise SamebitsError(
                f"targets have shape {found.shape}; they must be (B, H, W) or (B, H, W, k) with the grids' "
                f"B, H, W = {grids.shape[:3]} and k at most {self.config.channels}"
            )
        return self._cells("targets", wanted)

    def _masks(self, fire: Array | None, grids: Array, steps: int) -> Array:
        if fire is None:
            return ALWAYS
        shape = (steps, *grids.shape[1:3])
        found = array("fire", fire, "biuf", "numbers (steps, H, W), 0 where a cell keeps its state")
        if found.shape != shape:
            raise SamebitsError(f"fire has shape {found.shape}; it must be (steps, H, W) = {shape}")
        if np.isnan(found).any():
            raise SamebitsError("fire holds nan; it must be 0 where a cell keeps its state, and 1 elsewhere; fix it")
        return (found != 0).astype(np.uint8).reshape(steps, shape[1] * shape[2])

    def _plan(self, grids: Array) -> Tiling:
        return tiling(len(grids), grids[0, ..., 0].size, self.config.lanes)

    def _check(self, grids: Array) -> Array:
        found = array("grids", grids, "biuf", f"numbers (B, H, W, C) with C = {self.config.channels}")
        if found.ndim != 4 or found.shape[3] != self.config.channels or 0 in found.shape:
            raise SamebitsError(
                f"grids have shape {found.shape}; they must be (B, H, W, C) with C = {self.config.channels}"
            )
        return found

    def _cells(self, name: str, found: Array) -> Array:
        if not (inside := (found >= 0) & (found <= 1)).all():
            raise SamebitsError(f"{name} hold {found[~inside][0]}; a cell is 0 or 1, or between for soft gates; fix it")
        return np.asarray(found, self.weights.dtype)
