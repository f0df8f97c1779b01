"""Export: what a PyTorch user loads with the script in docs gives our logits."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import samebits as api
from samebits.config import override
from samebits.families.gpt import verbs
from tests.helpers import samebits_here

SCRIPT = Path(api.__file__).parent / "families/gpt/load_in_pytorch.py"


@pytest.fixture(scope="module")
def loader():
    spec = importlib.util.spec_from_file_location("load_in_pytorch", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pytorch_gives_the_same_logits(base, tmp_path, loader):
    done = samebits_here("export", "run", "--to", "safetensors", "--out", tmp_path / "new/out", cwd=base)
    assert done.returncode == 0, done.stderr
    files = ["model.safetensors", "config.json", "load_in_pytorch.py"]
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


@pytest.fixture(scope="module")
def pairs(base, tmp_path_factory):
    """A run of byte pairs, in documents that end: two texts of a folder."""
    place = tmp_path_factory.mktemp("pairs")
    (place / "texts").mkdir()
    for name in ("a.txt", "b.txt"):
        shutil.copy(base / "story.txt", place / "texts" / name)
    settings = {"preset": "small", "steps": 8, "eval_every": 0, "tokenizer": "bpe", "vocab": 300, "workers": 1}
    return api.train("gpt", out=place / "run", data=str(place / "texts"), **settings)


def test_byte_pairs_come_with_their_tokenizer(pairs, tmp_path, loader, capsys):
    import tokenizers

    run, paths = pairs, pairs.model.vocabulary.bpe
    samebits_here("export", run.path, "--out", "out", cwd=tmp_path)
    made = tokenizers.Tokenizer.from_file(str(tmp_path / "out/tokenizer.json"))
    assert (tmp_path / "out/tokenizer.json").read_bytes() == paths
    text = "The weaver wove a naïve cloth."
    assert made.encode(text).ids == run.model.vocabulary.encode(text).tolist()
    loader.main(tmp_path / "out", text, count=3)
    assert capsys.readouterr().out == f"{text}{run.model.generate(text, tokens=3, temperature=0)[0]}\n"


@pytest.mark.parametrize("kind", ["characters", "byte pairs"])
def test_transformers_load_the_hugging_face_layout_and_agree(kind, base, pairs, tmp_path):
    import transformers

    path = base / "run" if kind == "characters" else pairs.path
    done = samebits_here("export", path, "--to", "hf", "--out", tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    model, text = api.load(path), "The naïve weaver"
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    tokens = tokenizer(text, return_tensors="pt")["input_ids"]
    assert tokens[0].tolist() == model.vocabulary.encode(text).tolist()
    assert tokenizer.decode(tokens[0]) == text
    ours = model.logits(tokens.numpy())
    with torch.no_grad():
        found = theirs(tokens).logits.numpy()
    assert np.abs(ours).max() > 0.1
    assert np.abs(found - ours).max() < 1e-4
    assert model.vocabulary.end == theirs.config.eos_token_id


def test_what_gpt_2_cannot_be_is_refused(base, tmp_path):
    model = api.load(base / "run")
    bare = api.GptModel(override(model.config, {"final_norm": False}), model.weights, model.constants)
    with pytest.raises(api.SamebitsError, match="final_norm is false"):
        verbs.export(bare, "hf", tmp_path / "out")
    assert not (tmp_path / "out").exists()
