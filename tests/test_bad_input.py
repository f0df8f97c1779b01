"""What a user can get wrong: exit 2, one message that names the value and a remedy, and nothing written."""

from __future__ import annotations

import fcntl
import json
import re
import shutil

import numpy as np
import pytest

import samebits as api
from tests.helpers import samebits, samebits_here, sets, snapshot, weights_line

SMALL = ["--preset", "small", "--workers", "1"]
TRAIN = ["train", "life", *SMALL, "--out", "new"]
STEPS = 12


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder with a finished run, checkpoints at 4, 8 and 12, and files that are wrong. Tests copy it."""
    place = tmp_path_factory.mktemp("base")
    every = sets(log_every=1, checkpoint_every=4, eval_every=0)
    done = samebits_here("train", "life", *SMALL, *every, "--steps", STEPS, "--out", "run", cwd=place)
    assert done.returncode == 0, done.stderr
    (place / "file").write_text("mine")
    (place / "unclosed.toml").write_text("lr = 0.1\n[config\n")
    (place / "unknown.toml").write_text("weight_decoy = 0.1\n")
    (place / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (place / "number.toml").write_text("config = 3\n")
    (place / "full").mkdir()
    (place / "full/precious.txt").write_text("mine")
    return place


@pytest.fixture(scope="module")
def reference(base):
    """The undisturbed run: (weights, metrics.csv)."""
    run = base / "run"
    return weights_line(samebits_here("resume", "run", cwd=base).stdout), (run / "metrics.csv").read_bytes()


@pytest.fixture
def place(base, reference, tmp_path):
    """A fresh copy of that folder to be wrong in."""
    shutil.copytree(base, tmp_path / "place")
    return tmp_path / "place"


def refused(done, *words):
    """Exit 2; one line on standard error besides progress, with every word in it; no hash claimed.

    What compiles in the test that happens to be first says so on a line of its own.
    """
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert "weights sha256" not in done.stdout
    lines = [line for line in done.stderr.splitlines() if not re.match(r"step \d+/\d+ |compiling kernels", line)]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("samebits: ")
    for word in words:
        assert word in lines[0]
    return lines[0]


@pytest.mark.parametrize(("name", "value"), [("RANK", "x"), ("WORLD_SIZE", "0")])
def test_stray_variables_of_torchrun_are_refused(name, value, place, monkeypatch):
    given = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1", name: value}
    for key, one in given.items():
        monkeypatch.setenv(key, one)
    refused(samebits_here(*TRAIN, cwd=place), f"{name} is '{value}'", "torchrun sets it")


CASES = {
    "misspelt task": (["train", "chekerboard"], "'chekerboard'", "did you mean checkerboard", "samebits tasks"),
    "no such task": (["train", "zzz"], "'zzz'", "checkerboard", "life", "samebits tasks"),
    "no such task to verify": (["verify", "lyfe"], "'lyfe'", "did you mean life"),
    "no such task to time": (["bench", "lyfe"], "'lyfe'", "did you mean life"),
    "no such task to profile": (["profile", "lyfe"], "'lyfe'", "did you mean life"),
    "misspelt preset": (["train", "life", "--preset", "smal"], "'smal'", "did you mean small"),
    "misspelt key": ([*TRAIN, *sets(batchsize=3)], "'batchsize'", "did you mean", "batch_size"),
    "no such key": ([*TRAIN, *sets(qqqq=3)], "'qqqq'", "known: batch_size"),
    "set without a value": ([*TRAIN, "--set", "lr"], "'lr'", "key=value", "--set lr=0.05"),
    "set without a key": ([*TRAIN, "--set", "=3"], "'=3'", "key=value"),
    "value of another type": ([*TRAIN, *sets(lr="fast")], "lr is 'fast'", "number", "--set lr="),
    "value not a number": ([*TRAIN, *sets(lr="nan")], "lr is nan", "finite", "--set lr="),
    "value not allowed": ([*TRAIN, *sets(schedule="linear")], "'linear'", "cosine", "--set schedule="),
    "two values wrong": ([*TRAIN, *sets(lr=0, hold=2)], "lr is 0", "hold is 2"),
    "workers 0": ([*TRAIN, "--workers", "0"], "workers is '0'", "from 1", "--workers auto"),
    "workers -1": ([*TRAIN, "--workers", "-1"], "workers is '-1'", "from 1", "--workers auto"),
    "workers abc": ([*TRAIN, "--workers", "abc"], "workers is 'abc'", "--workers auto"),
    "workers 1.5": ([*TRAIN, "--workers", "1.5"], "workers is '1.5'", "--workers auto"),
    "workers a slipped digit": ([*TRAIN, "--workers", "99999"], "workers is '99999'", "4096", "--workers auto"),
    "workers of eval": (["eval", "run", "--workers", "0"], "workers is '0'", "--workers auto"),
    "workers of render": (["render", "run", "--workers", "0"], "workers is '0'", "--workers auto"),
    "workers of resume": (["resume", "run", "--workers", "0"], "workers is '0'", "--workers auto"),
    "workers of profile": (["profile", "life", "--workers", "0"], "workers is '0'", "--workers auto"),
    "workers of verify": (["verify", "life", "--workers", "1,0"], "workers is '0'", "--workers auto"),
    "workers twice": (["verify", "life", "--workers", "2,1,2"], "'2,1,2'", "list each once"),
    "workers of bench": (["bench", "life", "--workers", "1,,2"], "workers is ''", "--workers auto"),
    "steps 0": ([*TRAIN, "--steps", "0"], "steps is 0", "1", "--steps"),
    "batch 0": ([*TRAIN, "--batch-size", "0"], "batch_size is 0", "1", "--batch-size"),
    "seed -1": ([*TRAIN, "--seed", "-1"], "seed is -1", "0", "--seed"),
    "keep 0": ([*TRAIN, "--keep", "0"], "keep is 0", "1", "--keep"),
    "a wiring that cannot be made": (
        ["train", "checkerboard", *SMALL, *sets(update="[100,8]")],
        "100 gates on 264 inputs",
        "at least 132 gates",
    ),
    "more gates than pairs": ([*TRAIN, *sets(update="[100,1]")], "100 gates on 9 inputs", "at most 36 gates"),
    "update not ending in channels": ([*TRAIN, *sets(update="[8,4,2]")], "update ends with 2", "channels, 1"),
    "perceive not starting with 8": ([*TRAIN, *sets(perceive="[4,2]")], "perceive starts with 4", "with 8"),
    "a layer without gates": ([*TRAIN, *sets(update="[0,1]")], "from 1 to"),
    "min_lr above lr": ([*TRAIN, *sets(min_lr=1)], "min_lr is 1", "lr, 0.05"),
    "life with more channels": (
        [*TRAIN, *sets(channels=2, update="[16,8,2]", kernels=4)],
        "channels is 2",
        "--set channels=1",
    ),
    "out is full": (["train", "life", *SMALL, "--out", "full"], "--out full", "not empty", "another name"),
    "out is a run": (["train", "life", *SMALL, "--out", "run"], "--out run", "a run already", "samebits resume run"),
    "out is a file": (["train", "life", *SMALL, "--out", "file"], "--out file", "another name"),
    "out below a file": (["train", "life", *SMALL, "--out", "file/new"], "--out file/new", "choose another folder"),
    "data where there is none": ([*TRAIN, "--data", "x"], "--data", "life", "leave it out"),
    "init-from where there is none": ([*TRAIN, "--init-from", "x"], "--init-from", "life", "leave it out"),
    "config that is not there": ([*TRAIN, "--config", "none.toml"], "none.toml", "name a TOML file"),
    "config a folder": ([*TRAIN, "--config", "full"], "cannot read full", "name a TOML file"),
    "config not TOML": ([*TRAIN, "--config", "unclosed.toml"], "unclosed.toml", "line 2", "fix that line"),
    "config not text": ([*TRAIN, "--config", "binary.toml"], "binary.toml", "name a TOML file"),
    "config with a misspelt key": ([*TRAIN, "--config", "unknown.toml"], "'weight_decoy'", "mean weight_decay"),
    "resume nothing": (["resume", "none"], "none does not exist", "samebits train"),
    "resume no run": (["resume", "full"], "full is not a run folder", "config.toml", "samebits train"),
    "resume a file": (["resume", "file"], "file is not a run folder", "samebits train"),
    "resume back": (["resume", "run", "--steps", "5"], "steps is 5", "the checkpoint is at step 12", "at least 12"),
    "resume to step 0": (["resume", "run", "--steps", "0"], "steps is 0", "--steps"),
    "resume keep 0": (["resume", "run", "--keep", "0"], "keep is 0", "--keep"),
    "no such checkpoint": (["resume", "run", "--checkpoint", "7"], "'7'", "last, best or one of 4, 8, 12"),
    "no best checkpoint": (["resume", "run", "--checkpoint", "best"], "no best checkpoint", "--checkpoint last"),
    "eval nothing": (["eval", "none"], "none does not exist", "samebits train"),
    "eval no such checkpoint": (["eval", "run", "--checkpoint", "x"], "'x'", "one of 4, 8, 12"),
    "render nothing": (["render", "none"], "none does not exist", "samebits train"),
    "render grid 64": (["render", "run", "--grid", "64"], "grid is '64'", "--grid 64x64"),
    "render grid 0x9": (["render", "run", "--grid", "0x9"], "grid is 0x9", "at least 3", "--grid"),
    "render grid axb": (["render", "run", "--grid", "axb"], "grid is 'axb'", "--grid 64x64"),
    "render grid -3x9": (["render", "run", "--grid", "-3x9"], "grid is '-3x9'", "--grid 64x64"),
    "render too large": (["render", "run", "--grid", "99999x99999"], "grid is 99999x99999", "another --grid"),
    "render too long": (["render", "run", "--steps", "999999999"], "999999999 steps", "fewer --steps"),
    "render no steps": (["render", "run", "--steps", "0"], "steps is 0", "set --steps"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused(place, case):
    args, *words = CASES[case]
    before = snapshot(place)
    refused(samebits_here(*args, cwd=place), *words)
    assert snapshot(place) == before


@pytest.mark.parametrize("case", ["misspelt task", "workers -1", "out is full", "resume no run"])
def test_a_real_process_refuses_alike(place, case):
    args, *words = CASES[case]
    before = snapshot(place)
    done = samebits(*args, cwd=place)
    refused(done, *words)
    assert done.stdout == ""
    assert snapshot(place) == before


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ((*TRAIN, "--steps", "abc"), "--steps"),
        ((*TRAIN, "--no-such-option"), "--no-such-option"),
        (("train",), "TASK"),
        (("no-such-verb",), "no-such-verb"),
        (("verify", "life", "--steps", "0"), "--steps"),
        (("render", "run", "--seed", "-1"), "--seed"),
    ],
)
def test_what_the_parser_refuses(place, args, word):
    """Typer prints these in its own form; still exit 2, no traceback, nothing written."""
    before = snapshot(place)
    done = samebits_here(*args, cwd=place)
    assert done.returncode == 2
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert snapshot(place) == before


def test_a_run_in_use_is_refused(place):
    """Another process holds the lock: resume is refused and changes nothing; looking is allowed."""
    before = snapshot(place)
    with (place / "run/.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        refused(samebits("resume", "run", cwd=place), "run is in use by another samebits process", "wait for it")
        refused(samebits_here("resume", "run", "--steps", 20, cwd=place), "run is in use")
        assert samebits_here("eval", "run", cwd=place).returncode == 0
        assert snapshot(place) == before
    assert samebits_here("resume", "run", cwd=place).returncode == 0


def test_a_new_folder_in_use_is_refused(place):
    (place / "new").mkdir()
    with (place / "new/.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        refused(samebits_here(*TRAIN, cwd=place), "new is in use", "another --out")
    assert snapshot(place / "new") == {".lock": b""}


def cut_short(run):
    path = run / "checkpoints/step-12/arrays.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def change_a_byte(name):
    def change(run):
        path = run / "checkpoints/step-12" / name
        content = bytearray(path.read_bytes())
        place = content.index(b'"step": 12') + 9 if name == "state.json" else len(content) // 2
        content[place] ^= 1
        path.write_bytes(content)

    return change


def lengthen(run):
    with (run / "checkpoints/step-12/arrays.safetensors").open("ab") as file:
        file.write(b"\0")


def cut_state_short(run):
    path = run / "checkpoints/step-12/state.json"
    path.write_bytes(path.read_bytes()[:100])


def replace_state(content):
    return lambda run: (run / "checkpoints/step-12/state.json").write_text(json.dumps(content))


def lose(name):
    return lambda run: (run / "checkpoints/step-12" / name).unlink()


def empty(run):
    shutil.rmtree(run / "checkpoints/step-12")
    (run / "checkpoints/step-12").mkdir()


def from_another_run(run):
    """A sound checkpoint, but of a run with another lr."""
    settings = {"steps": STEPS, "lr": 0.01, "eval_every": 0}
    other = api.train("life", preset="small", workers=1, out=run.parent / "other", **settings)
    shutil.rmtree(run / "checkpoints/step-12")
    shutil.copytree(other.path / "checkpoints/step-12", run / "checkpoints/step-12")


DAMAGE = {
    "arrays cut short": (cut_short, "is cut short: arrays.safetensors has"),
    "arrays emptied": (lambda run: (run / "checkpoints/step-12/arrays.safetensors").write_bytes(b""), "is cut short"),
    "a byte of the arrays changed": (change_a_byte("arrays.safetensors"), "was altered: arrays.safetensors"),
    "arrays with a byte more": (lengthen, "was altered: arrays.safetensors"),
    "a byte of the state changed": (change_a_byte("state.json"), "was altered: state.json"),
    "state cut short": (cut_state_short, "was cut short or altered: state.json"),
    "state another thing": (
        replace_state([1, 2]),
        "was altered, or written by another version of samebits: state.json",
    ),
    "state without its hash": (
        replace_state({"state": {}}),
        "was altered, or written by another version of samebits: state.json",
    ),
    "arrays lost": (lose("arrays.safetensors"), "is incomplete: cannot read arrays.safetensors"),
    "state lost": (lose("state.json"), "is incomplete: cannot read state.json"),
    "an empty folder": (empty, "is incomplete: cannot read state.json"),
    "of another config": (from_another_run, "is of another config than this run's config.toml"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_bad_checkpoint_is_refused_and_the_previous_one_works(place, reference, case):
    """The message says what is wrong and names step-8; from there the run ends with the undisturbed bits."""
    damage, problem = DAMAGE[case]
    damage(place / "run")
    before = snapshot(place)
    for verb in ("resume", "eval", "render"):
        message = refused(samebits_here(verb, "run", cwd=place), f"checkpoint run/checkpoints/step-12 {problem}")
        assert message.endswith("the previous good one is step-8: add --checkpoint 8")
    assert snapshot(place) == before
    assert samebits_here("eval", "run", "--checkpoint", 8, cwd=place).returncode == 0
    done = samebits_here("resume", "run", "--checkpoint", 8, cwd=place)
    assert done.returncode == 0, done.stderr
    assert weights_line(done.stdout) == reference[0]
    assert (place / "run/metrics.csv").read_bytes() == reference[1]
    assert weights_line(samebits_here("resume", "run", cwd=place).stdout) == reference[0]


def test_the_previous_good_one_is_not_just_the_previous_one(place, reference):
    change_a_byte("arrays.safetensors")(place / "run")
    (place / "run/checkpoints/step-8/state.json").unlink()
    assert refused(samebits_here("resume", "run", cwd=place)).endswith("is step-4: add --checkpoint 4")
    done = samebits("resume", "run", "--checkpoint", 4, "--workers", 2, cwd=place)
    assert weights_line(done.stdout) == reference[0]
    assert (place / "run/metrics.csv").read_bytes() == reference[1]


def test_when_no_checkpoint_is_good_the_message_says_so(place):
    for step in (4, 8, 12):
        (place / f"run/checkpoints/step-{step}/state.json").write_text("{")
    refused(samebits_here("resume", "run", cwd=place), "step-12", "no earlier checkpoint", "train anew")


def test_an_edited_config_is_refused(place, reference):
    """No checkpoint is of that config; the remedy is the old file."""
    path = place / "run/config.toml"
    kept = path.read_text()
    assert "\nlr = 0.05\n" in kept
    path.write_text(kept.replace("\nlr = 0.05\n", "\nlr = 0.04\n"))
    before = snapshot(place)
    words = "step-12 is of another config than this run's config.toml", "restore the file it was made with"
    refused(samebits_here("resume", "run", cwd=place), *words)
    refused(samebits_here("eval", "run", cwd=place), *words)
    assert snapshot(place) == before
    path.write_text(kept)
    assert weights_line(samebits_here("resume", "run", cwd=place).stdout) == reference[0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('family = "logic_ca"', 'family = "gpt5"', ("'gpt5'", "known: ", "logic_ca")),
        ("batch_size = 20", "batch_size = -1", ("batch_size is -1",)),
        ("batch_size = 20", "bach_size = 20", ("'bach_size'", "did you mean batch_size")),
        ("[config]", "[config", ("config.toml is not valid TOML", "fix that line")),
    ],
)
def test_a_spoilt_config_is_refused(place, old, new, words):
    path = place / "run/config.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    before = snapshot(place)
    for verb in ("resume", "eval", "render"):
        refused(samebits_here(verb, "run", cwd=place), *words)
    assert snapshot(place) == before


@pytest.mark.parametrize("content_only", [True, False])
def test_without_checkpoints_there_is_nothing_to_load_but_resume_starts_anew(place, reference, content_only):
    folder = place / "run/checkpoints"
    shutil.rmtree(folder)
    if content_only:
        folder.mkdir()
    before = snapshot(place)
    words = "there is no checkpoint in run/checkpoints", "samebits resume"
    for args in (("eval", "run"), ("render", "run"), ("resume", "run", "--checkpoint", "8")):
        refused(samebits_here(*args, cwd=place), *words)
    assert snapshot(place) == before
    done = samebits_here("resume", "run", cwd=place)
    assert weights_line(done.stdout) == reference[0]
    assert (place / "run/metrics.csv").read_bytes() == reference[1]


def test_lost_rows_of_metrics_are_noticed(place, reference):
    """As after a power cut: too few rows for the last checkpoint, enough for an earlier one."""
    path = place / "run/metrics.csv"
    path.write_bytes(path.read_bytes()[:-100])
    before = snapshot(place)
    refused(samebits_here("resume", "run", cwd=place), "metrics.csv is shorter", "earlier --checkpoint")
    assert snapshot(place) == before
    done = samebits_here("resume", "run", "--checkpoint", 8, cwd=place)
    assert weights_line(done.stdout) == reference[0]
    assert path.read_bytes() == reference[1]


DIVERGING = ["train", "life", *SMALL, *sets(lr=1e38, log_every=1, checkpoint_every=1, eval_every=0), "--out", "new"]


def test_a_nan_stops_the_run_and_names_step_and_tensor(place):
    message = refused(samebits(*DIVERGING, cwd=place), "perceive.0.logits", "train anew with a lower lr")
    step = int(re.search(r"step (\d+): ", message)[1])
    assert 2 <= step <= 4
    saved = sorted(int(path.name[5:]) for path in (place / "new/checkpoints").iterdir())
    assert saved == list(range(1, saved[-1] + 1))
    assert step - 1 <= saved[-1] + 1
    for number in saved:
        assert api.load(place / f"new/checkpoints/step-{number}").weights.size == 2928
    rows = (place / "new/metrics.csv").read_text().splitlines()
    assert len(rows) == 1 + saved[-1]
    assert not any("nan" in row for row in rows)
    assert samebits_here("eval", "new", "--checkpoint", 1, cwd=place).returncode == 0
    refused(samebits_here("resume", "new", cwd=place), "perceive.0.logits")


def short_of_space(place):
    """The run at step 8, with 4 steps to go."""
    shutil.rmtree(place / "run/checkpoints/step-12")
    return snapshot(place / "run/checkpoints")


@pytest.mark.parametrize("file", ["arrays.safetensors", "metrics.csv"])
def test_a_full_disk_stops_the_run_and_keeps_the_checkpoint(place, reference, file):
    """No file may grow past a limit: below the arrays' size, or in the middle of a row of metrics.csv."""
    checkpoints = short_of_space(place)
    kept = json.loads((place / "run/checkpoints/step-8/state.json").read_text())["state"]["metrics_bytes"]
    limit = 20_000 if file == "arrays.safetensors" else kept + 130
    done = samebits("resume", "run", "--workers", 1, cwd=place, file_limit=limit)
    refused(done, "cannot write to run", "File too large", "step-8, is intact", "make room", "samebits resume run")
    assert snapshot(place / "run/checkpoints") == checkpoints
    rows = (place / "run/metrics.csv").read_bytes()
    assert len(rows) == (len(reference[1]) if file == "arrays.safetensors" else limit)
    assert samebits_here("eval", "run", cwd=place).returncode == 0
    again = samebits_here("resume", "run", cwd=place)
    assert weights_line(again.stdout) == reference[0]
    assert (place / "run/metrics.csv").read_bytes() == reference[1]


def test_a_full_disk_before_the_first_checkpoint(place, reference):
    """The run can still be continued once there is room: from step 0."""
    every = sets(log_every=1, checkpoint_every=4, eval_every=0)
    words = ["train", "life", *SMALL, *every, "--steps", STEPS, "--out", "new"]
    done = samebits(*words, cwd=place, file_limit=20_000)
    refused(done, "cannot write to new", "there was no checkpoint yet", "samebits resume new")
    assert snapshot(place / "new/checkpoints") == {}
    again = samebits_here("resume", "new", cwd=place)
    assert weights_line(again.stdout) == reference[0]
    assert (place / "new/metrics.csv").read_bytes() == reference[1]


def test_no_checkpoint_holds_weights_that_are_not_finite(place):
    assert samebits_here(*DIVERGING, cwd=place).returncode == 2
    for path in (place / "new/checkpoints").iterdir():
        assert np.isfinite(api.load(path).weights).all(), path.name


@pytest.mark.parametrize("option", [("--checkpoint", "99"), ("--checkpoint", "best")])
def test_a_refused_resume_leaves_the_config_alone(place, option):
    before = snapshot(place)
    refused(samebits_here("resume", "run", "--steps", 20, *option, cwd=place))
    assert snapshot(place) == before


def test_resume_back_behind_a_chosen_checkpoint_is_refused(place):
    before = snapshot(place)
    refused(samebits_here("resume", "run", "--steps", 5, "--checkpoint", 8, cwd=place), "steps is 5", "8")
    assert snapshot(place) == before


def test_a_resume_refused_for_lost_rows_hides_no_checkpoint(place):
    path = place / "run/metrics.csv"
    path.write_bytes(path.read_bytes()[:200])
    before = snapshot(place)
    refused(samebits_here("resume", "run", "--checkpoint", 8, cwd=place), "metrics.csv is shorter")
    assert snapshot(place) == before


def test_a_folder_that_could_not_be_begun_can_be_begun_again(place):
    refused(samebits(*TRAIN, "--steps", 1, cwd=place, file_limit=100), "--out new cannot be written")
    assert samebits_here(*TRAIN, "--steps", 1, cwd=place).returncode == 0


@pytest.mark.parametrize(
    "args", [("resume", "run", "--steps", "20"), ("render", "run", "--grid", "9x9", "--steps", "3")]
)
def test_a_full_disk_elsewhere(place, args):
    refused(samebits(*args, cwd=place, file_limit=100), "cannot write")


@pytest.mark.parametrize("out", ["file", "file/new"])
def test_render_below_a_file(place, out):
    refused(samebits_here("render", "run", "--out", out, cwd=place), f"{out} ", "choose another")


def test_config_that_is_a_number(place):
    refused(samebits_here(*TRAIN, "--config", "number.toml", cwd=place), "number.toml")


def test_an_empty_list_of_layers(place):
    message = refused(samebits_here(*TRAIN, *sets(update="[]"), cwd=place), "update is []")
    assert "must be Tuple should" not in message


def test_a_batch_that_no_machine_holds(place):
    refused(samebits_here(*TRAIN, "--steps", 1, "--batch-size", 10**14, cwd=place), "batch_size is 100000000000000")
