"""The model once more, in PyTorch, for its autograd: the second oracle. Written from the paper."""

from __future__ import annotations

import torch
from torch.nn import functional


def operations(a, b):
    ab, one = a * b, torch.ones_like(a)
    rows = [
        one * 0, ab, a - ab, a, b - ab, b, a + b - 2 * ab, a + b - ab,
        one - (a + b - ab), one - (a + b - 2 * ab), one - b, one - b + ab, one - a, one - a + ab, one - ab, one,
    ]  # fmt: skip
    return torch.stack(rows, dim=-1)


def layer(x, wires, logits):
    """x (..., inputs), logits (..., gates, 16)."""
    index = torch.tensor(wires, dtype=torch.long)
    return (operations(x[..., index[0]], x[..., index[1]]) * torch.softmax(logits, dim=-1)).sum(-1)


def neighbourhoods(grid, periodic):
    """(B, H, W, C) → (B, H, W, C, 9)."""
    B, H, W, C = grid.shape
    planes = grid.permute(0, 3, 1, 2)
    padded = functional.pad(planes, (1, 1, 1, 1), mode="circular") if periodic else functional.pad(planes, (1, 1, 1, 1))
    unfolded = functional.unfold(padded, kernel_size=3).reshape(B, C, 9, H, W)
    return unfolded.permute(0, 3, 4, 1, 2)


def loss(config, logits, wires, batch):
    grid = torch.tensor(batch.arrays.grids, dtype=torch.float64)
    targets = torch.tensor(batch.arrays.targets, dtype=torch.float64)
    total = torch.zeros((), dtype=torch.float64)
    for t in range(config.ca_steps):
        # (B, H, W, C, K, …): every kernel sees every channel
        x = neighbourhoods(grid, config.boundary == "periodic").unsqueeze(-2)
        x = x.expand(*x.shape[:-2], config.kernels, 9)
        for i in range(len(config.perceive)):
            x = layer(x, wires[f"perceive.{i}.wires"], logits[f"perceive.{i}.logits"])
        seen = x.transpose(-1, -2).flatten(start_dim=3)  # channel, output, kernel
        x = torch.cat([grid, seen], dim=-1)
        for i in range(len(config.update)):
            x = layer(x, wires[f"update.{i}.wires"], logits[f"update.{i}.logits"])
        if batch.arrays.fire.size:
            does = torch.tensor(batch.arrays.fire[t].reshape(1, *grid.shape[1:3], 1))
            x = torch.where(does == 0, grid, x) * (does != 2)
        grid = x
        if t + 1 in (config.loss_steps or (config.ca_steps,)):
            total = total + ((grid[..., : targets.shape[-1]] - targets) ** 2).sum()
    return total
