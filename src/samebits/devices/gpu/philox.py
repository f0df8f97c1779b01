"""Random words on a GPU (random.cl): the constants of arithmetic/rng.py as the compilers read them."""

from __future__ import annotations

from samebits.arithmetic.rng import M0, M1, ROUNDS, W0, W1

FILE = "devices/gpu/random.cl"
WORDS = {
    "PHILOX_ROUNDS": ROUNDS,
    **{f"PHILOX_{name}": f"{int(word):#x}UL" for name, word in (("M0", M0), ("M1", M1), ("W0", W0), ("W1", W1))},
}
