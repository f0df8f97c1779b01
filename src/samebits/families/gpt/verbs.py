"""What one can do with a trained GPT besides training it: let it write, and hand it on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as pack_arrays

from samebits.engine.device import Device
from samebits.engine.params import views
from samebits.engine.parts import Exported
from samebits.errors import SamebitsError
from samebits.families.gpt import sampling
from samebits.families.gpt.config import layout
from samebits.families.gpt.kernels import EPS
from samebits.families.gpt.model import GptModel
from samebits.families.gpt.sampling import Settings, Tally

EXPORTED = ("context", "width", "heads", "layers", "final_norm", "tokenizer")


def sample(
    model: GptModel, prompt: str, samples: int, device: Device, **settings: Any
) -> tuple[Iterator[Iterable[str]], Tally]:
    """Sample by sample, each as pieces of text: one alone comes as it is drawn, several when they are done."""
    tally, chosen = Tally(), Settings(**settings)
    if samples == 1:
        return iter([sampling.stream(model, prompt, chosen, 0, sampling.FOR_ONE[device.kind](device), tally)]), tally
    return ((text,) for text in sampling.generate(model, prompt, chosen, samples, device, tally)), tally


def export(model: GptModel, form: str | None, folder: Path) -> Exported:
    """model.safetensors and config.json, as docs/load_in_pytorch.py reads them."""
    if form not in (None, "safetensors"):
        raise SamebitsError(f"--to is {form!r}; a gpt run can be exported to: safetensors; leave --to out")
    tensors = {name: np.ascontiguousarray(value) for name, value in views(layout(model.config), model.weights).items()}
    about = {
        "model": "samebits gpt",
        **{key: getattr(model.config, key) for key in EXPORTED},
        "norm_eps": EPS,
        "parameters": model.weights.size,
        "tensors": {name: list(value.shape) for name, value in tensors.items()},
        "vocabulary": _vocabulary(model),
        "end": model.vocabulary.end,
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "model.safetensors", folder / "config.json"]
    paths[0].write_bytes(pack_arrays(tensors, metadata={"format": "pt"}))
    paths[1].write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if model.vocabulary.codepoints is None:
        paths.append(folder / "tokenizer.json")
        paths[2].write_bytes(model.vocabulary.bpe)
    return Exported(paths)


def _vocabulary(model: GptModel) -> Any:
    """Token i is character i; byte pairs are in tokenizer.json, for the package tokenizers."""
    points = model.vocabulary.codepoints
    return "tokenizer.json" if points is None else [chr(point) for point in points.tolist()]
