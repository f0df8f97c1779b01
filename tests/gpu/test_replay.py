"""Recorded launches depend on the arguments of `replay` alone: no change of a config gets an old recording."""

from dataclasses import dataclass, make_dataclass
from functools import partial
from typing import NamedTuple, get_args

import numpy as np
import pytest

from samebits.arithmetic.arrays import frozen
from samebits.config import outside_hash, override
from samebits.devices.gpu.device import Gpu
from samebits.devices.gpu.fingerprints import Frozen, fingerprint
from samebits.errors import SamebitsError
from samebits.families import find_preset, find_task
from samebits.training.contract import Wave, Work, parameter_count

MOST = 1 << 18  # numbers in each memory that all configs share
TINY = {"steps": 4, "schedule_steps": 4}
CASES = [
    ("gpt", {"dropout": 0.3, "layers": 1, "context": 5, "width": 8, "batch_size": 2}),
    ("boolean", {"sinkhorn": 0.5, "layers": 1, "width": 4, "expressions": 12, "batch_size": 4, "unit_nodes": 8}),
    ("checkerboard-async", {"damage": 1, "damage_after": 1, "ca_steps": 2, "batch_size": 1, "harden_from": 0.0}),
]
# Where no neighbouring value is legal.
OTHERS = {
    "perceive": [(8, 4)], "update": [(10, 6, 3)], "loss_steps": [(1, 2)], "random_graphs": [(6, 7)],
    "labels": [("simplify", "and", "or", "not", "x", "y", "z", "T", "F", "more")], "operators": [(1, 3)],
    "larger": [(6, 8)], "relabels": [("T", "F", "not")], "aboves": [("not",)], "rights": [("T",)], "firsts": [("F",)],
}  # fmt: skip
TOGETHER = {"boolean": {"rule"}}  # goes with its labels


def legal_changes(family, config, leave_out):
    """Configs that differ from this one in a single key."""
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, bool):
            near = [not value]
        elif isinstance(value, int | float):
            near = [value + 1, value + 32, value / 2, value - 1]
        else:
            near = [one for one in get_args(field.annotation) if isinstance(one, str)]
        if name in leave_out:
            continue
        for other in [*OTHERS.get(name, ()), *near]:
            try:
                changed = family.prepare(override(config, {name: other}))
            except SamebitsError:
                continue
            if getattr(changed, name) != value:
                yield name, changed
                break


class Shared:
    """A device, and memory at the same places for every config."""

    def __init__(self, device):
        self.device, self.optimisers = device, {}
        self.params, self.slots, self.out = (device.vector(MOST, np.float32) for _ in range(3))
        self.losses, self.rows = (device.vector(4096, np.float64) for _ in range(2))

    def step(self, family, config):
        """All that a training step and an evaluation compute, as bytes."""
        device, kernels = self.device, family.kernels["gpu"]
        batch, constants = family.batch(config, family.load(config), 2), family.constants(config)
        groups, size, width = family.groups(config, batch), parameter_count(family, config), family.slot_size(config)
        units = int(groups.sum())
        wave = Wave(0, len(groups), 0, units)
        count = units >> (kernels.row_level(config, wave) if kernels.row_level else 0)
        params, out = self.params[:size], self.out[:size]
        params[:] = family.init(config, np.float32)
        slots, losses = self.slots[: count * width].reshape(count, width), self.losses[:units].reshape(units, 1)
        columns = len(family.metrics.columns)
        rows = self.rows[: units * columns].reshape(units, columns)
        for memory in (slots, losses, rows, out):
            device.clear(memory)
        work = Work(config, constants, params, {}, batch, wave, device)
        filled = kernels.gradient(work, slots, losses)
        if kernels.pull_back:
            kernels.pull_back(work, slots[0], out, filled.carried)
        else:
            out[:] = device.download(slots[0])
        kernels.evaluate(work, rows)
        found = [device.download(one).tobytes() for one in (slots, losses, rows, out)]
        optimiser = self.optimisers.setdefault(size, device.optimiser(params))
        device.clear(optimiser.first)
        device.clear(optimiser.second)
        optimiser.step(config, out, batch.divisor, 2, config.lr)
        return [*found, device.download(params).tobytes()]


@pytest.mark.cuda
@pytest.mark.parametrize(("task", "settings"), CASES, ids=[task for task, _ in CASES])
def test_no_change_of_a_config_is_answered_by_an_old_recording(gpu, task, settings, tmp_path):
    family, found = find_task(task)
    if task == "gpt":
        (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog; " * 9)
        settings = {**settings, "data": str(tmp_path / "text.txt")}
    config = family.prepare(override(found.checks[0], {**TINY, **settings}))
    shared, differ = Shared(gpu), []
    before = shared.step(family, config)
    changes = dict(legal_changes(family, config, TOGETHER.get(task, set()) | outside_hash(type(config))))
    for name, changed in changes.items():
        fresh = Gpu(gpu.backend)
        fresh._programs = gpu._programs  # compiled code is a function of its words
        wanted = Shared(fresh).step(family, changed)
        assert shared.step(family, config) == before, name  # recorded where all memory is now
        assert shared.step(family, changed) == wanted, name
        if wanted != before:
            differ.append(name)
    assert len(differ) > 10


class Pair(NamedTuple):
    x: object
    y: object = 0


@dataclass(frozen=True)
class Record:
    x: object


LIFE = find_preset("life", "small")
DIFFERENT = [
    0, False, 0.0, -0.0, 1, True, 1.0, None, "0", b"0", np.int32(0), np.int64(0), np.float32(0), (), (0,), ((0,),),
    (0, 0), Pair(0), Pair(0, 1), Pair(0.0), Record(0), Record(False), {}, {"x": 0}, {"x": 1}, {"y": 0},
    np.zeros(2, np.int32), np.zeros(2, np.float32), np.zeros((2, 1), np.int32), np.array([0, 1], np.int32),
    frozen(np.array([0, 2], np.int32)), LIFE, override(LIFE, {"lr": 0.5}), Frozen((0, 1)), Frozen((0, 2)),
]  # fmt: skip


def test_different_values_have_different_fingerprints():
    found = [fingerprint(value) for value in DIFFERENT]
    assert len(set(found)) == len(found)


def test_equal_values_have_equal_fingerprints():
    array = np.arange(6)
    for make in (
        lambda: Pair((1, array.copy()), {"x": 0.5}),
        lambda: override(LIFE, {"lr": 0.5}),
        lambda: Frozen(Pair(array.copy())),
        lambda: frozen(array.copy()),
    ):
        assert fingerprint(make()) == fingerprint(make())


def test_what_can_change_in_place_is_looked_at_every_time():
    array = np.zeros(3)
    view = array[1:]
    view.setflags(write=False)
    before = fingerprint(array), fingerprint(view)
    array[1] = 1
    assert fingerprint(array) != before[0]
    assert fingerprint(view) != before[1]
    with pytest.raises(ValueError, match="read-only"):
        frozen(array)[0] = 5


@pytest.mark.parametrize("value", [[0], {0}, object(), len, make_dataclass("Changing", ["x"])(0), (0, [0])])
def test_values_of_other_kinds_are_refused(value):
    with pytest.raises(TypeError, match="has no fingerprint"):
        fingerprint(value)


def test_functions_that_read_more_than_their_arguments_are_refused():
    device, outside = Gpu(None), 3
    for function in (lambda device: outside, device.clear, partial(Gpu.clear, device), Pair):
        with pytest.raises(TypeError, match="may read more than its arguments"):
            device.replay(function)


def test_constants_are_told_apart_by_their_content(gpu):
    scratch, content = gpu.scratch("a test of constants"), np.arange(4)
    first = scratch.constant(content)
    assert scratch.constant(content.copy()) is first
    assert scratch.constant(content, np.int32).dtype == np.int32
    content[0] = 9
    assert gpu.download(scratch.constant(content)).tolist() == [9, 1, 2, 3]
    assert gpu.download(first).tolist() == [0, 1, 2, 3]


def fill(device, out):
    """A write to memory is not recorded: what it leaves shows that this was called."""
    out[:] = 7


def test_memory_of_a_recording_is_not_given_to_another_array(gpu):
    """Or its address would be taken for the first one."""
    for _ in range(5):
        out = gpu.vector(3, np.float32)
        gpu.replay(fill, out)
        assert gpu.download(out).tolist() == [7] * 3
