"""The bits of this package are those it publishes: here, compiled for other CPUs, and across versions of itself."""

import json
import platform
import shutil
import signal
import threading
import tomllib
from pathlib import Path

import pytest

from samebits import api, bits
from samebits.errors import SamebitsError
from samebits.families import built_in
from samebits.families.gpt.generated import documents
from samebits.runs.loop import Interrupts
from samebits.verify import canary, cpus
from tests.helpers import samebits_here, weights_line

OLD_RUN = Path(__file__).parent / "data" / "weft-0.1.0-life"  # made by 0.1.0, when the project had another name
# AVX2 with every canary. Each type compiles all it runs, so the others run less: `samebits verify --cpus all` runs all.
SHORT = ("sums", "elementary functions", "matrix products", "softmax", "checkerboard")
TYPES = {"haswell": None, "x86-64-v3": SHORT, "skylake-avx512": (*SHORT, "boolean")}
SAMPLE = ("sums", "softmax")  # seconds: make test has these, make test-cpus all


def test_every_canary_is_published_under_the_number_of_these_bits():
    stored = json.loads(bits.FILE.read_text(encoding="utf-8"))
    assert stored["bits"] == bits.BITS
    assert set(stored["canaries"]) == set(canary.names(built_in()))
    assert len(set(stored["canaries"].values())) == len(stored["canaries"])


@pytest.mark.parametrize("name", canary.names(built_in()))
def test_bits_are_as_published(name):
    """A change of bits is a change of version: raise BITS, publish anew, say so in CHANGELOG and docs/bits.md."""
    assert canary.canary(name) == bits.published()[name]


x86_only = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="types of x86-64 cannot be compiled for elsewhere"
)


def check_cpu(cpu, names):
    """A child compiled for this type of CPU computes the published bits of these canaries."""
    can, cannot = cpus.usable([cpu])
    if cannot:
        pytest.skip(f"this machine has no instructions of {cpu}")
    found = cpus.collect(cpus.start(cpu, [cpus.Case(name) for name in names]))
    assert dict(zip(names, found, strict=True)) == {name: bits.published()[name] for name in names}
    assert can == [cpu]


@x86_only
@pytest.mark.cpus
@pytest.mark.parametrize("cpu", TYPES)
def test_the_bits_of_other_cpus_are_as_published(cpu):
    check_cpu(cpu, TYPES[cpu] or canary.names(built_in()))


@x86_only
def test_the_bits_of_single_kernels_on_another_cpu_are_as_published():
    check_cpu("haswell", SAMPLE)


@x86_only
def test_at_least_two_types_of_cpu_can_be_tried_here():
    assert len(cpus.usable(list(TYPES))[0]) >= 2


@x86_only
def test_unknown_cpu_types_are_named(tmp_path):
    done = samebits_here("verify", "life", "--cpus", "haswel", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no CPU type 'haswel'" in done.stderr
    assert "haswell" in done.stderr


def test_doctor_says_as_published_or_what_differs(monkeypatch, tmp_path):
    monkeypatch.setattr(canary, "names", lambda: ["sums", "softmax"])
    done = samebits_here("doctor", "--canaries", cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "bits as published")
    wrong = {**bits.published(), "softmax": "0" * 64}
    monkeypatch.setattr(canary, "published", lambda: wrong)
    done = samebits_here("doctor", "--canaries", cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "DIFFERENT bits: softmax")


def test_verify_compares_with_the_canary(monkeypatch, tmp_path):
    words = ("verify", "life", "--preset", "small", "--steps", "1", "--workers", "1,2")
    assert "bits as published" in samebits_here(*words, cwd=tmp_path).stdout
    monkeypatch.setattr("samebits.cli.verify.published", lambda: {"life": "0" * 64})
    done = samebits_here(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert "DIFFERENT bits" in done.stdout


def test_a_run_of_other_bits_is_named_and_goes_on_with_a_word(tmp_path):
    folder = tmp_path / "old"
    shutil.copytree(OLD_RUN, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = samebits_here("resume", folder, "--steps", 6, cwd=tmp_path)
    assert done.returncode == 2
    assert "bits number 1; this one computes number 2" in done.stderr
    assert "--other-bits" in done.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"} == before
    done = samebits_here("resume", folder, "--steps", 6, "--other-bits", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(weights_line(done.stdout)) == 64
    assert tomllib.loads((folder / "config.toml").read_text())["made_with"]["bits"] == [1, bits.BITS]
    again = samebits_here("resume", folder, "--steps", 7, cwd=tmp_path)  # the last version was this one
    assert again.returncode == 0, again.stderr


def test_a_run_of_other_bits_can_be_used_without_a_word(tmp_path):
    assert api.load(OLD_RUN).weights.size > 0
    new = api.train("life", preset="small", steps=2, out=tmp_path / "new")
    assert tomllib.loads((new.path / "config.toml").read_text())["made_with"]["bits"] == [bits.BITS]


def test_the_hash_of_a_text_that_differs_elsewhere_says_so(tmp_path):
    done = samebits_here("train", "gpt", "--preset", "small", "--steps", 1, "--out", "own", cwd=tmp_path)
    assert "another version has another text" in done.stdout
    assert "--data generated" in done.stdout
    done = samebits_here(
        "train", "gpt", "--preset", "small", "--steps", 1, "--data", "generated", "--out", "made", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "another text" not in done.stdout


def test_the_generated_text_is_about_a_megabyte_and_its_sums_are_right():
    text = b"\n".join(documents()).decode()
    assert 800_000 < len(text) < 1_200_000
    assert text.isascii()
    assert "Two and four make six." in text
    assert "Two and four make seven." not in text


def test_load_refuses_a_model_of_another_kind():
    from samebits import GptModel, LogicModel

    assert isinstance(api.load(OLD_RUN, kind=LogicModel), LogicModel)
    with pytest.raises(SamebitsError, match="whose model is no GptModel"):
        api.load(OLD_RUN, kind=GptModel)


def test_the_second_interrupt_is_pythons_own_unless_the_program_says_otherwise(tmp_path):
    """A notebook must survive it."""
    said = []
    assert threading.current_thread() is threading.main_thread()
    with Interrupts(said.append) as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert len(said) == 2
    left = []
    with Interrupts(leave=lambda: left.append(True)):
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert left == [True]
