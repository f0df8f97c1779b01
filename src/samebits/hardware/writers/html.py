"""The cell as a page to play with: one file that needs nothing else, with its circuit as WebAssembly.

`automaton_of` is the record that web/playground.js mounts; `page_of` puts it into a page, with the scripts and the
style of `web/` written out in it. Another page can load those as modules: mountPlayground(element, automaton).
"""

from __future__ import annotations

import base64
import html
import json
import re
from importlib import resources
from typing import Any

from samebits.hardware.cell import Cell
from samebits.hardware.writers import wasm

SCRIPTS = (
    "engine.js",
    "circuit.js",
    "canvas.js",
    "controls.js",
    "playground.js",
)  # what imports comes after what it imports
IMPORT = re.compile(r"^import .* from \"\./[a-z]+\.js\";\n", re.MULTILINE)
EXPORT = re.compile(r"^export (?=const|function|class)", re.MULTILINE)

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<main id="playground"></main>
<noscript>This page runs the automaton in your browser and needs JavaScript.</noscript>
<script type="application/json" id="automaton">
{record}
</script>
<script type="module">
{script}
const asked = new URLSearchParams(location.search);
const [element, record] = ["playground", "automaton"].map((id) => document.getElementById(id));
window.playground = mountPlayground(element, JSON.parse(record.textContent), {{ engine: asked.get("engine") }});
</script>
</body>
</html>
"""


def automaton_of(cell: Cell) -> dict[str, Any]:
    """All that a page needs of the automaton, ready for JSON; nodes are numbered as in the cell."""
    scene = cell.scene
    return {
        "name": cell.name,
        "about": list(cell.about),
        "channels": list(cell.channels),
        "inputs": [list(spot) for spot in cell.inputs],
        "gates": [list(gate) for gate in cell.gates],
        "outputs": list(cell.outputs),
        "boundary": cell.boundary,
        "height": scene.size[0],
        "width": scene.size[1],
        "steps": scene.steps,
        "visible": scene.visible,
        "all_channels": scene.all_channels,
        "start": scene.start,
        "start_draw": list(scene.start_draw),
        "fire_draw": list(scene.fire_draw),
        "fire_rate": scene.fire_rate,
        "other_rate": scene.other_rate,
        "wasm": base64.b64encode(wasm.write(cell)).decode(),
    }


def page_of(automaton: dict[str, Any]) -> str:
    """The record as a page of its own."""
    folder = resources.files("samebits") / "web"
    script = "\n".join((folder / name).read_text("utf-8") for name in SCRIPTS)
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in automaton.items()]
    return PAGE.format(
        title=html.escape(f"{automaton['name']} · samebits"),
        style=(folder / "playground.css").read_text("utf-8"),
        # In a script element nothing ends the text but </script, which JSON can avoid.
        record="{\n" + ",\n".join(lines).replace("<", "\\u003c") + "\n}",
        script=EXPORT.sub("", IMPORT.sub("", script)),
    )


def write(cell: Cell) -> bytes:
    return page_of(automaton_of(cell)).encode()
