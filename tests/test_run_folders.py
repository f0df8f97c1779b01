"""Run folders from strangers: links, pipes, odd metrics. No command writes or reads outside of the folder."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import samebits as api
from samebits import files
from samebits.api import open_run
from samebits.errors import SamebitsError
from samebits.metrics import last_row, read_columns
from samebits.sweeping import check_run
from tests.fuzz.bases import tiny
from tests.helpers import samebits_here, snapshot
from tests.test_bad_input import refused

STEPS = 4
RESUME = ("resume", "--steps", STEPS + 1, "--workers", 1)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A finished automaton and a finished GPT. Tests copy them."""
    place = tmp_path_factory.mktemp("strangers")
    shared = {"steps": STEPS, "checkpoint_every": 2, "log_every": 1, "eval_every": 0, "keep": 1}
    for task in ("life", "gpt"):
        api.train(task, preset="small", workers=1, out=place / task, **{**tiny(task), **shared})
    return place


@pytest.fixture
def place(base, tmp_path):
    shutil.copytree(base, tmp_path / "place")
    (tmp_path / "place/outside").mkdir()
    return tmp_path / "place"


def link(place: Path, run: str, name: str) -> None:
    """Move a file or a folder of the run to outside/, or make a file there, and put a link in its place."""
    inner, outer = place / run / name, place / "outside" / Path(name).name
    inner.parent.mkdir(exist_ok=True)
    if inner.exists():
        shutil.move(inner, outer)
    else:
        outer.write_text("the user's own\n")
    inner.symlink_to(outer)


def on(place: Path, run: str, verb: str, *words: object):
    return samebits_here(verb, run, *words, cwd=place)


@pytest.mark.parametrize(
    ("run", "name", "words"),
    [
        ("gpt", "export/load_in_pytorch.py", ("export",)),
        ("gpt", "export/model.safetensors", ("export", "--to", "hf")),
        ("life", "pictures/rollout.png", ("render", "--steps", 2)),
        ("life", "pictures/rollout.gif", ("render", "--steps", 2)),
        ("life", "export/life_cell.v", ("export", "--no-prove", "--minimise", 0)),
        ("life", "plots/loss.png", RESUME),
    ],
)
def test_a_result_replaces_a_link_and_leaves_what_it_leads_to(place, run, name, words):
    link(place, run, name)
    before = snapshot(place / "outside")
    done = on(place, run, *words)
    assert done.returncode == 0, done.stderr
    assert snapshot(place / "outside") == before
    assert not (place / run / name).is_symlink()
    assert (place / run / name).stat().st_size > 100


@pytest.mark.parametrize(
    ("run", "name", "words"),
    [
        ("life", "metrics.csv", RESUME),
        ("life", "timing.csv", RESUME),
        ("life", ".lock", RESUME),
        ("life", "config.toml", RESUME),
        ("life", "checkpoints", RESUME),
        ("life", "checkpoints/step-4", RESUME),
        ("life", "checkpoints/step-4/state.json", RESUME),
        ("life", "checkpoints", ("eval",)),
        ("gpt", "checkpoints/step-4/arrays.safetensors", ("sample", "--tokens", 2)),
    ],
)
def test_a_link_in_place_of_a_runs_own_file_is_refused(place, run, name, words):
    link(place, run, name)
    before, inner = snapshot(place / "outside"), snapshot(place / run)
    refused(on(place, run, *words), "is a symbolic link")
    assert snapshot(place / "outside") == before
    assert (place / run / name).is_symlink()
    assert snapshot(place / run).keys() <= {*inner, ".lock"}


@pytest.mark.parametrize(
    ("run", "folder", "words"),
    [
        ("gpt", "export", ("export",)),
        ("gpt", "export", ("export", "--out", "gpt/export")),
        ("life", "pictures", ("render", "--steps", 2)),
        ("life", "pictures", ("render", "--steps", 2, "--out", "gpt/../life/pictures/sub")),
        ("life", "pictures", ("circuit",)),
        ("life", "plots", RESUME),
    ],
)
def test_a_link_in_place_of_a_folder_for_results_is_refused(place, run, folder, words):
    (place / run / folder).mkdir(exist_ok=True)
    link(place, run, folder)
    before = snapshot(place / "outside")
    done = on(place, run, *words)
    assert done.returncode == 2
    assert f"{run}/{folder} is a symbolic link" in done.stderr
    assert snapshot(place / "outside") == before


def test_links_of_the_users_own_are_followed(place):
    """Above the run folder, and where --out names one."""
    (place / "disk").mkdir()
    (place / "out").symlink_to(place / "disk")
    (place / "runs").symlink_to(place)
    (place / "again").symlink_to(place / "life")
    assert on(place, "again", *RESUME).returncode == 0
    assert on(place, "runs/gpt", "export", "--out", "out").returncode == 0
    assert (place / "disk/model.safetensors").is_file()
    assert on(place, "runs/gpt", "export").returncode == 0
    assert (place / "gpt/export/model.safetensors").is_file()
    (place / "compare.png").symlink_to(place / "disk/c.png")
    done = samebits_here("compare", "life", "gpt", "--metric", "lr", cwd=place)
    assert done.returncode == 0, done.stderr
    assert (place / "compare.png").is_symlink()
    assert (place / "disk/c.png").read_bytes()[1:4] == b"PNG"


def test_links_in_the_folder_of_a_sweep_are_refused(place):
    sweep = SimpleNamespace(path=place / "sweep", runs=[{}], folder=lambda index: place / "sweep/000")
    sweep.path.mkdir()
    (sweep.path / "000").symlink_to(place / "life")
    with pytest.raises(SamebitsError, match="sweep/000 is a symbolic link"):
        check_run(sweep, 0)
    (place / "outside/sweep.toml").write_text("[sweep]\n")
    (sweep.path / "sweep.toml").symlink_to(place / "outside/sweep.toml")
    refused(on(place, "sweep", "resume"), "sweep.toml is a symbolic link")


def test_a_second_name_of_metrics_is_not_appended_to(place):
    """A hard link cannot be told from the file itself, so training goes on with a copy."""
    for name in ("metrics.csv", "timing.csv"):
        os.link(place / "life" / name, place / "outside" / name)
    before = snapshot(place / "outside")
    assert on(place, "life", *RESUME).returncode == 0
    assert snapshot(place / "outside") == before
    assert read_columns(place / "life/metrics.csv")["step"].tolist() == [1, 2, 3, 4, 5]


def test_removing_a_folder_leaves_what_its_links_lead_to(place):
    (place / "outside/kept").write_text("kept")
    leftover = place / "life/checkpoints/.step-9.partial"
    leftover.mkdir()
    (leftover / "deep").symlink_to(place / "outside")
    (place / "life/checkpoints/.step-8.deleted").symlink_to(place / "outside")
    assert on(place, "life", *RESUME).returncode == 0
    assert snapshot(place / "outside") == {"kept": b"kept"}
    assert [path.name for path in (place / "life/checkpoints").iterdir()] == ["step-5"]


@pytest.mark.parametrize("name", ["metrics.csv", "timing.csv", "config.toml", ".lock", "checkpoints", "plots/loss.png"])
def test_a_pipe_is_refused_and_not_waited_for(place, name):
    path = place / "life" / name
    path.parent.mkdir(exist_ok=True)
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert on(place, "life", *RESUME).returncode == 2


def test_a_full_disk_leaves_what_was_exported_before(place):
    assert on(place, "gpt", "export").returncode == 0
    before = snapshot(place / "gpt/export")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        done = on(place, "gpt", "export")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    refused(done, "gpt/export/model.safetensors", "File too large")
    assert snapshot(place / "gpt/export") == before


def test_a_device_is_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "compare.png")
    with pytest.raises(SamebitsError, match="is a pipe; it must be a plain file"):
        files.write(tmp_path / "compare.png", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["compare.png"]


def test_a_stored_config_names_no_file(place):
    """target, start and rule may name files when training begins; a run folder holds what was read from them."""
    (place / "outside/secret.txt").write_text("...\n.#.\n...\n")
    path, text = place / "life/config.toml", (place / "life/config.toml").read_text()
    for key, old in (("rule", 'rule = "life"'), ("start", "start = ")):
        line = next(line for line in text.splitlines() if line.startswith(old))
        path.write_text(text.replace(line, f'{key} = "{place}/outside/secret.txt"'))
        with pytest.raises(SamebitsError, match=f"{key} is .*; a config keeps"):
            open_run(place / "life")


# metrics.csv

HEAD = "step,loss,eval_loss\n1,0.5,\n"


@pytest.mark.parametrize(
    "row",
    ["inf,1,2", "-1,1,2", "1e400,1,2", "9" * 400 + ",1,2", "9" * 16 + ",1,2", "nan,1,2", "1.5,1,2", ",1,2", "2,1",
     "2,1,2,3", "2,1e400,2", "2,1," + "9" * 400, "2,0x10,2", "2, 1,2", "2,infinity,2", "2,1_0,2", '2,"1",2', "2,\0,2",
     "2,1;2", "٢,1,2", "2,--1,2", "2,.,2", "", "2,1," + " " * 40_000],
)  # fmt: skip
def test_a_row_that_samebits_does_not_write_is_refused(tmp_path, row):
    path = tmp_path / "metrics.csv"
    for read in (read_columns, last_row):
        path.write_text(f"{HEAD}{row}\n", encoding="utf-8")
        with pytest.raises(SamebitsError, match=r"metrics\.csv is not as samebits wrote it"):
            read(path)


@pytest.mark.parametrize(
    "head", ["", "loss,step\n", "step,a,a\n", "step", "step,\x1b[2J\n", "step" + ",a" * 300 + "\n"]
)
def test_a_first_line_that_samebits_does_not_write_is_refused(tmp_path, head):
    (tmp_path / "metrics.csv").write_text(head)
    for read in (read_columns, last_row):
        with pytest.raises(SamebitsError, match=r"metrics\.csv is not as samebits wrote it"):
            read(tmp_path / "metrics.csv")


def test_all_numbers_that_training_can_come_to_are_read(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,a,b,c\n1,nan,inf,-inf\n20,1e-05,-2.5e+300,\n9007199254740992,,,7\n21,0.1")
    found = {name: values.tolist() for name, values in read_columns(path).items()}
    assert found["step"] == [1, 20, 2**53]
    assert repr(found["a"]) == "[nan, 1e-05, nan]"
    assert repr(found["b"]) == "[inf, -2.5e+300, nan]"
    assert repr(found["c"]) == "[-inf, nan, 7.0]"
    assert last_row(path) == {"step": 2**53, "c": 7}


def test_a_huge_empty_file_is_refused_at_once(place):
    for name in ("metrics.csv", "config.toml", "checkpoints/step-4/state.json"):
        path = place / "life" / name
        with path.open("r+b") as file:
            file.truncate(1 << 36)
    with pytest.raises(SamebitsError, match="a line has more than"):
        read_columns(place / "life/metrics.csv")
    refused(on(place, "life", "eval"), "life/config.toml", "larger than")
