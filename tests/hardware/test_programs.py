"""Exported files run by others: a C compiler, Verilator, Icarus, yosys and nextpnr. Bit for bit as the rollout."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from samebits.config import override
from samebits.errors import SamebitsError
from samebits.families.logic_ca import measure_hardware
from samebits.families.logic_ca.circuits import export
from samebits.families.logic_ca.circuits.on_fpga import fpga
from samebits.families.logic_ca.model import LogicModel
from samebits.hardware import programs
from samebits.hardware.writers import bench
from tests.hardware.models import drawn, learned, smaller

pytestmark = pytest.mark.hardware


# Task and boundary: all cells at once and by fire masks, on a torus and with zeros outside.
CASES = [
    ("life", "periodic"),
    ("checkerboard", "zeros"),
    ("checkerboard-async", "zeros"),
    ("checkerboard-async", "periodic"),
]


def case(task, boundary):
    model = learned(task)
    model = LogicModel(override(model.config, {"boundary": boundary}), model.weights, model.constants)
    return model, export.cell_of(model, smaller(task), "thing", "")


@pytest.mark.parametrize(("simulator", "size", "steps"), [("verilator", (64, 64), 1000), ("icarus", (12, 17), 100)])
@pytest.mark.parametrize(("task", "boundary"), CASES)
def test_simulated_grids_are_the_rollout(task, boundary, simulator, size, steps, tmp_path):
    model, cell = case(task, boundary)
    states, fire = export.bench_vectors(model, cell, size, steps)
    words = programs.build_simulation(cell, size, states, fire, simulator, tmp_path)
    checks = (steps + 1) * len(cell.channels) + size[0] * size[1] * len(cell.channels)
    assert f"thing: 0 of {checks} comparisons wrong" in programs.run_simulation(words, tmp_path)
    for seed in (1, 2):  # other starts, and masks, for the same program
        states, fire = export.bench_vectors(model, cell, size, steps, seed)
        for name, content in bench.files(cell, *size, states, fire).items():
            (tmp_path / name).write_bytes(content)
        assert f"thing: 0 of {checks} comparisons wrong" in programs.run_simulation(words, tmp_path)


def test_a_simulator_notices_a_wrong_state(tmp_path):
    model = learned("life")
    cell = export.cell_of(model, smaller("life"), "thing", "")
    states, fire = export.bench_vectors(model, cell, (8, 9), 5)
    states[3, 0, 17] ^= 1
    words = programs.build_simulation(cell, (8, 9), states, fire, "icarus", tmp_path)
    with pytest.raises(SamebitsError, match="1 of 78 comparisons wrong"):
        programs.run_simulation(words, tmp_path)


def emptied(path):
    path.write_bytes(b"")


def shortened(path):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def unknown(path):
    path.write_bytes(re.sub(rb"[0-9a-f]", b"x", path.read_bytes()))


@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize(("task", "boundary"), [("life", "periodic"), ("checkerboard-async", "zeros")])
def test_a_bench_fails_without_its_data_and_in_another_folder(task, boundary, simulator, tmp_path):
    """The all-zero state is a fixed point of Life: a bench that loaded nothing must not count that as equal."""
    model, cell = case(task, boundary)
    states, fire = export.bench_vectors(model, cell, (8, 9), 5)
    words = programs.build_simulation(cell, (8, 9), states, fire, simulator, tmp_path)
    assert "thing: 0 of" in programs.run_simulation(words, tmp_path)
    for data in sorted(tmp_path.glob("*.mem")):
        raw = data.read_bytes()
        for damage in (Path.unlink, emptied, shortened, unknown):
            damage(data)
            with pytest.raises(SamebitsError, match=f"{data.name} is missing, incomplete or changed"):
                programs.run_simulation(words, tmp_path)
            data.write_bytes(raw)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    program = tmp_path / words[-1]
    with pytest.raises(SamebitsError, match=r"run this in the folder of thing_states\.mem"):
        programs.run_simulation([*words[:-1], str(program)], elsewhere)


def broken_grids(text):
    """Each gate's operation changed, each register that never takes its next state, each that is unknown."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        head, _, tail = line.partition(" = ")
        if re.search(r"\bg[0-9]+$", head):
            yield "\n".join([*lines[:i], f"{head} = ~({tail.removesuffix(';')});", *lines[i + 1 :]])
        if "else if (step)" in line:
            yield "\n".join([*lines[:i], *lines[i + 1 :]])
            yield "\n".join([*lines[:i], re.sub("<= .*;", "<= 'bx;", line), *lines[i + 1 :]])


@pytest.mark.parametrize(("task", "boundary"), [("life", "periodic"), ("checkerboard-async", "zeros")])
def test_a_bench_fails_on_every_broken_grid(task, boundary, tmp_path):
    """Under Icarus each gate in turn; a broken grid that also loads nothing fails as well."""
    model, cell = case(task, boundary)
    vectors = export.bench_vectors(model, cell, (8, 9), 5)
    programs.build_simulation(cell, (8, 9), *vectors, "icarus", tmp_path)
    source = tmp_path / "thing_grid.v"
    grids = list(broken_grids(source.read_text()))
    assert len(grids) >= len(cell.ops) + 2
    command = ["iverilog", "-g2005", "-o", "simulation", source.name, "thing_bench.v"]
    for text in grids:
        source.write_text(text)
        subprocess.run(command, cwd=tmp_path, check=True)
        with pytest.raises(SamebitsError, match=r"[1-9][0-9]* of [0-9]+ comparisons wrong"):
            programs.run_simulation(["vvp", "simulation"], tmp_path)
    for data in tmp_path.glob("*.mem"):
        data.unlink()
    with pytest.raises(SamebitsError, match="is missing, incomplete or changed"):
        programs.run_simulation(["vvp", "simulation"], tmp_path)


def test_verilator_notices_a_broken_cell(tmp_path):
    model, cell = case("life", "periodic")
    states, fire = export.bench_vectors(model, cell, (8, 9), 5)
    broken = replace(cell, ops=(cell.ops[0] ^ 15, *cell.ops[1:]))
    words = programs.build_simulation(broken, (8, 9), states, fire, "verilator", tmp_path)
    with pytest.raises(SamebitsError, match=r"[1-9][0-9]* of 78 comparisons wrong"):
        programs.run_simulation(words, tmp_path)


@pytest.mark.parametrize("simulator", ["With Icarus", "With Verilator"])
def test_the_commands_in_the_head_of_a_bench_run(simulator, tmp_path):
    """As exported by the command line, typed as written; in another folder they fail."""
    model = learned("life")
    export.export(model, "verilog", tmp_path / "out", name="life", grid=(7, 5), prove=False)
    text = (tmp_path / "out/life_bench.v").read_text()
    assert str(tmp_path / "out") in text
    head = re.sub(r"\n// (?=&&)", " ", text)
    command = re.search(rf"// {simulator}: (.*)", head)[1]
    right = subprocess.run(command, shell=True, cwd=tmp_path / "out", capture_output=True, text=True)
    assert right.returncode == 0
    assert "life: 0 of 68 comparisons wrong" in right.stdout
    for source in ("life_grid.v", "life_bench.v"):
        shutil.copy(tmp_path / "out" / source, tmp_path)
    wrong = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert wrong.returncode != 0
    assert "comparisons" not in wrong.stdout


@pytest.mark.parametrize("size", [(64, 64), (5, 70), (3, 3), (9, 128), (70, 63)])
@pytest.mark.parametrize(("task", "boundary"), CASES)
def test_the_c_header_is_the_rollout(task, boundary, size, tmp_path):
    model, cell = case(task, boundary)
    states, fire = export.bench_vectors(model, cell, size, 40)
    masks = None if fire is None else fire.reshape(40, *size)
    K = len(cell.channels)
    found, _ = programs.run_c(programs.build_c(cell, tmp_path), states[0].reshape(K, *size), 40, masks)
    np.testing.assert_array_equal(found.reshape(K, -1), states[-1])


def test_the_c_header_of_random_gates_compiles(tmp_path):
    for name, called in (("zeros", "thing"), ("life", "9"), ("asynchronous", "int")):
        model = drawn(name, 2)
        cell = export.cell_of(model, model.pruned, called, "")
        programs.build_c(cell, tmp_path)


@pytest.mark.parametrize("device", ["ice40-hx8k", "ecp5-85k"])
@pytest.mark.parametrize("task", ["life", "checkerboard"])
def test_place_and_route(task, device, tmp_path):
    found = fpga(learned(task), device, tmp_path / "out", name=task, grid=(12, 12), tell=print)
    print("\n".join(found.lines))
    assert any(line.startswith("maximum clock") for line in found.lines)
    bitstream, verilog, picture = found.paths
    assert bitstream.stat().st_size > 100_000
    assert "module" in verilog.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_was_exported_is_timed_beside_our_simulator(monkeypatch):
    monkeypatch.setattr(measure_hardware, "CELL_UPDATES", 1000)
    monkeypatch.setattr(measure_hardware, "VERILATOR_STEPS", 10)
    found = measure_hardware.measured(learned("life"), sides=(16,), verilated=16)
    assert {row["system"] for row in found.rows} == {"samebits", "C, cc -O3", "Verilator"}
    assert "not installed" not in found.proof
    monkeypatch.setattr("shutil.which", lambda name: None)
    found = measure_hardware.measured(learned("life"), sides=(16,))
    assert {row["system"] for row in found.rows} == {"samebits"}
    assert "verilator is not installed, and not timed" in found.proof
