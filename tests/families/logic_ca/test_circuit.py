"""The learned circuit: what it computes, and that pruning never changes it."""

import json

import numpy as np
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from samebits import api
from samebits.cli.circuit import _listed
from samebits.cli.circuit import circuit as circuit_command
from samebits.config import override
from samebits.errors import SamebitsError
from samebits.families import discover, find_preset
from samebits.families.logic_ca import reference
from samebits.families.logic_ca.circuits import circuit as circuits
from samebits.families.logic_ca.circuits import pruning
from samebits.families.logic_ca.circuits.circuit import (
    DROPPED,
    NAMES,
    Circuit,
    counts,
    equivalent,
    full_circuit,
    live_channels,
)
from samebits.families.logic_ca.circuits.circuit_report import circuit_verb
from samebits.families.logic_ca.circuits.pruning import prune
from samebits.families.logic_ca.config import gate_count
from samebits.families.logic_ca.model import LogicModel
from samebits.families.logic_ca.wiring import wires
from samebits.report.circuits import draw_circuit

FAMILY = discover()["logic_ca"]
TINY = override(
    find_preset("checkerboard", "small"),
    {"height": 5, "width": 7, "channels": 3, "kernels": 2, "update": (12, 6, 3), "ca_steps": 3, "batch_size": 2},
)
DEEP = override(TINY, {"perceive": (8, 5), "kernels": 3, "update": (24, 12, 6, 4, 3), "boundary": "periodic"})
LIFE = override(find_preset("life", "small"), {"kernels": 5, "update": (6, 4, 2, 1)})


def by_hand(gates, outputs, inputs=((4, 0), (3, 0), (5, 0))):
    """Gates as (name, a, b)."""
    ops, a, b = ([gate[i] for gate in gates] for i in range(3))
    return Circuit(
        np.array(inputs, np.int32).reshape(-1, 2),
        np.array([NAMES.index(name) for name in ops], np.uint8),
        np.array(a, np.int32),
        np.array(b, np.int32),
        np.array(outputs, np.int32),
    )


def plain(circuit):
    """Gates as (name, a, b) again."""
    return [(NAMES[op], int(a), int(b)) for op, a, b in zip(circuit.ops, circuit.a, circuit.b, strict=True)]


def random_logits(config, seed, wireness=1.0):
    logits = np.random.default_rng(seed).normal(size=(gate_count(config), 16)).astype(np.float32)
    logits[:, 3] += wireness
    return logits


def random_circuit(seed, n, m, channels, kinds=16):
    """Any operations on any earlier nodes, not only the layers a model has."""
    draw = np.random.default_rng(seed)
    allowed = draw.permutation(16)[:kinds]
    spots = draw.permutation(9 * channels)[:n]
    nodes = [draw.integers(0, n + gate, 2) for gate in range(m)]
    a, b = np.array(nodes, np.int32).reshape(-1, 2).T
    outputs = draw.integers(0, n + m, channels).astype(np.int32)
    inputs = np.column_stack(np.divmod(spots, channels)).astype(np.int32)
    return Circuit(inputs, draw.choice(allowed, m).astype(np.uint8), a, b, outputs)


def truth(circuit, named):
    """The outputs on every pattern of the named inputs, one gate and one bit at a time, by the paper's formulas."""
    rows = []
    for pattern in range(2 ** len(named)):
        bits = {spot: pattern >> i & 1 for i, spot in enumerate(named)}
        values = [bits[tuple(spot)] for spot in circuit.inputs.tolist()]
        for op, a, b in zip(circuit.ops, circuit.a, circuit.b, strict=True):
            values.append(int(reference.sixteen_operations(np.float64(values[a]), np.float64(values[b]))[op]))
        rows.append([values[node] if node != DROPPED else None for node in circuit.outputs])
    return rows


def packed(bits):
    """(n, samples) of 0 and 1 → (n, W) words."""
    padded = np.pad(np.asarray(bits, np.uint8), ((0, 0), (0, -bits.shape[1] % 64)))
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def unpacked(words, samples):
    return np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, count=samples, bitorder="little")


def next_states(circuit, words):
    return circuits.evaluate(circuit, words, circuits.cone(circuit, circuits.kept_channels(circuit)))


def assert_same(one, other):
    for name in Circuit.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_the_sixteen_names_and_operations_are_the_papers():
    a, b = np.array([0.0, 0, 1, 1]), np.array([0.0, 1, 0, 1])
    values = reference.sixteen_operations(a, b).T.astype(int)
    meaning = {
        "and": a * b, "a and not b": a * (1 - b), "or": np.maximum(a, b), "xor": a != b, "nand": 1 - a * b,
        "not a": 1 - a, "a implies b": (a == 0) | (b == 1), "b implies a": (b == 0) | (a == 1),
    }  # fmt: skip
    for name, wanted in meaning.items():
        full = name if name in NAMES else f"a {name} b"
        np.testing.assert_array_equal(values[NAMES.index(full)], wanted)
    x, y = np.array([0b0011, 0b0101], np.uint64)
    for op in range(16):
        found = int(circuits.OPERATIONS[op](x, y)) & 15
        assert [found >> (3 - i) & 1 for i in range(4)] == values[op].tolist()
        assert circuits.READS_A[op] == bool((values[op][:2] != values[op][2:]).any())
        assert circuits.READS_B[op] == bool((values[op][::2] != values[op][1::2]).any())


@pytest.mark.parametrize("config", [TINY, DEEP, LIFE], ids=["tiny", "deep", "life"])
@pytest.mark.parametrize("seed", range(3))
def test_the_circuit_steps_like_the_reference(config, seed):
    logits = random_logits(config, seed)
    model = LogicModel(config, logits.reshape(-1), wires(config))
    grids = np.random.default_rng(seed).integers(0, 2, (2, 6, 7, config.channels)).astype(float)
    expected = reference.step(config, model.params, grids, soft=False)
    full = full_circuit(config, logits, model.constants)
    seen = reference.patches(grids, config.boundary == "periodic").reshape(-1, 9, config.channels)
    for circuit in (full, prune(full)):
        rows = seen[:, circuit.inputs[:, 0], circuit.inputs[:, 1]].T
        found = unpacked(next_states(circuit, packed(rows)), rows.shape[1]).T
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def test_the_first_of_equal_logits_decides():
    logits = np.zeros((gate_count(TINY), 16), np.float32)
    logits[0, [4, 9]] = 2
    assert full_circuit(TINY, logits, wires(TINY)).ops[:4].tolist() == [4, 4, 4, 0]  # once per channel


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32), st.integers(1, 6), st.integers(0, 25), st.integers(1, 3), st.integers(1, 16), st.booleans()
)
def test_pruning_keeps_every_output(seed, n, m, channels, kinds, tables):
    circuit = random_circuit(seed, min(n, 9 * channels), m, channels, kinds)
    with pytest.MonkeyPatch.context() as patch:
        if not tables:
            patch.setattr(pruning, "TABLE_INPUTS", -1)  # as with many inputs: merged by form alone
        small = prune(circuit)
        assert_same(prune(small), small)
    named = [tuple(spot) for spot in circuit.inputs.tolist()]
    assert truth(small, named) == truth(circuit, named)
    assert len(small.ops) <= len(circuit.ops)
    proof = equivalent(circuit, small)
    assert proof.exhaustive
    assert proof.patterns == 2**proof.inputs


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([TINY, DEEP, LIFE]), st.floats(0, 3))
def test_pruning_a_model_keeps_it(seed, config, wireness):
    full = full_circuit(config, random_logits(config, seed, wireness), wires(config))
    small = prune(full)
    equivalent(full, small, patterns=1 << 14)
    assert len(small.ops) <= len(full.ops)
    assert_same(prune(small), small)
    kept = prune(full, (0,))
    equivalent(full, kept, patterns=1 << 14)
    assert (kept.outputs[1:] == DROPPED).all()
    assert len(kept.ops) <= len(small.ops)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_nothing_superfluous_is_left(seed, tables):
    with pytest.MonkeyPatch.context() as patch:
        if not tables:
            patch.setattr(pruning, "TABLE_INPUTS", -1)
        small = prune(random_circuit(seed, 5, 30, 2))
    assert circuits.cone(small, (0, 1))[len(small.inputs) :].all()
    inner = [op for op, node in zip(small.ops, range(len(small.inputs), 99), strict=False) if node not in small.outputs]
    assert not {"a", "b", "not a", "not b", "false", "true"} & {NAMES[op] for op in inner}
    assert len(set(plain(small))) == len(small.ops)
    for name, a, b in plain(small):  # one way to write each
        assert name not in ("b", "not b", "b and not a", "b implies a")
        assert a < b or name in ("a and not b", "a implies b", "not a", "false", "true")


@pytest.mark.parametrize(
    ("gates", "outputs", "left", "ends"),
    [
        # constants fold: (x and true) or false = x; the output is the input itself
        ([("true", 0, 0), ("a and b", 0, 3), ("false", 1, 2), ("a or b", 4, 5)], [6], [], [0]),
        # … and x xor x is a constant, one gate on node 0
        ([("a xor b", 1, 1)], [3], [("false", 0, 0)], [1]),
        ([("a nor b", 1, 1), ("a or b", 1, 3)], [4], [("true", 0, 0)], [1]),
        # wires go
        ([("a", 0, 1), ("b", 2, 1), ("a and b", 3, 4)], [5], [("a and b", 0, 1)], [2]),
        # inverters go into the gates that read them, and two of them cancel
        ([("not a", 0, 0), ("not b", 2, 1), ("a and b", 3, 4)], [5], [("a nor b", 0, 1)], [2]),
        ([("not a", 0, 0), ("not b", 2, 3)], [4], [], [0]),
        ([("a and b", 0, 1), ("not a", 3, 3)], [4], [("a nand b", 0, 1)], [2]),
        # … but an output that is an inverted input needs its gate, and so do two outputs that are each other's inverse
        ([("not a", 0, 0)], [3], [("not a", 0, 0)], [1]),
        ([("a and b", 0, 1), ("not a", 3, 3)], [3, 4], [("a and b", 0, 1), ("not a", 2, 2)], [2, 3]),
        # a gate that is stored inverted for its output is read as such
        (
            [("a nand b", 0, 1), ("a xor b", 1, 2), ("b and not a", 3, 4)],
            [3, 5],
            [("a nand b", 0, 1), ("a xor b", 1, 2), ("a and not b", 4, 3)],
            [3, 5],
        ),
        # equal gates merge, whichever way round they are written
        (
            [("a and not b", 0, 1), ("b and not a", 1, 0), ("a xor b", 0, 2), ("a or b", 4, 5)],
            [3, 6],
            [("a and not b", 0, 1), ("a xor b", 0, 2), ("a or b", 3, 4)],
            [3, 5],
        ),
        ([("a nand b", 0, 1), ("a and b", 1, 0), ("a xor b", 3, 4)], [5], [("true", 0, 0)], [1]),
        # a gate that reads x and another gate of x and y is one gate of x and y
        ([("a and b", 0, 1), ("a xor b", 0, 3)], [4], [("a and not b", 0, 1)], [2]),
        ([("a and b", 0, 1), ("a and not b", 1, 0), ("a xor b", 3, 4)], [5], [], [0]),
        # what reaches no output goes
        ([("a and b", 0, 1), ("a or b", 1, 2)], [4], [("a or b", 0, 1)], [2]),
    ],
)
@pytest.mark.parametrize("tables", [True, False])
def test_pruning_by_hand(gates, outputs, left, ends, tables, monkeypatch):
    if not tables:
        monkeypatch.setattr(pruning, "TABLE_INPUTS", -1)
    circuit = by_hand(gates, outputs)
    small = prune(circuit)
    equivalent(circuit, small)
    assert plain(small) == left
    assert small.outputs.tolist() == ends
    assert len(small.inputs) >= 1  # constants read node 0


def test_truth_tables_find_what_form_does_not():
    """(x and y) or (x and z), against x and (y or z)."""
    both = by_hand(
        [
            ("a and b", 0, 1),
            ("a and b", 0, 2),
            ("a or b", 3, 4),
            ("a or b", 1, 2),
            ("a and b", 0, 6),
            ("a xor b", 5, 7),
        ],
        [8],
    )
    assert plain(prune(both)) == [("false", 0, 0)]


def test_a_gate_that_is_needed_is_not_replaced_by_gates_that_are_not():
    """The longer form comes first, and nobody reads it."""
    long = [("a and b", 0, 1), ("a and b", 0, 2), ("a or b", 3, 4)]
    small = prune(by_hand([*long, ("a or b", 1, 2), ("a and b", 0, 6)], [7]))
    assert plain(small) == [("a or b", 1, 2), ("a and b", 0, 3)]


def test_pruning_to_some_outputs_drops_the_others():
    circuit = by_hand([("a and b", 0, 1), ("a or b", 1, 2)], [3, 4])
    small = prune(circuit, (1,))
    assert plain(small) == [("a or b", 0, 1)]
    assert small.inputs.tolist() == [[3, 0], [5, 0]]
    assert small.outputs.tolist() == [DROPPED, 2]
    assert next_states(small, np.array([[1], [2]], np.uint64)).tolist() == [[0], [3]]
    assert equivalent(circuit, small) == circuits.Proof(True, 2, 4)
    assert_same(prune(small), small)
    with pytest.raises(SamebitsError, match="computes channels 1"):
        prune(small, (0,))


def test_live_channels_are_a_closure_over_time():
    spots = [(4, 0), (1, 1), (4, 2), (4, 3), (4, 4)]
    gates = [("a xor b", 0, 1), ("a", 2, 3), ("a and b", 4, 3)]
    # 0 reads 0 and 1; 1 is a wire from 2, whatever its other input; 2 reads itself; 3 reads 4; 4 is dead
    circuit = by_hand(gates, [5, 6, 2, 7, 4], spots)
    assert live_channels(circuit) == (0, 1, 2)
    assert live_channels(circuit, (2,)) == (2,)
    assert live_channels(circuit, (3,)) == (3, 4)
    assert live_channels(circuit, (0, 4)) == (0, 1, 2, 4)
    assert live_channels(prune(circuit, (0, 1, 2))) == (0, 1, 2)
    with pytest.raises(SamebitsError, match="channel is 3"):
        live_channels(prune(circuit, (0, 1, 2)), (3,))


def test_a_planted_fault_is_found_and_named():
    good = by_hand([("a and b", 0, 1), ("a and b", 3, 2), ("a or b", 0, 1)], [5, 4])
    bad = by_hand([("a and b", 0, 1), ("a and b", 3, 2), ("a or b", 0, 1)], [5, 3])
    with pytest.raises(SamebitsError, match="channel 1 differs for c0 W, c0 C = 1 and the rest 0"):
        equivalent(good, bad)
    assert equivalent(good, prune(bad, (0,))).exhaustive  # only what was kept is compared
    with pytest.raises(SamebitsError, match="2 and 1 channels"):
        equivalent(good, by_hand([], [0]))
    constant = by_hand([("true", 0, 0)], [3, 3])
    with pytest.raises(SamebitsError, match="channel 0 differs for all inputs 0"):
        equivalent(by_hand([("a or b", 0, 1), ("true", 0, 0)], [3, 4]), constant)


@pytest.mark.parametrize("n", [7, 12, 20])
def test_one_wrong_pattern_of_all_is_found(n):
    """A long and: the last of all patterns is the only one that tells."""
    spots = [divmod(i, 3) for i in range(n)]
    gates = [("a and b", 0, 1)] + [("a and b", n + i - 2, i) for i in range(2, n)]
    with pytest.raises(SamebitsError, match="channel 0 differs"):
        equivalent(by_hand(gates, [2 * n - 2], spots), by_hand([("false", 0, 0)], [n], spots))


def test_many_inputs_are_compared_on_random_patterns():
    n = 27
    spots = [divmod(i, 3) for i in range(n)]
    gates = [("a xor b", 0, 1)] + [("a xor b", n + i - 2, i) for i in range(2, n)]
    good = by_hand(gates, [2 * n - 2], spots)
    proof = equivalent(good, good)
    assert not proof.exhaustive
    assert proof.patterns >= 2**20
    assert str(proof) == "same outputs on 1,048,576 random inputs of 2^27: a test, no proof"
    with pytest.raises(SamebitsError, match="channel 0 differs for c0 "):
        equivalent(good, by_hand([*gates[:-1], ("a or b", 2 * n - 3, n - 1)], [2 * n - 2], spots))


def test_gates_are_counted_by_kind_and_parameter():
    logits = np.zeros((gate_count(TINY), 16), np.float32)
    perceive = 2 * sum(TINY.perceive)
    logits[:perceive, 3] = 1
    logits[:5, 5] = 2
    logits[5:9, 6] = 2
    logits[perceive:, 14] = 1
    found = counts(TINY, logits)
    rows = {name: (perceive, update) for name, perceive, update in found.rows() if perceive or update}
    assert rows == {"a": (perceive - 9, 0), "b": (5, 0), "a xor b": (4, 0), "a nand b": (0, 21)}
    assert (found.total, found.active) == (perceive + 21, 4 + 21)


def drawn(path, circuit):
    labels = [f"c{i} next" for i in range(len(circuit.outputs))]
    return draw_circuit(path, circuit.inputs, circuit.ops, circuit.a, circuit.b, circuit.outputs, NAMES, labels)


@pytest.mark.parametrize(
    "circuit",
    [
        by_hand([("a and not b", 0, 1), ("a or b", 3, 2)], [4]),
        by_hand([("false", 0, 0)], [3]),
        by_hand([], [1, 1]),
        by_hand([("true", 0, 0), ("a and b", 3, 0), ("not a", 4, 4)], [5, 4]),
        random_circuit(0, 9, 40, 2),
    ],
    ids=["small", "constant", "wire", "constant inside", "unpruned"],
)
def test_drawings_are_written(circuit, tmp_path):
    paths = drawn(tmp_path / "circuit", circuit)
    assert [path.name for path in paths] == ["circuit.svg", "circuit.png"]
    assert paths[0].read_text(encoding="utf-8").rstrip().endswith("</svg>")
    assert paths[1].read_bytes()[:4] == b"\x89PNG"


def test_the_same_circuit_is_the_same_drawing(tmp_path):
    circuit = prune(random_circuit(3, 6, 20, 2))
    one, other = (drawn(tmp_path / name, circuit)[0].read_bytes() for name in ("one", "other"))
    assert one == other


def test_a_circuit_too_large_is_not_drawn(tmp_path):
    with pytest.raises(ValueError, match="too many gates: 151; at most 150"):
        drawn(tmp_path / "circuit", random_circuit(0, 9, 151, 1))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "tiny"
    return api.train("checkerboard", preset="small", steps=2, workers=1, out=path).path


@pytest.fixture
def samebits(monkeypatch):
    """`samebits circuit` alone, also before it is registered."""
    monkeypatch.setitem(FAMILY.verbs, "circuit", circuit_verb)
    app = typer.Typer()
    app.command()(circuit_command)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_the_command_counts_checks_and_draws(run, samebits, tmp_path):
    done = samebits(run)
    assert done.exit_code == 0
    assert "1,496, of which 0 active" in done.output  # two steps change no argmax
    assert "live channels" in done.output
    assert " reach channel " in done.output
    assert "; 0 of those are active" in done.output
    assert "same outputs on all 2^" in done.output
    for name in ("circuit.svg", "circuit.png", "circuit.json"):
        assert (run / "pictures" / name).stat().st_size > 0
        assert f"wrote {run / 'pictures' / name}" in done.output
    saved = json.loads((run / "pictures" / "circuit.json").read_text(encoding="utf-8"))
    assert list(saved) == ["inputs", "ops", "a", "b", "outputs"]
    assert saved["inputs"][0].keys() == {"channel", "position"}
    assert len(saved["outputs"]) == 8
    assert None in saved["outputs"]

    assert samebits(run, "--out", tmp_path / "all", "--all-channels", "--checkpoint", "2").exit_code == 0
    whole = json.loads((tmp_path / "all" / "circuit.json").read_text(encoding="utf-8"))
    assert None not in whole["outputs"]


def test_channels_are_listed_in_runs():
    assert [_listed(channels) for channels in ((), (4,), (0, 1, 2), (0, 2, 3, 7))] == ["", "4", "0-2", "0, 2-3, 7"]


def test_the_command_says_when_it_does_not_draw(run, samebits, tmp_path, monkeypatch):
    samebits(run, "--out", tmp_path)
    monkeypatch.setattr("samebits.report.circuits.LARGEST", -1)
    done = samebits(run, "--out", tmp_path)
    assert "not drawn: too many gates: 0" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["circuit.json"]  # the old picture is of another circuit


def test_only_families_of_gates_have_a_circuit(run, samebits, monkeypatch):
    monkeypatch.delitem(FAMILY.verbs, "circuit")
    with pytest.raises(SamebitsError, match="circuit reads logic gates; try: samebits eval"):
        samebits(run)


def test_the_verb_reports_what_pruning_left(tmp_path):
    logits = random_logits(TINY, 5)
    found = circuit_verb(LogicModel(TINY, logits.reshape(-1), wires(TINY)), tmp_path)
    full = full_circuit(TINY, logits, wires(TINY))
    assert found.cell == len(full.ops) == 3 * 2 * sum(TINY.perceive) + sum(TINY.update)
    assert found.live == live_channels(prune(full))
    assert equivalent(prune(full, found.live), found.circuit)
    assert len(found.circuit.ops) == found.after.gates <= found.before.gates == len(prune(full, found.live).ops)
    assert found.proved is not None
    assert len(found.circuit.ops) <= found.reaching_active <= found.reaching <= found.cell
