"""The page: what its WebAssembly computes, if the gates that it draws, and that JavaScript runs, are the same ones."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

from samebits.errors import SamebitsError
from samebits.hardware.network import Network, same_gates
from samebits.hardware.readers import json as read_json
from samebits.hardware.readers import wasm

RECORD = re.compile(rb'<script type="application/json" id="automaton">\n(.*?)\n</script>', re.DOTALL)
COMPASS = ("NW", "N", "NE", "W", "C", "E", "SW", "S", "SE")


def read(raw: bytes) -> Network:
    found = RECORD.findall(raw)
    if len(found) != 1:
        raise wrong("it must hold the record of one automaton")
    try:
        record = json.loads(found[0])
    except (ValueError, RecursionError) as error:
        raise wrong(f"the automaton's record cannot be parsed ({error})") from None
    channels = _channels(record)
    try:
        module = base64.b64decode(record.get("wasm", ""), validate=True)
    except (ValueError, TypeError, binascii.Error):
        raise wrong("the WebAssembly module is no base64") from None
    network, drawn = wasm.read(module, channels), _drawn(record, channels)
    if not same_gates(network, drawn):
        raise wrong("the gates that it draws are not those of its WebAssembly module")
    return network


def wrong(problem: str) -> SamebitsError:
    return SamebitsError(f"the page: {problem}; export again")


def _channels(record: Any) -> list[str]:
    found = record.get("channels") if isinstance(record, dict) else None
    if not isinstance(found, list) or not found or not all(type(number) is int and number >= 0 for number in found):
        raise wrong("channels must be there, a list of numbers")
    if len(set(found)) != len(found):
        raise wrong("a channel is named twice")
    return [f"c{number}" for number in found]


def _drawn(record: Any, channels: list[str]) -> Network:
    """The gates as JavaScript reads them, by way of the JSON format, which has names where these are numbers."""
    inputs, outputs = record.get("inputs"), record.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(outputs) != len(channels):
        raise wrong("inputs and outputs must be there, an output a channel")
    names = []
    for spot in inputs:
        if not isinstance(spot, list) or [type(part) for part in spot] != [int, int] or not 0 <= spot[0] < 9:
            raise wrong("an input must be a position from 0 to 8 and a channel")
        names.append(f"c{spot[1]}_{COMPASS[spot[0]]}")
    cell = {
        "ports": [f"{channel}_{direction}" for channel in channels for direction in COMPASS],
        "inputs": names,
        "gates": record.get("gates"),
        "outputs": dict(zip([f"{channel}_next" for channel in channels], outputs, strict=True)),
    }
    return read_json.read(json.dumps(cell).encode())
