"""What one can do with a trained GPT besides training it: let it write, and hand it on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as pack_arrays

from samebits import files
from samebits.devices.interface import Device
from samebits.errors import SamebitsError
from samebits.families.gpt import hugging_face, sampling
from samebits.families.gpt.config import layout
from samebits.families.gpt.kernels import EPS
from samebits.families.gpt.model import GptModel
from samebits.families.gpt.sampling import Settings, Tally
from samebits.families.gpt.tokens import known_text
from samebits.training.params import views
from samebits.training.parts import Exported

GLIMPSE = 160  # tokens
FORMATS = ("safetensors", "hf")
SCRIPT = Path(__file__).with_name("load_in_pytorch.py")
EXPORTED = ("context", "width", "heads", "layers", "final_norm", "tokenizer")


def sample(
    model: GptModel, prompt: str, samples: int, device: Device, unknown: str | None = None, **settings: Any
) -> tuple[str, Iterator[Iterable[str]], Tally]:
    """The prompt, of known characters if it is to be, and sample by sample, each as pieces of text: one alone comes as
    it is drawn, several when they are done."""
    tally, chosen = Tally(), Settings(**settings)
    prompt = known_text(model.vocabulary, [prompt], unknown)[0][0]
    if samples == 1:
        drawn = sampling.stream(model, prompt, chosen, 0, sampling.FOR_ONE[device.kind](device), tally)
        return prompt, iter([drawn]), tally
    return prompt, ((text,) for text in sampling.generate(model, prompt, chosen, samples, device, tally)), tally


def glimpse(model: GptModel, device: Device) -> str:
    """A few lines, always from the same draws: what changes from one to the next is what was learned."""
    return next(sampling.generate(model, "", Settings(GLIMPSE), 1, device))


def export(model: GptModel, form: str | None, folder: Path) -> Exported:
    """safetensors: weights, their description and a script that loads them; hf: a folder for transformers."""
    if form not in (None, *FORMATS):
        raise SamebitsError(f"--to is {form!r}; a gpt run can be exported to: {', '.join(FORMATS)}; leave --to out")
    contents = _for_transformers(model) if form == "hf" else _for_pytorch(model)
    return Exported([files.write(folder / name, content) for name, content in contents.items()])


def _for_pytorch(model: GptModel) -> dict[str, bytes]:
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
    contents = {
        "model.safetensors": pack_arrays(tensors, metadata={"format": "pt"}),
        "config.json": _json(about),
        SCRIPT.name: SCRIPT.read_bytes(),
    }
    return contents | ({"tokenizer.json": model.vocabulary.bpe} if model.vocabulary.codepoints is None else {})


def _for_transformers(model: GptModel) -> dict[str, bytes]:
    tensors = hugging_face.tensors(model.config, model.weights)
    return {
        "model.safetensors": pack_arrays(tensors, metadata={"format": "pt"}),
        "config.json": _json(hugging_face.description(model.config, model.vocabulary.end)),
        "tokenizer.json": hugging_face.tokenizer(model.vocabulary),
        "tokenizer_config.json": _json(hugging_face.tokenizer_description(model.config, model.vocabulary)),
    }


def _json(about: dict[str, Any]) -> bytes:
    return (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode()


def _vocabulary(model: GptModel) -> Any:
    """Token i is character i; byte pairs are in tokenizer.json, for the package tokenizers."""
    points = model.vocabulary.codepoints
    return "tokenizer.json" if points is None else [chr(point) for point in points.tolist()]
