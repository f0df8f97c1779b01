"""One gate of an exported file changed, format by format, as a slip of a writer or of a hand would."""

from __future__ import annotations

import base64
import json
import re

FLIPS = {"&": "|", "|": "^", "^": "&"}


def mutant(form, raw, draw):
    """The bytes with one gate changed; `draw` is a random.Random."""
    return {
        "verilog": _operator,
        "c": _operator,
        "blif": _row,
        "json": _number,
        "aiger": _delta,
        "truth-table": _digit,
        "html": _opcode,
    }[form](raw, draw)


def _operator(raw, draw):
    """An operator of a gate's line, or the name it reads."""
    lines = raw.decode().split("\n")
    gates = [i for i, line in enumerate(lines) if re.search(r"\bg[0-9]+ = .*[&|^]", line)]
    i = draw.choice(gates)
    head, _, tail = lines[i].partition(" = ")
    spots = [k for k, letter in enumerate(tail) if letter in FLIPS]
    k = draw.choice(spots)
    if draw.random() < 0.3:  # an inverter instead
        word = draw.choice(re.findall(r"\b[cg]\w+", tail))
        tail = re.sub(rf"\b{word}\b", f"~{word}", tail, count=1).replace("~~", "")
    else:
        tail = tail[:k] + FLIPS[tail[k]] + tail[k + 1 :]
    lines[i] = f"{head} = {tail}"
    return "\n".join(lines).encode()


def _row(raw, draw):
    lines = raw.decode().split("\n")
    rows = [i for i, line in enumerate(lines) if re.fullmatch(r"[01-]{2} 1", line)]
    i, k = draw.choice(rows), draw.randrange(2)
    lines[i] = lines[i][:k] + draw.choice("01-".replace(lines[i][k], "")) + lines[i][k + 1 :]
    return "\n".join(lines).encode()


def _number(raw, draw):
    found = json.loads(raw)
    gate = draw.choice(found["gates"])
    gate[0] ^= 1 << draw.randrange(4)
    return json.dumps(found).encode()


def _delta(raw, draw):
    """The lowest bit of a byte of the and-gates: an inverter more or less, or one too many, which is refused."""
    head = raw.partition(b"\n")[0]
    outputs = head.split()[4]
    start = len(head) + 1
    for _ in range(int(outputs)):
        start = raw.index(b"\n", start) + 1
    end = raw.index(b"\ni0 ", start - 1) + 1 if b"\ni0 " in raw[start - 1 :] else raw.index(b"i0 ", start)
    changed = bytearray(raw)
    changed[draw.randrange(start, end)] ^= 1
    return bytes(changed)


def _digit(raw, draw):
    lines = raw.decode().split("\n")
    rows = [i for i, line in enumerate(lines) if line and set(line) <= {"0", "1"}]
    i = draw.choice(rows)
    k = draw.randrange(len(lines[i]))
    lines[i] = lines[i][:k] + "10"[int(lines[i][k])] + lines[i][k + 1 :]
    return "\n".join(lines).encode()


def _opcode(raw, draw):
    """An instruction of the WebAssembly; the gates drawn beside it stay, so that the page contradicts itself."""
    text = re.search(rb'"wasm": "([^"]+)"', raw)[1]
    code = bytearray(base64.b64decode(text))
    flips = {0x4E: 0x50, 0x50: 0x51, 0x51: 0x4E}  # and, or, xor
    step = code[: code.index(b"\xfc\x0a")]  # the function after it copies memory
    i = draw.choice([i for i in range(1, len(step)) if step[i - 1] == 0xFD and step[i] in flips])
    code[i] = flips[code[i]]
    return raw.replace(text, base64.b64encode(code))
