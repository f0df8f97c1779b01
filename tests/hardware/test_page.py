"""The exported page without a browser: what is in it, and what is not. tests/browser plays it."""

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from samebits.errors import SamebitsError
from samebits.families.logic_ca.circuits import export
from samebits.families.logic_ca.circuits.page import automaton_of, page_of
from samebits.families.logic_ca.circuits.proving import prove_cell
from samebits.families.logic_ca.circuits.pruning import prune
from samebits.hardware.network import Network, same_gates
from samebits.hardware.proof import NotEqualError
from samebits.hardware.readers import html as reader
from samebits.hardware.readers import wasm as module_reader
from samebits.hardware.writers import html, wasm
from tests.hardware.models import drawn, learned


def cell_of(name="zeros", seed=0, title="thing"):
    model = drawn(name, seed)
    return model, export.cell_of(model, prune(model.pruned), title, "samebits export runs/thing")


class Outline(HTMLParser):
    """The tags of a page with their attributes, and the text inside of script and style elements."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, text):
        if self.tags and self.tags[-1][0] in ("script", "style"):
            self.texts.append((self.tags[-1][0], text))


def test_a_page_refers_to_nothing():
    _, cell = cell_of()
    page = Outline(html.write(cell).decode())
    for tag, attributes in page.tags:
        for name in ("src", "href", "action", "data"):
            assert attributes.get(name, "data:").startswith("data:"), (tag, attributes)
    styles = "".join(text for tag, text in page.texts if tag == "style")
    scripts = "".join(text for tag, text in page.texts if tag == "script")
    assert "mountPlayground" in scripts
    assert not re.search(r"url\(|@import", styles)
    assert not re.search(r"^\s*(import|export)\b|\bimport\(|\bfetch\(|XMLHttpRequest|WebSocket", scripts, re.MULTILINE)
    addresses = set(re.findall(r"\bhttps?://[^\"'\s]+", scripts + styles))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which nobody fetches


def test_modules_put_together_share_no_name():
    scripts = "".join(text for tag, text in Outline(html.write(cell_of()[1]).decode()).texts if tag == "script")
    names = re.findall(r"^(?:const|let|class|function) (\w+)", scripts, re.MULTILINE)
    assert len(names) == len(set(names))
    assert {"World", "Board", "Playground", "mountPlayground", "drawCircuit"} <= set(names)


def test_a_name_cannot_leave_its_place():
    """Neither the record's script nor the title: the page says what the path was, and runs none of it."""
    evil = "</script><script>alert(1)</script><!--"
    model = drawn("zeros", 0)
    cell = export.cell_of(model, prune(model.pruned), "thing", f"samebits export '{evil}'")
    raw = html.write(cell)
    assert Outline(raw.decode()).tags == Outline(html.write(cell_of()[1]).decode()).tags
    record = json.loads(reader.RECORD.findall(raw)[0])
    assert evil in " ".join(record["about"])
    prove_cell(model, "it", reader.read(raw))
    assert "<title>&lt;b&gt; · samebits</title>" in page_of({**automaton_of(model), "name": "<b>"})


def test_the_record_says_how_our_rollout_begins():
    model = learned("checkerboard-async")
    record = automaton_of(model, "async", prune(model.pruned))
    assert (record["boundary"], record["fire_rate"], record["start"], record["all_channels"]) == (
        "zeros",
        0.6,
        "random",
        8,
    )
    assert (record["start_draw"], record["fire_draw"]) == ([3, 0], [4, 3])  # purposes and extras of rng.words
    assert len(record["outputs"]) == len(record["channels"]) > 1
    assert json.loads(json.dumps(record)) == record
    picture = automaton_of(drawn("zeros", 0), circuit=drawn("zeros", 0).pruned)
    assert (picture["height"], picture["width"]) == (64, 64)


def test_gates_and_webassembly_changed_alike_are_not_the_model():
    """A page that agrees with itself: only the solver can tell."""
    model, cell = cell_of()
    other = replace(cell, ops=(cell.ops[0] ^ 1, *cell.ops[1:]))
    with pytest.raises(NotEqualError, match="as the model's own rollout confirms"):
        prove_cell(model, "it", reader.read(html.write(other)))


@pytest.mark.parametrize("change", ["gates", "inputs", "outputs", "wasm"])
def test_a_page_that_contradicts_itself_is_refused(change):
    record = html.automaton_of(cell_of()[1])
    other = html.automaton_of(cell_of(seed=1)[1])
    with pytest.raises(SamebitsError, match="export again"):
        reader.read(page_of({**record, change: other[change]}).encode())


def test_every_changed_byte_of_the_module_is_noticed_or_harmless():
    """Whatever a byte of the step becomes, the reader gives the same network, another one, or refuses."""
    _, cell = cell_of("life", 1)
    raw, channels = wasm.write(cell), ["c0"]
    whole = module_reader.read(raw, channels)
    step, draw, refused = raw.index(b"\xfd\x00"), np.random.default_rng(0), 0
    for at in draw.integers(step, raw.index(b"\xfc\x0a"), 150):
        changed = bytearray(raw)
        changed[at] ^= 1 << draw.integers(8)
        try:
            found = module_reader.read(bytes(changed), channels)
        except SamebitsError:
            refused += 1
        else:
            assert found.inputs == whole.inputs
    assert refused > 50
    for end in range(0, len(raw), 7):
        with pytest.raises(SamebitsError):
            module_reader.read(raw[:end], channels)


def test_a_module_is_small():
    assert len(base64.b64decode(automaton_of(learned("checkerboard"))["wasm"])) < 1400


def test_same_gates_looks_through_inverters():
    def network(build):
        found = Network(["a", "b"])
        found.outputs["q"] = build(found)
        return found

    nor = network(lambda n: n.add((0, 1), 0b0001))
    assert same_gates(nor, network(lambda n: n.invert(n.either(0, 1))))
    assert same_gates(nor, network(lambda n: n.invert(n.either(1, 0))))
    assert same_gates(nor, network(lambda n: n.both(n.invert(0), n.invert(1))))
    assert not same_gates(nor, network(lambda n: n.either(0, 1)))
    assert not same_gates(nor, network(lambda n: n.invert(n.both(0, 1))))
    assert same_gates(network(lambda n: 0), network(lambda n: n.invert(n.invert(0))))
    assert same_gates(network(lambda n: n.constant(True)), network(lambda n: n.invert(n.constant(False))))
    assert same_gates(network(lambda n: n.both(0, 0)), network(lambda n: 0))


def test_an_animation_is_a_frame_with_the_page_inside():
    shown = drawn("life", 0).animate(grid=(12, 10), height=500)
    tags = Outline(shown._repr_html_()).tags
    (frame,) = tags
    assert frame[0] == "iframe"
    assert frame[1]["srcdoc"] == shown.page
    assert "height: 500px" in frame[1]["style"]
    assert '"height": 12,\n"width": 10,' in shown.page
