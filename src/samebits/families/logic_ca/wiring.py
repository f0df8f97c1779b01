"""Which inputs each gate reads: drawn once from `wiring_seed`, exactly as published, and never trained.

Convergence depends on these permutations, so the draws follow JAX 0.4's threefry generator to the bit: seed 23 gives
the published circuits.
"""

from __future__ import annotations

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.families.logic_ca.config import LogicConfig

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
NEIGHBOURS = (0, 1, 2, 3, 5, 6, 7, 8)  # of the 3×3 patch, row-major
CENTRE = 4


def threefry(key: Array, x0: Array, x1: Array) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011), elementwise on uint32 arrays."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    with np.errstate(over="ignore"):
        x0, x1 = x0 + keys[0], x1 + keys[1]
        for group in range(5):
            for rotation in ROTATIONS[group % 2]:
                x0 = x0 + x1
                x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
                x1 = x0 ^ x1
            x0 = x0 + keys[(group + 1) % 3]
            x1 = x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def random_key(seed: int) -> Array:
    return np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)


def random_bits(key: Array, count: int) -> Array:
    """`count` uint32: the counters' first half and second half are the generator's two words."""
    counters = np.zeros(count + count % 2, np.uint32)
    counters[:count] = np.arange(count, dtype=np.uint32)
    return np.concatenate(threefry(key, *np.split(counters, 2)))[:count]


def split(key: Array, count: int = 2) -> Array:
    return random_bits(key, 2 * count).reshape(count, 2)


def permutation(key: Array, count: int) -> Array:
    """Sort by random keys, often enough that ties are improbable."""
    order, rounds = np.arange(count), 0
    while (2**32 - 1) ** rounds < count**3:  # the published ⌈3 ln count / ln (2³² − 1)⌉, in whole numbers
        rounds += 1
    for _ in range(rounds):
        key, sub = split(key)
        order = order[np.argsort(random_bits(sub, count), kind="stable")]
    return order


def first_kernel_wires(key: Array) -> Array:
    """(2, 8): each neighbour, in random order, against the centre."""
    neighbours = np.array(NEIGHBOURS)[permutation(key, len(NEIGHBOURS))]
    return np.stack([neighbours, np.full_like(neighbours, CENTRE)]).astype(np.int32)


def unique_wires(key: Array, inputs: int, outputs: int) -> Array:
    """(2, outputs): pairs of neighbours first, so that inputs are used evenly; all pairs are different.

    With an odd number of inputs the last one may stay unused, as published. config.check_wirable says when there are
    enough pairs.
    """
    x = np.arange(inputs)
    firsts, seconds = [x[: inputs - 1 : 2]], [x[1::2]]
    pairs = len(seconds[0])
    if pairs < outputs:
        firsts.append(x[1:-1:2])
        seconds.append(x[2::2])
        pairs += len(seconds[-1])
    distance = 2
    while pairs < outputs:
        firsts.append(x[:-distance])
        seconds.append(x[distance:])
        pairs += inputs - distance
        distance += 1
    order = permutation(key, outputs)
    chosen = [np.concatenate(parts)[:outputs][order] for parts in (firsts, seconds)]
    return np.stack(chosen).astype(np.int32)


def wires(config: LogicConfig) -> dict[str, Array]:
    """Every layer's wires by name, (2, gates) each: row 0 is input a, row 1 is input b."""
    _, key = split(random_key(config.wiring_seed))
    key, update_key = split(key)
    _, perceive_key = split(key)
    found: dict[str, Array] = {}
    for i, gates in enumerate(config.perceive):
        perceive_key, layer_key = split(perceive_key)
        inputs = config.perceive[i - 1]
        found[f"perceive.{i}.wires"] = (
            first_kernel_wires(layer_key) if i == 0 else unique_wires(layer_key, inputs, gates)
        )
    inputs = config.update_inputs
    for i, gates in enumerate(config.update):
        update_key, layer_key = split(update_key)
        found[f"update.{i}.wires"] = unique_wires(layer_key, inputs, gates)
        inputs = gates
    return found
