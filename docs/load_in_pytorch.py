"""Load what `samebits export RUN --to safetensors` wrote, as a plain PyTorch module.

    python docs/load_in_pytorch.py RUN/export "ROMEO:"

Weights are stored as (inputs, outputs): x @ W. There are no biases and no norm gains.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional


class Gpt(nn.Module):
    def __init__(self, config: dict, tensors: dict[str, torch.Tensor]) -> None:
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


def load(folder: str | Path) -> Gpt:
    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    return Gpt(config, load_file(Path(folder) / "model.safetensors"))


def main(folder: str, prompt: str, count: int = 200) -> None:
    """Continue the prompt, always with the likeliest character (for tokenizer=char)."""
    model = load(folder)
    characters = model.config["vocabulary"]
    if unknown := set(prompt) - set(characters):
        sys.exit(f"the model knows no {''.join(sorted(unknown))!r}; it knows {''.join(characters)!r}")
    tokens = [characters.index(character) for character in prompt]
    with torch.no_grad():
        for _ in range(count):
            seen = torch.tensor([tokens[-model.config["context"] :]])
            tokens.append(int(model(seen)[0, -1, : len(characters)].argmax()))
    print("".join(characters[token] for token in tokens))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
