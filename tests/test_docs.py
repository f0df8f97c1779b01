"""Every command of the documentation runs as typed.

A page's commands run in its order, in one folder: what one makes, a later one uses. Trainings are short here (SHORT).
`samebits bench` goes as far as the clock: what it would time is looked up, not timed, since peers compile for minutes
(tests/bench and tests/test_cli.py time in small). docs/new-family.md has a test of its own, test_new_family.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
import typer
from PIL import Image

import samebits as package
from samebits import api
from samebits.bench.measurements import measurements
from samebits.cli import app
from samebits.cli.examples import EXAMPLES
from samebits.config import override
from samebits.verify import canary
from tests.helpers import TIMEOUT, samebits, samebits_here
from tests.pages import PAGES, ROOT, items, prose

SHORT = {"steps": 2, "repair": 0, "expressions": 200, "most_steps": 3}  # where a config has these keys
CANNOT_RUN = {
    "make test": "it is what runs this test",
    "make test-arm": "it downloads an ARM64 Python and emulates it",
    "make test-cpus": "it takes minutes, and CI runs it",
    "make test-gpu": "it takes minutes, installs Oclgrind, and CI runs it",
    "make test-cluster": "it takes minutes, and CI runs it",
    "make test-network": "it takes minutes and root, and CI runs it",
    "make network": "it measures, for minutes, and is for root",
    "make soak-cluster": "it takes a quarter of an hour",
    "make test-hardware": "it installs simulators, takes ten minutes, and CI runs it",
    "make test-browser": "it installs a browser, and CI runs it",
    "samebits circuit DIR --fpga ice40-hx8k --grid 16x16": "make test-hardware has the programs, and runs it",
    "samebits circuit runs/life --fpga ice40-hx8k --grid 20x20": "make test-hardware has the programs, and runs it",
    "samebits circuit runs/board --fpga ice40-hx8k --grid 32x32": "make test-hardware has the programs, and runs it",
    "samebits circuit runs/life --fpga ecp5-85k --grid 32x32": "make test-hardware has the programs, and runs it",
    "samebits circuit runs/board --fpga ecp5-85k --grid 64x64": "make test-hardware has the programs, and runs it",
    "pip install '.[hardware]'": "it needs a network; make test has installed it",
    "pip install '.[fpga]'": "it needs a network; make test-hardware installs it",
    "samebits bench gpt --device gpu --peers": "it needs a GPU; tests/gpu/test_bench.py has PoCL instead",
    "samebits profile gpt --device gpu": "it needs a GPU; tests/gpu/test_bench.py has PoCL instead",
    "samebits bench devices --workers 2,16": "it needs a GPU; tests/gpu/test_bench.py has PoCL instead",
    "samebits sweep grow --set target=picture.png --set wiring_seed=0..7 --set repair=100 --halve"
    ' --stop-when "eval_hard_loss == 0"': "it takes minutes; docs/sweeps.md has a short one",
    "make coverage": "it runs this test once more",
    "make soak": "it takes half an hour",
    "make load": "it measures, for minutes",
    "samebits serve": "it serves until it is ended; tests/serve does",
    "samebits serve runs": "it serves until it is ended; tests/serve does",
    "pip install '.[serve]'": "it needs a network; make test has installed it",
    "make fuzz": "it takes ten minutes; test_fuzz.py runs a little of it",
    "make fuzz-gpu": "it takes ten minutes; make test-gpu runs a little of it",
    "make fuzz-gpu MINUTES=10": "it takes ten minutes; make test-gpu runs a little of it",
    "make fuzz MINUTES=10": "it takes ten minutes; test_fuzz.py runs a little of it",
    "make lint": "it installs, and is a part of make test",
    "make demo": "it installs; the samebits commands it gives are run",
    "make bench": "it installs; the samebits commands it gives are run",
    "make PYTHON=/path/to/python3.11 test": "there is no such interpreter",
    "python -m samebits.verify.canary": "it would publish the canaries of this machine",
    "pip install .": "it needs a network",
    "pip install 'samebits[cluster]'": "it needs a network",
    "torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint HOST:29400 --max-restarts 3 "
    "-m samebits train gpt --out runs/gpt": "it needs two machines; tests/test_cluster.py starts groups",
    "torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint HOST:29400 --max-restarts 3 "
    "-m samebits resume runs/gpt --steps 6000": "it needs two machines; tests/test_cluster.py starts groups",
    "pip install '.[bpe]'": "it needs a network",
    "pip install '.[opencl]'": "it needs a network; make test has installed it",
    "pip install 'samebits[cuda]'": "it needs a network",
    "pip install tokenizers": "it needs a network; make test has installed it",
    "pip install torch": "it needs a network; make test has installed it",
}
ADDED_TO = {"docs/gpt.md": "samebits train gpt --data input.txt"}  # what the fragments in the page's table are added to
TASK = "boolean"  # any will do
# Verbs for which it does not matter what was typed before them; and what this process has typed with them, on any page.
ANYWHERE = {"bench", "doctor", "keys", "profile", "tasks", "verify"}
typed_before: set[tuple[str, ...]] = set()
GRIDS = np.random.default_rng(0).integers(0, 2, (1, 6, 6, 8))
RING = package.distance.Graph("abc", [(0, 1), (1, 2), (2, 0)])
GIVEN = {  # names that the Python of a page takes for granted
    "README.md": {"grids": GRIDS, "targets": GRIDS[..., 0], "a": RING, "b": package.distance.Graph("ab", [(0, 1)])}
}
bench, verify = (
    sys.modules[f"samebits.cli.{verb}"] for verb in ("bench", "verify")
)  # modules, not the verbs' functions
VERBS = typer.main.get_command(app).commands


def pairs_of_the_page() -> str:
    """The pairs that the graph family's README shows."""
    text = (ROOT / "src/samebits/families/graph/README.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^    (\{.*\})$", text, re.MULTILINE))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with what a reader brings along; and short trainings."""
    text = "ROMEO: But, soft! what light through yonder window breaks?\nIt is the east, and Juliet is the sun.\n" * 40
    for name in ("input.txt", "other.txt", "tinyshakespeare.txt"):
        (tmp_path / name).write_text(text)
    (tmp_path / "pairs.jsonl").write_text(pairs_of_the_page())
    Image.fromarray(np.kron(np.eye(2), np.full((10, 10), 255)).astype(np.uint8)).save(tmp_path / "picture.png")
    for folder in ("docs", "benchmarks/results"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "README.md", tmp_path)

    def short(*args, **named):
        family, preset, config = configure(*args, **named)
        return family, preset, override(config, {key: SHORT[key] for key in SHORT if hasattr(config, key)})

    configure = api.configure
    monkeypatch.setattr(api, "configure", short)
    # Processes of a sweep train as long as the page says; here a config is short, and would not be theirs.
    monkeypatch.setattr("samebits.sweeping.check_run", lambda sweep, index: None)
    monkeypatch.setattr(
        bench, "bench_task", lambda task, preset, counts, steps, given, *more: short(task, preset, given)
    )
    monkeypatch.setattr(bench, "bench_measurement", lambda name, *more: measurements()[name])
    monkeypatch.setattr(verify, "PEER_THREADS", (1,))
    # tests/test_bits.py runs them all, and compiles for other CPUs.
    monkeypatch.setattr(verify, "verify_cpus", lambda task, preset, steps, types: None)
    monkeypatch.setattr("samebits.devices.gpu.opencl.is_gpu", lambda device: True)  # PoCL stands in for one
    monkeypatch.setattr(canary, "names", lambda: ["sums", "softmax"])
    return tmp_path


def is_name_only(words):
    """`samebits eval` names a verb, and perhaps options; without its argument it is no command."""
    needed = any(parameter.param_type_name == "argument" for parameter in VERBS[words[1]].params)
    return needed and all(word.startswith("-") for word in words[2:]) and not {"--all", "--tables"} & {*words}


def options_of(verb):
    found = VERBS[verb].get_params(typer.Context(VERBS[verb]))
    return {name for parameter in found for name in (*parameter.opts, *parameter.secondary_opts)}


class Reader:
    """Types a page's commands, remembering the run trained last: DIR, where the page says that."""

    def __init__(self, page, place):
        self.place, self.last = place, None
        self.names = dict(GIVEN.get(page, {}))

    def type(self, command):
        words = shlex.split(command)
        if words[0] == "samebits":
            self.samebits(words)
        else:
            assert words[0] == "python", f"{command}: run it here, or say in CANNOT_RUN why not"
            alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # PyTorch's threads would spin against whoever else is there
            done = subprocess.run(
                [sys.executable, *words[1:]], cwd=self.place, env=alone, capture_output=True, text=True, timeout=TIMEOUT
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"

    def samebits(self, words):
        if is_name_only(words):
            assert {word for word in words if word.startswith("-")} <= options_of(words[1]), words
            return
        meant = {"DIR": self.last, "FILE": "input.txt", "TASK": TASK}
        given = tuple(meant.get(word, word) for word in words[1:])
        if given in typed_before:
            return
        run = samebits if "--processes" in words else samebits_here  # whose output is that of processes of their own
        done = run(*given, cwd=self.place)
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stderr}"
        if words[1] in ANYWHERE:
            typed_before.add(given)
        if words[1] == "train":
            self.last = re.search(r"^run (.*)$", done.stdout, re.MULTILINE)[1]

    def python(self, code):
        with contextlib.chdir(self.place):
            exec(compile(code, "page", "exec"), self.names)


def marked(page):
    return pytest.param(page, marks=pytest.mark.cluster) if page == "docs/cluster.md" else page


@pytest.mark.parametrize("page", [marked(page) for page in PAGES if page != "docs/new-family.md"])
def test_what_a_page_says_can_be_typed(page, place):
    reader = Reader(page, place)
    for kind, text, _ in items(page):
        if kind == "python" and not text.startswith(">>>"):  # those are tests/distance/test_docs.py
            reader.python(text)
        elif kind == "fragment" and page in ADDED_TO:
            reader.type(f"{ADDED_TO[page]} {text}")
        elif kind == "shell" and text not in CANNOT_RUN:
            reader.type(text)


@pytest.mark.parametrize("command", [command for command in CANNOT_RUN if command.startswith("make")])
def test_make_knows_its_targets_and_they_give_commands_that_run(command, place):
    given = subprocess.run(
        ["make", "--dry-run", *shlex.split(command)[1:]], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert given.returncode == 0, given.stderr
    reader = Reader("Makefile", place)
    found = re.findall(r"^\S*/bin/(samebits .*)$", given.stdout, re.MULTILINE)
    assert bool(found) == (command in ("make demo", "make bench"))
    for line in found:
        reader.type(line)


def test_examples_of_help_can_be_typed(place):
    reader = Reader("--help", place)
    for lines in EXAMPLES.values():
        for line in lines:
            if line not in CANNOT_RUN:
                reader.type(line)


def test_what_cannot_run_is_still_said():
    said = {item.text for page in PAGES for item in items(page)}
    assert set(CANNOT_RUN) - said == set()


@pytest.mark.parametrize("page", PAGES)
def test_options_exist(page):
    spans = re.findall(r"`((?:samebits |--)[^`\n]*)`", prose((ROOT / page).read_text(encoding="utf-8")))
    known = {"--help"}.union(*map(options_of, VERBS))
    assert {word for span in spans for word in re.findall(r"(?<!\S)--[a-z-]+", span)} - known == set()
