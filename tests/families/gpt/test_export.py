"""Export: what a PyTorch user loads with the script in docs gives our logits."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import samebits as api
from tests.helpers import samebits_here

SCRIPT = Path(__file__).parents[3] / "docs/load_in_pytorch.py"


@pytest.fixture(scope="module")
def loader():
    spec = importlib.util.spec_from_file_location("load_in_pytorch", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pytorch_gives_the_same_logits(base, tmp_path, loader):
    done = samebits_here("export", "run", "--to", "safetensors", "--out", tmp_path / "new/out", cwd=base)
    assert done.returncode == 0, done.stderr
    files = ["model.safetensors", "config.json"]
    assert done.stdout.splitlines() == [f"wrote {tmp_path}/new/out/{name}" for name in files]
    model, theirs = api.load(base / "run"), loader.load(tmp_path / "new/out")
    tokens = np.random.default_rng(0).integers(0, model.config.symbols, (3, 16)).astype(np.int32)
    with torch.no_grad():
        found = theirs(torch.tensor(tokens, dtype=torch.long)).numpy()
    ours = model.logits(tokens)
    assert np.abs(ours).max() > 0.1
    assert np.abs(found - ours).max() < 1e-4
    assert sum(value.numel() for value in theirs.parameters()) == model.weights.size


def test_the_description_names_everything(base, tmp_path):
    samebits_here("export", "run", "--out", tmp_path, "--checkpoint", 4, cwd=base)
    about, model = json.loads((tmp_path / "config.json").read_text(encoding="utf-8")), api.load(base / "run", "4")
    assert about["tensors"]["blocks.1.qkv"] == [32, 96]
    assert list(about["tensors"]) == [name for name in model.params if not name.startswith("vocabulary")]
    text = "the naïve weaver."
    assert [about["vocabulary"].index(letter) for letter in text] == model.vocabulary.encode(text).tolist()
    assert (about["end"], about["heads"], about["parameters"]) == (None, 2, model.weights.size)


def test_the_script_continues_a_prompt_as_greedy_sampling_does(base, tmp_path, loader, capsys):
    samebits_here("export", "run", "--out", tmp_path, cwd=base)
    loader.main(tmp_path, "The w", count=11)  # up to the context
    expected = api.load(base / "run").generate("The w", tokens=11, temperature=0)[0]
    assert capsys.readouterr().out == f"The w{expected}\n"


def test_byte_pairs_come_with_their_tokenizer(base, tmp_path, loader):
    import tokenizers

    settings = {"preset": "small", "steps": 1, "eval_every": 0, "tokenizer": "bpe", "vocab": 300, "workers": 1}
    run = api.train("gpt", out=tmp_path / "run", data=str(base / "story.txt"), **settings)
    paths = run.model.vocabulary.bpe
    samebits_here("export", "run", "--out", "out", cwd=tmp_path)
    made = tokenizers.Tokenizer.from_file(str(tmp_path / "out/tokenizer.json"))
    assert (tmp_path / "out/tokenizer.json").read_bytes() == paths
    text = "The weaver wove a naïve cloth."
    assert made.encode(text).ids == run.model.vocabulary.encode(text).tolist()
    assert loader.load(tmp_path / "out").config["vocabulary"] == "tokenizer.json"
