"""A trained GPT as Hugging Face's transformers loads it: as its GPT-2, without code of ours.

GPT-2 differs in one thing that no setting changes: its norms subtract the mean. So the residual stream x is written
twice, as (x, −x): its mean is 0 and its mean square is that of x, hence GPT-2's norm of it is (n, −n), where n is our
norm of x. Whatever reads the stream reads the first half; whatever writes to it writes (y, −y). Heads become twice as
wide, their second halves 0; queries are multiplied by √2, since scores are divided by the root of the width.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.errors import SamebitsError
from samebits.families.gpt.config import GptConfig, layout
from samebits.families.gpt.kernels import EPS
from samebits.families.gpt.tokens import END, Vocabulary
from samebits.training.params import views

UNKNOWN = "<|unknown|>"  # named in the tokenizer, and no token: a character without one is an error there too


def tensors(config: GptConfig, weights: Array) -> dict[str, Array]:
    """Those of GPT2LMHeadModel, of twice the width."""
    if not config.final_norm:
        raise SamebitsError(
            "final_norm is false; GPT-2 has a norm before the head; use --to safetensors, or train with it"
        )
    own, D = views(layout(config), weights), config.width
    found = {
        "transformer.wte.weight": _twice(own["token"]),
        "transformer.wpe.weight": _twice(own["position"]),
        "lm_head.weight": _reading(own["head"]).T,
        **_norm("transformer.ln_f", D),
    }
    for i in range(config.layers):
        block, name = f"blocks.{i}", f"transformer.h.{i}"
        found |= {
            **_norm(f"{name}.ln_1", D),
            **_norm(f"{name}.ln_2", D),
            f"{name}.attn.c_attn.weight": _reading(_queries(own[f"{block}.qkv"], config.heads)),
            f"{name}.attn.c_proj.weight": _twice(_spread(own[f"{block}.out"].T, config.heads).T),
            f"{name}.mlp.c_fc.weight": _reading(own[f"{block}.up"]),
            f"{name}.mlp.c_proj.weight": _twice(own[f"{block}.down"]),
        }
        for part, size in (("attn.c_attn", 6 * D), ("attn.c_proj", 2 * D), ("mlp.c_fc", 4 * D), ("mlp.c_proj", 2 * D)):
            found[f"{name}.{part}.bias"] = np.zeros(size, np.float32)
    return {name: np.ascontiguousarray(value, np.float32) for name, value in found.items()}


def _twice(matrix: Array) -> Array:
    """(inputs, D) → (inputs, 2D): writes (y, −y)."""
    return np.concatenate([matrix, -matrix], axis=1)


def _reading(matrix: Array) -> Array:
    """(D, outputs) → (2D, outputs): reads the first half."""
    return np.concatenate([matrix, np.zeros_like(matrix)])


def _spread(columns: Array, heads: int) -> Array:
    """(rows, D) → (rows, 2D): every head's columns, then as many of 0."""
    rows = columns.reshape(len(columns), heads, -1)
    return np.concatenate([rows, np.zeros_like(rows)], axis=2).reshape(len(columns), -1)


def _queries(qkv: Array, heads: int) -> Array:
    q, k, v = np.split(qkv, 3, axis=1)
    return np.concatenate([_spread(part, heads) for part in (q * np.float32(np.sqrt(2.0)), k, v)], axis=1)


def _norm(name: str, width: int) -> dict[str, Array]:
    return {f"{name}.weight": np.ones(2 * width, np.float32), f"{name}.bias": np.zeros(2 * width, np.float32)}


def description(config: GptConfig, end: int | None) -> dict[str, Any]:
    """config.json"""
    return {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": config.symbols,
        "n_positions": config.context, "n_embd": 2 * config.width, "n_layer": config.layers, "n_head": config.heads,
        "n_inner": 4 * config.width, "activation_function": "relu2", "layer_norm_epsilon": EPS,
        "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "tie_word_embeddings": False,
        "bos_token_id": end, "eos_token_id": end, "torch_dtype": "float32",
    }  # fmt: skip


def tokenizer(vocabulary: Vocabulary) -> bytes:
    """tokenizer.json, for the package tokenizers; of characters it is written here."""
    if vocabulary.codepoints is None:
        return vocabulary.bpe
    known = {chr(point): token for token, point in enumerate(vocabulary.codepoints.tolist())}
    ends = {} if vocabulary.end is None else {END: vocabulary.end}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    made = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": token, "content": text, **special} for text, token in ends.items()],
        "pre_tokenizer": {
            "type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False,
        },
        "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": {**known, **ends}, "unk_token": UNKNOWN},
    }  # fmt: skip
    return json.dumps(made, ensure_ascii=False).encode()


def tokenizer_description(config: GptConfig, vocabulary: Vocabulary) -> dict[str, Any]:
    """tokenizer_config.json"""
    end = {} if vocabulary.end is None else {"eos_token": END, "bos_token": END}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": config.context,
        "clean_up_tokenization_spaces": False, **end,
    }  # fmt: skip
