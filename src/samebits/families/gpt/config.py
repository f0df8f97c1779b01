"""What a small GPT is made of, and the original's sizes as presets."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from samebits.checks import MOST
from samebits.config import OUTSIDE_HASH, TrainConfig, override
from samebits.errors import SamebitsError
from samebits.training.contract import Layout, Task

MOST_PARAMETERS = 500_000_000
DROPOUT, SAMPLE = 7, 8  # purposes of our own draws, beside the engine's (rng.Purpose)


class GptConfig(TrainConfig):
    """After randyGPT: pre-norm blocks, squared ReLU, no biases, no gains, an untied head."""

    COSTS: ClassVar[dict[str, str]] = {
        "context": "time, a little more than in proportion; memory, in proportion",
        "width": "time and memory, by its square",
        "layers": "time and memory, in proportion",
        "vocab": "time and memory, in proportion, where the model is small",
        "dropout": "some time",
        "sample_every": "when small: the time to write some lines, each time",
        "unit_samples": "nothing if the batch has units for every worker; larger units are a little faster",
    }

    data: str = Field(
        "",
        description="a text file, a folder of them, or generated; empty: the Python standard library's source",
        json_schema_extra=OUTSIDE_HASH,
    )
    tokenizer: Literal["char", "bpe"] = Field(
        "char", description="a token is a character, or a byte pair that was learned"
    )
    vocab: int | None = Field(
        None, ge=2, le=65_536, description="symbols; bpe: how many to learn (default 2,000); char: read off the data"
    )
    text_sha256: str = Field("", description="of the text, filled in by train: a changed text is noticed")
    vocabulary_sha256: str = Field("", description="of the vocabulary, likewise")
    validation: float = Field(0.1, gt=0, lt=1, description="the part at the end of the text that is not trained on")

    context: int = Field(ge=2, le=8192, description="tokens a sample")
    width: int = Field(ge=8, le=8192, description="numbers a token (D)")
    heads: int = Field(ge=1, le=256, description="of attention; width is a multiple of it")
    layers: int = Field(ge=1, le=256, description="blocks: attention, then the wide layer")
    final_norm: bool = Field(True, description="a norm before the head; the original has none")
    dropout: float = Field(0.0, ge=0, le=0.99, description="of the embeddings and of what each block adds")
    unit_samples: int = Field(2, ge=1, le=1024, description="samples computed together; the unit of work")
    init_from: str = Field("", description="a run whose weights training begins with", json_schema_extra=OUTSIDE_HASH)
    unknown: str | None = Field(
        None, description="with init_from: characters that its run does not know are dropped (drop), or become this one"
    )
    sample_every: int = Field(
        0,
        ge=0,
        le=MOST,
        description="show what it writes every so many steps; 0: never",
        json_schema_extra=OUTSIDE_HASH,
    )

    weight_decay: float = Field(0.1, ge=0, le=1e6, description="AdamW: pull of the weights to 0, times the rate")
    clip_norm: float = Field(1.0, ge=0, le=1e30, description="scale the gradient down to this norm; 0: off")

    @property
    def symbols(self) -> int:
        """The size of the vocabulary, known once the data has been seen."""
        if self.vocab is None:
            raise SamebitsError("vocab is missing; samebits train fills it in when it has read the data; put it back")
        return self.vocab

    @model_validator(mode="after")
    def _check_sizes(self) -> GptConfig:
        if self.unknown is not None and not self.init_from:
            raise ValueError(
                f"unknown is {self.unknown!r}; it goes with init_from: otherwise every character of the text gets a "
                "token; leave it out"
            )
        if self.width % self.heads:
            raise ValueError(f"width is {self.width}; it must be a multiple of heads, {self.heads}; change one of them")
        blocks = 12 * self.layers * self.width**2
        if blocks + (2 * (self.vocab or 0) + self.context) * self.width > MOST_PARAMETERS:
            raise ValueError(
                f"width is {self.width} with {self.layers} layers; that is more than {MOST_PARAMETERS:,} parameters; "
                "make one of them smaller"
            )
        return self


def layout(config: GptConfig) -> Layout:
    """Weights as (inputs, outputs), in the order of the flat vector."""
    D, V = config.width, config.symbols
    blocks = [
        (f"blocks.{i}.{name}", shape)
        for i in range(config.layers)
        for name, shape in (("qkv", (D, 3 * D)), ("out", (D, D)), ("up", (D, 4 * D)), ("down", (4 * D, D)))
    ]
    return [("token", (V, D)), ("position", (config.context, D)), *blocks, ("head", (D, V))]


def _preset(width: int, heads: int, layers: int, **other: Any) -> GptConfig:
    """The later versions of the original: dropout, the rate held, then cosine to a tenth."""
    later = {
        "context": 256, "batch_size": 64, "unit_samples": 1, "dropout": 0.1, "lr": 1e-3, "schedule": "hold-cosine",
        "min_lr": 1e-4, "warmup_steps": 50, "steps": 1000, "eval_every": 100, "eval_samples": 64,
        "checkpoint_every": 100,
    }  # fmt: skip
    return GptConfig.model_validate({**later, "width": width, "heads": heads, "layers": layers, **other})


_RANDY = _preset(
    128, 8, 4, context=64, batch_size=32, unit_samples=2, dropout=0.0, steps=2000, schedule="cosine",
    warmup_steps=100, beta2=0.99, eval_every=200, eval_samples=256, checkpoint_every=500,
)  # fmt: skip
_SMALL = override(
    _RANDY,
    {"context": 16, "width": 32, "heads": 2, "layers": 2, "batch_size": 4, "dropout": 0.1, "steps": 20,
     "warmup_steps": 5, "eval_every": 10, "eval_samples": 8, "checkpoint_every": 10},
)  # fmt: skip
# Sizes that fill no vector: 11 tokens, heads of 5 numbers, three samples in two units.
_TINY = override(_SMALL, {"context": 11, "width": 10, "batch_size": 3})

TASKS = {
    "gpt": Task(
        presets={
            "full": _RANDY,
            "small": _SMALL,
            "randy": _RANDY,
            "xs": _preset(116, 4, 3),
            "s": _preset(128, 4, 8),
            "ds": _preset(128, 4, 12),
            "m": _preset(192, 6, 6),
            "l": _preset(256, 8, 6),
            "deep": _preset(192, 6, 16),
            "xl": _preset(384, 8, 8),
        },
        about={
            "randy": "what full is, under randyGPT's name for it",
            **dict.fromkeys(
                ("xs", "s", "ds", "m", "l", "deep", "xl"),
                "another of randyGPT's sizes; 256 characters at a time: a step reads 8 times the text of full's",
            ),
        },
        summary="predicts the next character of a text: yours, by --data FILE",
        expect="validation loss about 1.4 nats a character on Python source after 2,000 steps",
        checks=(_TINY, override(_TINY, {"final_norm": False, "dropout": 0.0, "heads": 1, "unit_samples": 1})),
        verify={"dropout": 0.1},
    )
}
