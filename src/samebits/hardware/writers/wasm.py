"""The cell as WebAssembly: 128 cells a vector, written byte by byte without a toolchain.

State in memory (web/engine.js has the same): rows of lines, a line a channel. A line is LINE bytes: 8 for the cell to
the west of the first, up to 1,024 cells, 8 for the one to the east of the last. A row of wrapped cells or of zeros lies
above and below. All of it but the height is constant here, so that a neighbour is one load with a fixed offset, and the
one to the west a shift with a bit from the word before.

    step(before, after, height, vectors)         one step of every cell, borders left as they were
    edges(state, height, width, periodic)        what lies outside the grid: cells of the other side, or zeros
    blend(before, after, fire, height, vectors)  a cell whose bit in fire is 0 keeps its state
    fire(out, height, width, seed, purpose, extra, position, below)
                                                 a bit a cell: whether its Philox word (rng.py) is below `below`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from samebits.hardware.cell import Cell

MOST_CELLS = 1024  # in a row
WORD, VECTOR, PAGE = 8, 16, 1 << 16  # bytes
LINE = MOST_CELLS // 8 + 2 * WORD
FIRE_LINE = MOST_CELLS // 8  # masks have no border

I32, I64, V128 = b"\x7f", b"\x7e", b"\x7b"
CODES = {
    "i32.eqz": "45", "i32.eq": "46", "i32.ne": "47", "i32.lt_u": "49", "i64.lt_u": "54",
    "i32.add": "6a", "i32.sub": "6b", "i32.mul": "6c", "i32.and": "71", "i32.or": "72", "i32.shl": "74",
    "i32.shr_u": "76", "i64.add": "7c", "i64.sub": "7d", "i64.mul": "7e", "i64.and": "83", "i64.or": "84",
    "i64.xor": "85", "i64.shl": "86", "i64.shr_u": "88", "i64.extend_i32_u": "ad",
    "v128.not": "fd4d", "v128.and": "fd4e", "v128.andnot": "fd4f", "v128.or": "fd50", "v128.xor": "fd51",
    "i64x2.shl": "fdcb01", "i64x2.shr_u": "fdcd01", "memory.copy": "fc0a0000", "memory.fill": "fc0b00",
}  # fmt: skip

# Philox4x64-10, as arithmetic/rng.py and web/engine.js have it.
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
ROUNDS = 10
HALF = (1 << 32) - 1


def leb(number: int) -> bytes:
    """A number that is not negative, seven bits a byte."""
    return bytes([number & 0x7F | 0x80]) + leb(number >> 7) if number >= 0x80 else bytes([number])


def signed_leb(number: int) -> bytes:
    if -0x40 <= number < 0x40:
        return bytes([number & 0x7F])
    return bytes([number & 0x7F | 0x80]) + signed_leb(number >> 7)


# Code is bytes that leave a value on the stack, or none: an instruction follows its operands.
def op(name: str, *operands: bytes) -> bytes:
    return b"".join(operands) + bytes.fromhex(CODES[name])


def get(local: int) -> bytes:
    return b"\x20" + leb(local)


def put(local: int, value: bytes) -> bytes:
    return value + b"\x21" + leb(local)


def int32(number: int) -> bytes:
    return b"\x41" + signed_leb(number)


def int64(number: int) -> bytes:
    """The number modulo 2⁶⁴."""
    return b"\x42" + signed_leb(number - (1 << 64) if number >> 63 else number)


def all_bits(value: bool) -> bytes:
    return b"\xfd\x0c" + (b"\xff" if value else b"\x00") * VECTOR


def load(code: str, address: bytes, offset: int = 0) -> bytes:
    return address + bytes.fromhex(code) + b"\x00" + leb(offset)


def load64(address: bytes, offset: int = 0) -> bytes:
    return load("29", address, offset)


def load128(address: bytes, offset: int = 0) -> bytes:
    return load("fd00", address, offset)


def store64(address: bytes, value: bytes, offset: int = 0) -> bytes:
    return address + value + b"\x37\x00" + leb(offset)


def store128(address: bytes, value: bytes, offset: int = 0) -> bytes:
    return address + value + b"\xfd\x0b\x00" + leb(offset)


def more(local: int, by: bytes) -> bytes:
    """local += by, of 32 bits."""
    return put(local, op("i32.add", get(local), by))


def repeat(body: bytes, condition: bytes) -> bytes:
    """The body, and again while the condition holds."""
    return b"\x03\x40" + body + condition + b"\x0d\x00\x0b"


def count_down(local: int, body: bytes) -> bytes:
    """The body as often as the local says, which must be once at least and is 0 afterwards."""
    return repeat(body, op("i32.sub", get(local), int32(1)) + b"\x22" + leb(local))


def when(condition: bytes, body: bytes, otherwise: bytes = b"") -> bytes:
    return condition + b"\x04\x40" + body + (b"\x05" + otherwise if otherwise else b"") + b"\x0b"


OPERATIONS: tuple[Callable[[bytes, bytes], bytes], ...] = (
    lambda a, b: all_bits(False),
    lambda a, b: op("v128.and", a, b),
    lambda a, b: op("v128.andnot", a, b),
    lambda a, b: a,
    lambda a, b: op("v128.andnot", b, a),
    lambda a, b: b,
    lambda a, b: op("v128.xor", a, b),
    lambda a, b: op("v128.or", a, b),
    lambda a, b: op("v128.not", op("v128.or", a, b)),
    lambda a, b: op("v128.not", op("v128.xor", a, b)),
    lambda a, b: op("v128.not", b),
    lambda a, b: op("v128.or", a, op("v128.not", b)),
    lambda a, b: op("v128.not", a),
    lambda a, b: op("v128.or", b, op("v128.not", a)),
    lambda a, b: op("v128.not", op("v128.and", a, b)),
    lambda a, b: all_bits(True),
)


def write(cell: Cell) -> bytes:
    """The module: four functions, and memory for whoever loads it to enlarge."""
    functions = {"step": _step(cell), "edges": _edges(cell), "blend": _blend(cell), "fire": _fire()}
    types = [b"\x60" + _vector(parameters) + b"\x00" for parameters, _ in functions.values()]
    exports = [_name("memory") + b"\x02\x00", *(_name(name) + b"\x00" + leb(i) for i, name in enumerate(functions))]
    bodies = [leb(len(code)) + code for _, code in functions.values()]
    sections = {1: types, 3: [leb(i) for i in range(len(functions))], 5: [b"\x00\x01"], 7: exports, 10: bodies}
    found = b"\0asm\1\0\0\0"
    for number, entries in sections.items():
        content = _vector(entries)
        found += bytes([number]) + leb(len(content)) + content
    return found


def _vector(entries: Sequence[bytes]) -> bytes:
    return leb(len(entries)) + b"".join(entries)


def _name(name: str) -> bytes:
    return leb(len(name)) + name.encode()


Function = tuple[list[bytes], bytes]  # the types of its parameters; its locals and code


def _function(parameters: list[bytes], variables: Sequence[tuple[int, bytes]], code: bytes) -> Function:
    """`variables`: how many locals of each type come after the parameters."""
    return parameters, _vector([leb(count) + kind for count, kind in variables]) + code + b"\x0b"


def _step(cell: Cell) -> Function:
    before, after, height, vectors, skip, left, first = range(7)
    places = {channel: k for k, channel in enumerate(cell.channels)}
    row = len(places) * LINE
    loads: dict[tuple[int, int], int] = {}  # channel and row of neighbours → the local that has these words
    code, nodes, local = b"", [], first
    for position, channel in cell.inputs:
        dy, dx = divmod(position, 3)
        offset = dy * row + places[channel] * LINE + WORD
        if (channel, dy) not in loads:
            loads[channel, dy] = local
            code, local = code + put(local, load128(get(before), offset)), local + 1
        nodes.append(loads[channel, dy])
        if dx != 1:
            one, far = (b"\x41\x01", int32(63))
            here, beside = get(loads[channel, dy]), load128(get(before), offset + (dx - 1) * WORD)
            shifts = ("i64x2.shl", "i64x2.shr_u") if dx == 0 else ("i64x2.shr_u", "i64x2.shl")
            code += put(local, op("v128.or", op(shifts[0], here, one), op(shifts[1], beside, far)))
            nodes[-1], local = local, local + 1
    for operation, a, b in cell.gates:
        code += put(local, OPERATIONS[operation](get(nodes[a]), get(nodes[b])))
        nodes.append(local)
        local += 1
    for k, node in enumerate(cell.outputs):
        code += store128(get(after), get(nodes[node]), k * LINE + WORD)
    code += more(before, int32(VECTOR)) + more(after, int32(VECTOR))
    code = put(left, get(vectors)) + count_down(left, code) + more(before, get(skip)) + more(after, get(skip))
    code = (
        put(skip, op("i32.sub", int32(row), op("i32.shl", get(vectors), int32(4))))
        + more(after, int32(row))
        + count_down(height, code)
    )
    return _function([I32] * 4, [(2, I32), (local - first, V128)], code)


def _edges(cell: Cell) -> Function:
    state, height, width, periodic, line, last, beyond, left, mask, wraps, tail = range(11)
    row = len(cell.channels) * LINE
    wide = op("i64.extend_i32_u", get(width))

    def word_of(x: bytes) -> bytes:
        """Of a line, the byte where the word of cell x begins."""
        return op("i32.add", op("i32.shl", op("i32.shr_u", x, int32(6)), int32(3)), int32(WORD))

    def at(offset: int) -> bytes:
        return op("i32.add", get(line), get(offset))

    body = put(tail, op("i64.and", load64(at(last)), get(mask)))
    body += store64(at(last), get(tail)) + store64(at(last), int64(0), WORD)
    # West of the first cell is the last one; east of the last, which may be in its word or the next, the first.
    west = op("i64.shr_u", get(tail), op("i64.sub", wide, int64(1)))
    east = op("i64.shl", op("i64.and", load64(get(line), WORD), get(wraps)), wide)
    body += store64(get(line), op("i64.shl", op("i64.and", west, get(wraps)), int64(63)))
    body += store64(at(beyond), op("i64.or", load64(at(beyond)), east))
    body += more(line, int32(LINE))

    bottom = op("i32.add", get(state), op("i32.mul", get(height), int32(row)))
    top, under = op("i32.add", get(state), int32(row)), op("i32.add", bottom, int32(row))
    code = (
        put(line, top)
        + put(last, word_of(op("i32.sub", get(width), int32(1))))
        + put(beyond, word_of(get(width)))
        + put(left, op("i32.mul", get(height), int32(len(cell.channels))))
        + put(mask, op("i64.shr_u", int64((1 << 64) - 1), op("i64.sub", int64(0), wide)))
        + put(wraps, op("i64.extend_i32_u", get(periodic)))
        + count_down(left, body)
        + when(
            get(periodic),
            op("memory.copy", get(state), bottom, int32(row)) + op("memory.copy", under, top, int32(row)),
            op("memory.fill", get(state), int32(0), int32(row)) + op("memory.fill", under, int32(0), int32(row)),
        )
    )
    return _function([I32] * 4, [(4, I32), (3, I64)], code)


def _blend(cell: Cell) -> Function:
    before, after, fire, height, vectors, lines, left, skip = range(8)
    old = load128(get(before), WORD)
    new = op("v128.xor", old, op("v128.and", op("v128.xor", old, load128(get(after), WORD)), load128(get(fire))))
    body = store128(get(after), new, WORD)
    body += b"".join(more(pointer, int32(VECTOR)) for pointer in (before, after, fire))
    body = put(left, get(vectors)) + count_down(left, body)
    # On to the next channel's line, which has the same fire mask.
    body += more(before, op("i32.add", get(skip), int32(LINE))) + more(after, op("i32.add", get(skip), int32(LINE)))
    body = put(lines, int32(len(cell.channels))) + count_down(lines, body + more(fire, get(skip)))
    row = int32(len(cell.channels) * LINE)
    code = put(skip, op("i32.sub", int32(0), op("i32.shl", get(vectors), int32(4))))
    code += more(before, row) + more(after, row) + count_down(height, body + more(fire, int32(FIRE_LINE)))
    return _function([I32] * 5, [(3, I32)], code)


def _fire() -> Function:
    out, height, width, seed, purpose, extra, position, below, x, turn, rounds = range(11)
    block, bits, k0, k1, high, low, word, upper, middle = range(11, 20)
    c0, c1, c2, c3 = range(20, 24)

    def product(local: int, factor: int) -> bytes:
        """high and low of local · factor."""
        f0, f1 = int64(factor & HALF), int64(factor >> 32)
        code = put(word, op("i64.and", get(local), int64(HALF))) + put(upper, op("i64.shr_u", get(local), int64(32)))
        carried = op("i64.shr_u", op("i64.mul", f0, get(word)), int64(32))
        code += put(middle, op("i64.add", op("i64.mul", f1, get(word)), carried))
        other = op("i64.add", op("i64.mul", f0, get(upper)), op("i64.and", get(middle), int64(HALF)))
        carried = op("i64.add", op("i64.shr_u", get(middle), int64(32)), op("i64.shr_u", other, int64(32)))
        code += put(high, op("i64.add", op("i64.mul", f1, get(upper)), carried))
        return code + put(low, op("i64.mul", int64(factor), get(local)))

    one_round = (
        product(c0, MULTIPLIERS[0])
        + get(low)  # c3 to be, which the other product does not need
        + put(c3, op("i64.xor", op("i64.xor", get(high), get(c3)), get(k1)))  # c2 to be
        + product(c2, MULTIPLIERS[1])
        + put(c0, op("i64.xor", op("i64.xor", get(high), get(c1)), get(k0)))
        + put(c1, get(low))
        + put(c2, get(c3))
        + b"\x21" + leb(c3)
        + put(k0, op("i64.add", get(k0), int64(WEYL[0])))
        + put(k1, op("i64.add", get(k1), int64(WEYL[1])))
    )  # fmt: skip
    philox = b"".join(put(*pair) for pair in (
        (c0, get(block)), (c1, get(extra)), (c2, get(position)), (c3, int64(0)), (k0, get(seed)), (k1, get(purpose)),
        (block, op("i64.add", get(block), int64(1))), (rounds, int32(ROUNDS)),
    )) + count_down(rounds, one_round)  # fmt: skip

    fires = op("i64.extend_i32_u", op("i64.lt_u", get(c0), get(below)))
    filled = op("i32.or", op("i32.eqz", op("i32.and", get(x), int32(63))), op("i32.eq", get(x), get(width)))
    place = op("i32.shl", op("i32.shr_u", op("i32.sub", get(x), int32(1)), int32(6)), int32(3))
    cell = (
        when(op("i32.eqz", op("i32.and", get(turn), int32(3))), philox)
        + more(turn, int32(1))
        + put(bits, op("i64.or", get(bits), op("i64.shl", fires, op("i64.extend_i32_u", get(x)))))
        + put(c0, get(c1)) + put(c1, get(c2)) + put(c2, get(c3))
        + more(x, int32(1))
        + when(filled, store64(op("i32.add", get(out), place), get(bits)) + put(bits, int64(0)))
    )  # fmt: skip
    line = put(x, int32(0)) + repeat(cell, op("i32.lt_u", get(x), get(width))) + more(out, int32(FIRE_LINE))
    return _function([I32] * 3 + [I64] * 5, [(3, I32), (13, I64)], count_down(height, line))
