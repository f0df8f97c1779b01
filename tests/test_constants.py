"""Numbers that several languages must agree on: one test reads them all.

Kernels of a GPU get theirs from Python, as words for the compiler; what is written down twice is compared here.
"""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import samebits
from samebits.arithmetic import rng
from samebits.devices.gpu import elementary, philox, products
from samebits.devices.gpu.device import OPTIM_WORDS
from samebits.families.gpt import gpu as gpt_gpu
from samebits.families.gpt import kernels as gpt_kernels
from samebits.families.gpt import reference as gpt_reference
from samebits.families.gpt.config import DROPOUT
from samebits.families.graph import gpu as graph_gpu
from samebits.families.graph import reference as graph_reference
from samebits.families.graph import sinkhorn
from samebits.families.logic_ca import gates
from samebits.families.logic_ca import reference as logic_reference
from samebits.families.logic_ca.gpu import kernels as logic_gpu
from samebits.hardware.writers import c, verilog, wasm

PACKAGE = Path(samebits.__file__).parent
ENGINE = (PACKAGE / "web/engine.js").read_text(encoding="utf-8")
BITS = [(a, b) for a in (0, 1) for b in (0, 1)]


def in_javascript(name):
    """The value of a constant of engine.js, where it is plain numbers and strings."""
    text = re.search(rf"const {name} = (.*?);", ENGINE, re.DOTALL)[1]
    return ast.literal_eval(re.sub(r"(0x[0-9a-f]+)n", r"\1", text))


def defined(path, name):
    """The value of a #define."""
    return int(re.search(rf"#define {name} (\d+)\b", (PACKAGE / path).read_text(encoding="utf-8"))[1])


def in_python(path, name):
    """The value of a constant of a module that is not imported."""
    return ast.literal_eval(re.search(rf"^{name} = (.*?)(#|$)", path.read_text(encoding="utf-8"), re.MULTILINE)[1])


def test_all_draw_the_words_of_one_generator():
    multipliers, weyl = (int(rng.M0), int(rng.M1)), (int(rng.W0), int(rng.W1))
    assert multipliers == wasm.MULTIPLIERS
    assert multipliers == tuple(upper << 32 | lower for upper, lower in in_javascript("MULTIPLIERS"))
    assert weyl == wasm.WEYL == tuple(in_javascript("WEYL"))
    assert rng.ROUNDS == wasm.ROUNDS == in_javascript("ROUNDS")


def test_a_state_lies_in_memory_as_both_engines_of_a_page_read_it():
    assert in_javascript("MOST_SIDE") == wasm.MOST_CELLS
    assert [in_javascript(name) for name in ("LINE", "FIRE_LINE", "PAGE")] == [wasm.LINE, wasm.FIRE_LINE, wasm.PAGE]


def truth(expressions):
    """(16, 4) of expressions in a and b, as Python, C, JavaScript and Verilog write them."""
    plain = [re.sub(r"UINT64_C\((\d)\)|1'b(\d)", r"\1\2", text.format(a="a", b="b")) for text in expressions]
    return [[eval(text, {"a": a, "b": b}) & 1 for a, b in BITS] for text in plain]


def test_the_sixteen_operations_are_the_same_in_every_language(monkeypatch):
    ours = [[int(column @ (1, a, b, a * b)) for a, b in BITS] for column in gates.MATRIX.T]
    assert ours == truth(c.OPERATIONS) == truth(verilog.OPERATIONS) == truth(in_javascript("OPERATIONS"))
    a, b = np.array(BITS, float).T
    assert ours == logic_reference.sixteen_operations(a, b).T.astype(int).tolist()
    meaning = {
        "v128.and": lambda a, b: a & b, "v128.or": lambda a, b: a | b, "v128.xor": lambda a, b: a ^ b,
        "v128.andnot": lambda a, b: a & ~b, "v128.not": lambda a: ~a,
    }  # fmt: skip
    monkeypatch.setattr(wasm, "op", lambda name, *operands: meaning[name](*operands))
    monkeypatch.setattr(wasm, "all_bits", lambda one: -one)
    assert ours == [[operation(a, b) & 1 for a, b in BITS] for operation in wasm.OPERATIONS]


def test_the_oracles_have_the_constants_of_the_kernels():
    twin = Path(__file__).parent / "families/gpt/twin.py"
    assert in_python(twin, "DROPOUT") == DROPOUT
    assert gpt_kernels.EPS == gpt_reference.EPS == in_python(PACKAGE / "families/gpt/peer_torch.py", "NORM_EPS")
    assert f"eps={gpt_kernels.EPS:.0e}".replace("e-0", "e-") in twin.read_text(encoding="utf-8")
    for name in ("KEEP", "DELETE", "FIRST_LABEL"):
        assert getattr(sinkhorn, name) == getattr(graph_reference, name)


def test_launches_have_the_sizes_that_kernels_are_written_for():
    path = "families/gpt/gpt.cl"
    assert defined(path, "QUERIES") == gpt_gpu.QUERIES
    assert defined(path, "WARPS") == gpt_gpu.ATTENTION // gpt_gpu.WARP
    assert defined(path, "MOST_ROWS") == gpt_gpu.NORMS
    assert defined(path, "MOST_LEVELS") == products.MOST_LEVELS


WORDS = {
    "LEVELS": 0, **OPTIM_WORDS, **elementary.WORDS, **philox.WORDS, **products.WORDS, **gpt_gpu.WORDS,
    **graph_gpu.WORDS, **logic_gpu.GATE_WORDS, **logic_gpu.AUTOMATON_WORDS,
}  # fmt: skip


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.cl")), ids=lambda path: path.name)
def test_no_kernel_has_a_number_of_its_own_for_what_python_says(path):
    assert {*re.findall(r"#define (\w+)", path.read_text(encoding="utf-8"))} & {*WORDS} == set()
