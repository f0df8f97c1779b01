"""Every format: written, read back by a parser of its own, proved, and refused when changed."""

import random
import re
from dataclasses import replace

import numpy as np
import pytest

from samebits.errors import SamebitsError
from samebits.families.logic_ca.circuits import export
from samebits.families.logic_ca.circuits.circuit import cone, evaluate, kept_channels
from samebits.families.logic_ca.circuits.proving import network_of, prove_cell, prove_circuit
from samebits.families.logic_ca.circuits.pruning import prune
from samebits.families.logic_ca.config import gate_count
from samebits.hardware import network as networks
from samebits.hardware.cell import next_name, port_name
from samebits.hardware.formats import FORMATS
from samebits.hardware.proof import NotEqualError
from tests.hardware.models import LEARNED, SMALL, drawn, learned, of_operations, smaller
from tests.hardware.mutants import mutant


def cell_of(model):
    return export.cell_of(model, prune(model.pruned), "thing", "samebits export runs/thing")


def said(circuit, patterns):
    """What our own evaluation says of every pattern, (patterns, channels)."""
    words = patterns[:, circuit.inputs[:, 0], circuit.inputs[:, 1]].T.astype(np.uint64)
    kept = list(kept_channels(circuit))
    return (evaluate(circuit, words, cone(circuit, kept))[kept] & np.uint64(1)).T


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", SMALL)
def test_a_file_read_back_computes_the_same(form, name):
    for seed in range(3):
        model = drawn(name, seed)
        cell, channels = cell_of(model), model.config.channels
        found = FORMATS[form].read(FORMATS[form].write(cell))
        patterns = np.random.default_rng(seed).integers(0, 2, (40, 9, channels))
        wanted = said(model.pruned, patterns)
        for pattern, values in zip(patterns, wanted, strict=True):
            bits = {port_name(p, c): bool(pattern[p, c]) for p in range(9) for c in range(channels)}
            told = networks.evaluate(found, bits)
            assert [told[next_name(c)] for c in range(channels)] == [bool(value) for value in values]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("task", LEARNED)
def test_all_learned_automata_are_proved_equal_in_every_format(form, task):
    model = learned(task)
    cell = export.cell_of(model, smaller(task), task, "")
    proved = prove_cell(model, "it", FORMATS[form].read(FORMATS[form].write(cell)))
    assert "of the checkpoint" in proved.what


def test_a_circuit_with_a_wrong_gate_is_not_proved():
    model = learned("checkerboard")
    small = smaller("checkerboard")
    ops = small.ops.copy()
    ops[0] ^= 1
    with pytest.raises(NotEqualError, match=r"c0 differs .* as the model's own rollout confirms"):
        prove_circuit(model, replace(small, ops=ops))


def is_equal(model, network):
    """By trying every pattern: for circuits of nine inputs."""
    wanted = network_of(model.pruned)
    for p in range(512):
        bits = {name: bool(p >> i & 1) for i, name in enumerate(wanted.inputs)}
        if networks.evaluate(network, bits) != networks.evaluate(wanted, bits):
            return False
    return True


def check_mutants(count):
    """How many changed files of learned Life still computed the same, differed, or were no circuits any more."""
    model, draw, tally = learned("life"), random.Random(0), {"equal": 0, "refused": 0, "broken": 0}
    cell = export.cell_of(model, smaller("life"), "life", "")
    for number in range(count):
        form = list(FORMATS)[number % len(FORMATS)]
        raw = FORMATS[form].write(cell)
        changed = mutant(form, raw, draw)
        assert changed != raw
        try:
            network = FORMATS[form].read(changed)
        except SamebitsError:
            assert form in ("aiger", "html")  # a gate that would read itself; gates that are not those drawn
            tally["broken"] += 1
            continue
        if is_equal(model, network):
            prove_cell(model, form, network)
            tally["equal"] += 1
            continue
        with pytest.raises(NotEqualError, match="as the model's own rollout confirms") as refused:
            prove_cell(model, form, network)
        example = refused.value.example
        assert example.wrong
        assert networks.evaluate(network, example.inputs) == example.found
        tally["refused"] += 1
    return tally


def test_every_change_that_matters_is_refused_with_a_confirmed_example():
    tally = check_mutants(30)
    assert tally["refused"] > 15, tally


@pytest.mark.hardware
def test_200_changes_to_the_files_of_learned_life():
    tally = check_mutants(200)
    print(tally)
    assert tally["refused"] > 100, tally


def test_the_drawing_shows_the_neighbourhood():
    model = learned("life")
    changed = FORMATS["verilog"].write(cell_of(model)).replace(b"c0_next = ", b"c0_next = ~")
    with pytest.raises(NotEqualError) as refused:
        prove_cell(model, "life.v", FORMATS["verilog"].read(changed))
    picture = refused.value.drawing.splitlines()
    assert [len(re.findall("[01]", line.partition("next")[0].replace("c0", ""))) for line in picture] == [3, 3, 3]
    assert "next: the model 0, the file 1" in picture[1] or "next: the model 1, the file 0" in picture[1]


def test_json_states_its_numbering_and_the_header_what_it_is():
    cell = cell_of(drawn("zeros", 0))
    text = FORMATS["json"].write(cell).decode()
    assert "truth table: 8 if it is 1 for a = b = 0" in text
    for form in FORMATS:
        raw = FORMATS[form].write(cell)
        assert b"weights sha256:" in raw
        assert b"samebits export runs/thing" in raw


@pytest.mark.parametrize("path", ["a*/b", "a\nb", "a\\"])
def test_a_path_cannot_leave_the_comment(path):
    model = drawn("zeros", 0)
    cell = export.cell_of(model, prune(model.pruned), "thing", f"samebits export {path}")
    for form in FORMATS.values():
        prove_cell(model, "it", form.read(form.write(cell)))
    assert FORMATS["c"].write(cell).count(b"*/") == FORMATS["c"].write(cell_of(model)).count(b"*/")


@pytest.mark.parametrize(
    ("name", "identifier"),
    [("9", "automaton_9"), ("_x", "automaton__x"), ("é", "automaton__"), ("", "automaton_"), ("int", "int")],
)
def test_a_name_becomes_an_identifier(name, identifier):
    """Of C and Verilog; what is made of it has more letters, so it is no keyword."""
    model = drawn("zeros", 0)
    assert export.cell_of(model, prune(model.pruned), name, "").name == identifier


def test_a_cell_of_constants_and_wires():
    """Nothing but outputs that are inputs, and one that is always 1: node 0 may belong to a channel nobody kept."""
    model = of_operations(SMALL["zeros"], np.full(gate_count(SMALL["zeros"]), 15))
    cell = export.cell_of(model, prune(model.pruned, (1,)), "thing", "")
    assert cell.ops == (15,)
    for form in FORMATS.values():
        prove_cell(model, "it", form.read(form.write(cell)))


BAD = {
    "verilog": ["", "module m(", "module m(input wire a); endmodule", "module m(input wire [3:1] a);",
                "module m(output wire q);\nassign q = a;\nendmodule",
                "module m(input wire a, output wire q);\nassign q = a & a[3];\nendmodule",
                "module m(output wire q);\nassign q = " + "(" * 500 + ";",
                "module m(output wire q); assign q = 2'b0;\nendmodule"],
    "blif": [".names", ".names a b\n11 1", ".inputs a\n.names a q\n11 1", ".latch a b", "11 1", ".outputs q"],
    "aiger": ["", "aig 1 1", "aig 3 1 0 1 1\n2\n", "aig 1 1 0 1 0\n9\ni0 a\no0 b\n", "aig 1 1 0 1 0\n2\n"],
    "c": ["", "int main() {}"],
    "json": ["", "[]", "{}", '{"ports": [], "inputs": ["a"], "gates": [], "outputs": {}}',
             '{"ports": ["a"], "inputs": ["a"], "gates": [[99, 0, 0]], "outputs": {}}', "[" * 100_000],
    "truth-table": ["nothing", "ports a\ntable b a\n0\n", "ports a\ntable b c\n01", "outputs q"],
    "html": ["", *(f'<script type="application/json" id="automaton">\n{record}\n</script>' for record in (
        "{", "[]", '{"channels": []}', '{"channels": [0, 0]}', '{"channels": [0], "wasm": 3}',
        '{"channels": [0], "wasm": "?"}', '{"channels": [0], "wasm": ""}', '{"channels": [0], "wasm": "AGFzbQEAAAA="}',
    ))],
}  # fmt: skip


@pytest.mark.parametrize(("form", "text"), [(form, text) for form, texts in BAD.items() for text in texts])
def test_what_no_export_wrote_is_refused(form, text):
    model = drawn("zeros", 0)
    with pytest.raises(SamebitsError):
        prove_cell(model, "it", FORMATS[form].read(text.encode()))
