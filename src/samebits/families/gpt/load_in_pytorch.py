"""Load what `samebits export DIR --to safetensors` wrote, as a plain PyTorch module. Nothing of samebits is needed.

    python exported/load_in_pytorch.py exported "ROMEO:"

Weights are stored as (inputs, outputs): x @ W. There are no biases and no norm gains. A model of byte pairs needs the
package tokenizers to turn text into tokens.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional


class Gpt(nn.Module):
    def __init__(self, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.config = config
        # A ParameterDict takes no dots in names.
        self.weights = nn.ParameterDict(
            {name.replace(".", "_"): nn.Parameter(value) for name, value in tensors.items()}
        )

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, x.shape[-1:], eps=self.config["norm_eps"])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens (B, T), T at most the context → logits (B, T, V)."""
        w, (B, T), H = self.weights, tokens.shape, self.config["heads"]
        x = w["token"][tokens] + w["position"][:T]
        for i in range(self.config["layers"]):
            qkv = (self.norm(x) @ w[f"blocks_{i}_qkv"]).view(B, T, 3, H, -1).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(*qkv, is_causal=True).transpose(1, 2).reshape(B, T, -1)
            x = x + y @ w[f"blocks_{i}_out"]
            x = x + functional.relu(self.norm(x) @ w[f"blocks_{i}_up"]).square() @ w[f"blocks_{i}_down"]
        return (self.norm(x) if self.config["final_norm"] else x) @ w["head"]


class Characters:
    """Token i is character i of the list."""

    def __init__(self, characters: list[str]) -> None:
        self.characters = characters

    def encode(self, text: str) -> list[int]:
        if unknown := set(text) - set(self.characters):
            sys.exit(f"the model knows no {''.join(sorted(unknown))!r}; it knows {''.join(self.characters)!r}")
        return [self.characters.index(character) for character in text]

    def decode(self, tokens: list[int]) -> str:
        return "".join(self.characters[token] for token in tokens)


class BytePairs:
    """The tokenizer of tokenizer.json."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(path))
        self.tokenizer.encode_special_tokens = True  # a text that talks about <|eos|> does not end there

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: list[int]) -> str:
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))


def load(folder: str | Path) -> Gpt:
    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    return Gpt(config, load_file(Path(folder) / "model.safetensors"))


def tokens_of(folder: str | Path, config: dict[str, Any]) -> Characters | BytePairs:
    known = config["vocabulary"]
    return BytePairs(Path(folder) / known) if isinstance(known, str) else Characters(known)


def main(folder: str, prompt: str, count: int = 200) -> None:
    """Continue the prompt, always with the likeliest token, to the end of the document at most."""
    model = load(folder)
    text, end = tokens_of(folder, model.config), model.config["end"]
    tokens = text.encode(prompt)
    with torch.no_grad():
        for _ in range(count):
            seen = torch.tensor([tokens[-model.config["context"] :]])
            likeliest = int(model(seen)[0, -1].argmax())
            if likeliest == end:
                break
            tokens.append(likeliest)
    print(text.decode(tokens))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
