"""What a user of gpt can get wrong: exit 2, one message that names the value and a remedy, and nothing written."""

from __future__ import annotations

import pytest

from tests.helpers import samebits_here, sets, snapshot

TRAIN = ["train", "gpt", "--preset", "small", "--workers", "1", "--out", "new", "--data"]
SAMPLE = ["sample", "run", "--tokens", "5"]

CASES = {
    "data missing": ([*TRAIN, "none.txt"], "data none.txt does not exist", "--data"),
    "data empty": ([*TRAIN, "empty.txt"], "data empty.txt is empty", "name a file"),
    "data binary": ([*TRAIN, "binary.txt"], "binary.txt is binary", "position 3"),
    "data not UTF-8": ([*TRAIN, "latin.txt"], "latin.txt is not UTF-8 text", "0xe9", "convert it"),
    "a folder without text": ([*TRAIN, "folder"], "folder without text files", "name another"),
    "text shorter than the context": ([*TRAIN, "short.txt"], "context is 16", "give more text", "--set context="),
    "no text for validation": ([*TRAIN, "story.txt", *sets(validation=1e-6)], "validation is 1e-06", "leaves 1 tokens"),
    "width and heads": ([*TRAIN, "story.txt", *sets(width=30, heads=4)], "width is 30", "multiple of heads, 4"),
    "vocabulary of characters": ([*TRAIN, "story.txt", *sets(vocab=9)], "vocab is 9", "leave it out"),
    "few byte pairs": ([*TRAIN, "story.txt", *sets(tokenizer="bpe", vocab=9)], "vocab is 9", "256"),
    "nearly everything dropped": ([*TRAIN, "story.txt", *sets(dropout=0.999995)], "0.999995", "0.99", "--set dropout="),
    "no such tokenizer": ([*TRAIN, "story.txt", *sets(tokenizer="words")], "'words'", "--set tokenizer="),
    "unknown characters": (
        [*SAMPLE, "--prompt", "Bits €7"],
        "no token for '7' (U+0037), '€' (U+20AC)",
        "leave them out",
    ),
    "temperature": ([*SAMPLE, "--temperature", "-1"], "temperature is -1.0", "--temperature"),
    "top-p 0": ([*SAMPLE, "--top-p", "0"], "top_p is 0.0", "--top-p"),
    "top-p 2": ([*SAMPLE, "--top-p", "2"], "top_p is 2.0", "--top-p"),
    "top-k": ([*SAMPLE, "--top-k", "-3"], "top_k is -3", "--top-k"),
    "tokens 0": ([*SAMPLE, "--tokens", "0"], "tokens is 0", "--tokens"),
    "samples 0": ([*SAMPLE, "--samples", "0"], "samples is 0", "--samples"),
    "seed": ([*SAMPLE, "--seed", "-1"], "seed is -1", "--seed"),
    "workers": ([*SAMPLE, "--samples", "2", "--workers", "0"], "workers is '0'", "--workers auto"),
    "sample nothing": (["sample", "none"], "none does not exist", "samebits train"),
    "sample no such checkpoint": ([*SAMPLE, "--checkpoint", "5"], "'5'", "one of 4, 8"),
    "sample another family": (["sample", "life"], "life is a logic_ca run", "samebits eval life"),
    "export another family": (
        ["export", "life", "--to", "safetensors"],
        "'safetensors'",
        "an automaton can be exported to",
    ),
    "export an option of another": (["export", "run", "--grid", "8x8"], "--grid is not for gpt", "leave it out"),
    "export to what": (["export", "run", "--to", "onnx"], "'onnx'", "safetensors"),
    "render": (["render", "run"], "run is a gpt run", "samebits eval run"),
    "circuit": (["circuit", "run"], "run is a gpt run", "samebits eval run"),
    "against": (["eval", "run", "--against", "run"], "--against run", "name another"),
    "judge what is not there": (["eval", "run", "--data", "none.txt"], "none.txt does not exist", "name one"),
    "judge with unknown characters": (["eval", "run", "--data", "odd.txt"], "no token for '☺'", "--unknown drop"),
    "unknown becomes unknown": (["eval", "run", "--data", "odd.txt", "--unknown", "☺"], "unknown is '☺'", "drop"),
    "unknown alone": (["eval", "run", "--unknown", "drop"], "--unknown goes with --data", "leave it out"),
    "judge too little": (["eval", "run", "--data", "letter.txt"], "at least 2 tokens", "give more"),
    "data for another family": (["eval", "life", "--data", "odd.txt"], "--data is not for life", "leave it out"),
}


@pytest.fixture(scope="module")
def place(base):
    """The shared folder, with files that are wrong."""
    (base / "empty.txt").write_bytes(b"")
    (base / "binary.txt").write_bytes(b"abc\0def")
    (base / "latin.txt").write_bytes("café".encode("latin-1") * 99)
    (base / "odd.txt").write_text("the ☺ weaver", encoding="utf-8")
    (base / "letter.txt").write_text("t")
    (base / "short.txt").write_text("too short")
    (base / "folder").mkdir()
    return base


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused(place, case):
    args, *words = CASES[case]
    before = snapshot(place)
    done = samebits_here(*args, cwd=place)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    told = [line for line in done.stderr.splitlines() if not line.startswith("compiling kernels")]
    assert len(told) == 1, done.stderr
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr
    assert snapshot(place) == before
