"""What a user may give to learn from: pictures, pairs of expressions, texts. Mostly only read; sometimes trained on."""

from __future__ import annotations

import io
import json
import random
import struct
import zlib
from pathlib import Path
from typing import Any

from PIL import Image

from samebits import api
from samebits.training.trainer import resolve
from tests.fuzz.bases import PAIRS, TEXT, Bases, tiny
from tests.fuzz.judge import attempt, command
from tests.fuzz.kinds import Outcome, kind
from tests.fuzz.uses import use
from tests.fuzz.values import nested, odd_json, odd_text, spoil_bytes, spoil_json, spoil_text
from tests.helpers import sets

TRAINED = 0.25  # of the inputs are trained on, and what comes of it is used
FORMS = ("PNG", "PNG", "PNG", "GIF", "BMP", "TIFF", "PPM", "JPEG", "WEBP", "ICO", "TGA")
MODES = ("RGB", "RGBA", "P", "1", "L", "LA", "I", "F", "CMYK")
LABELS = (
    "x", "and", "bind", "$", "$x_1$", "\\frac{a}{b}", "\x1b[31m", "\0", "\u202e", "é", "𝔘", "\ud800", "<b>", "[red]",
    "x" * 300, "a\u2028b", "\x85", "'", '"', "T", "{", "%d", "_", "^",
)  # fmt: skip


def learn(draw: random.Random, place: Path, family: str, task: str, key: str, file: str) -> Outcome:
    """The config that the file makes; or a run of a step, and then a use of it."""
    settings = {**tiny(task), key: file, "steps": 1}
    if key == "target":
        settings |= {
            "channels": 4,
            "kernels": 2,
            "update": [16, 8, 4],
            "ca_steps": 2,
            "start": draw.choice(("centre", "zeros")),
        }
    if draw.random() > TRAINED:
        return attempt(f"configure and prepare {task} with {key} {file}", [], lambda: _prepared(task, settings))
    words = sets(**{name: json.dumps(value) for name, value in settings.items() if name != key})
    done = command(place, "train", task, "--preset", "small", "--workers", 1, *words, f"--{key}", file, "--out", "run")
    if not done.accepted or draw.random() < 0.3:
        return done
    return use(draw, place, family)


def _prepared(task: str, settings: dict[str, Any]) -> Any:
    family, _, config = api.configure(task, "small", settings)
    ready = resolve(family, config)
    return sum(len(shape) for _, shape in family.layout(ready)), list(family.constants(ready))


def picture(draw: random.Random) -> bytes:
    """An image of a few colours, in one of many formats."""
    sides = (2, 3, 3, 4, 4, 5, 5, 8, 8, 9, 64, 65, 300)
    size = (draw.choice(sides), draw.choice(sides))
    colours = [
        tuple(draw.choice((0, 127, 128, 255)) for _ in range(3)) for _ in range(draw.choice((1, 2, 2, 3, 8, 20)))
    ]
    image = Image.new("RGB", size)
    image.putdata([draw.choice(colours) for _ in range(size[0] * size[1])])
    stream = io.BytesIO()
    try:
        image.convert(draw.choice(MODES) if draw.random() < 0.5 else "RGB").save(stream, draw.choice(FORMS))
    except (OSError, ValueError, KeyError):  # not every format takes every mode
        stream = io.BytesIO()
        image.save(stream, "PNG")
    return stream.getvalue()


def claimed_png(draw: random.Random) -> bytes:
    """A PNG whose header claims a size, and is well-formed; its pixels are another matter."""
    sides = (0, 1, 3, 8, 64, 65, 20_000, 2**31 - 1, 2**31)
    size, depth, colour = (
        (draw.choice(sides), draw.choice(sides)),
        draw.choice((1, 2, 8, 16, 3)),
        draw.choice((0, 2, 3, 4, 6, 1)),
    )
    header = struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, draw.choice((0, 1, 2)))
    body = zlib.compress(draw.randbytes(draw.randrange(600)))
    chunks = [(b"IHDR", header), (b"PLTE", draw.randbytes(draw.choice((0, 3, 7)))), (b"IDAT", body), (b"IEND", b"")]
    if draw.random() < 0.3:
        text = zlib.compress(b"x" * draw.choice((10, 3_000_000)))
        chunks.insert(
            draw.randrange(4),
            draw.choice(((b"tEXt", b"a\0b"), (b"zTXt", b"a\0\0" + text), (b"tRNS", b"\0"), (b"iCCP", b"a\0\0x"))),
        )
    packed = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def drawing(draw: random.Random) -> bytes:
    """A picture as text."""
    letters = draw.choice((".#", ".#", ".RGBYMCW", ".R#", ".x", ". \t#", "#"))
    height, width = draw.choice((0, 1, 2, 3, 5, 64, 65)), draw.choice((1, 2, 3, 7, 64, 65))
    rows = ["".join(draw.choice(letters) for _ in range(width)) for _ in range(height)]
    content = draw.choice(("\n", "\n", "\r\n", "\r", "\x0c", "\n\n")).join(rows).encode()
    return spoil_bytes(draw, content) if draw.random() < 0.4 else content


@kind("pictures", 3)
def pictures(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """--target: image files and drawings, sound and damaged."""
    sort = draw.randrange(5)
    content = drawing(draw) if sort < 2 else claimed_png(draw) if sort == 2 else picture(draw)
    if sort == 3:
        content = spoil_bytes(draw, content)
    name = draw.choice(("picture.png", "picture.txt", "picture"))
    (place / name).write_bytes(content)
    if draw.random() < 0.05:
        name = odd_text(draw, unwritable=False).lstrip("-")
    return learn(draw, place, "logic_ca", "grow", "target", name)


def expression(draw: random.Random, depth: int = 3) -> str:
    label = draw.choice(LABELS[:3] if draw.random() < 0.7 else LABELS)
    if depth == 0 or draw.random() < 0.3:
        return label
    return f"({label} {' '.join(expression(draw, depth - 1) for _ in range(draw.randrange(1, 4)))})"


def graph(draw: random.Random) -> dict[str, Any]:
    """A graph as an object: small, shared, cyclic, or large."""
    size = draw.choice((0, 1, 2, 4, 9, 170, 2000))
    ends = [range(i + 1, size + (draw.random() < 0.02)) for i in range(size)]
    children = [[draw.choice(below) for _ in range(draw.randrange(3)) if below] for below in ends]
    found = {"labels": [draw.choice(LABELS) for _ in range(size)], "children": children}
    return spoil_json(draw, found) if draw.random() < 0.2 else found


def deep(draw: random.Random) -> str:
    """So deep that whoever recurses gives up."""
    depth = draw.choice((100, 159, 399, 3000))
    return draw.choice(("(f " * depth + "x" + ")" * depth, "(" * depth, "(f" * depth, "x" + ")" * depth))


def side(draw: random.Random) -> Any:
    """What stands for input or target."""
    sort = draw.random()
    if sort < 0.7:
        return expression(draw)
    return graph(draw) if sort < 0.85 else deep(draw) if sort < 0.9 else odd_json(draw)


def pair_line(draw: random.Random) -> str:
    sort = draw.random()
    if sort < 0.35:
        before, after = draw.choice(PAIRS)
        return json.dumps({"input": before, "target": after})
    found: Any = {"input": side(draw), "target": side(draw)}
    if draw.random() < 0.2:
        found["split"] = draw.choice(("train", "unseen", "larger", "", None, 3, [], "x", odd_text(draw)))
    if draw.random() < 0.1:
        found = spoil_json(draw, found)
    if sort > 0.99:
        return draw.choice(("[" * 5000, json.dumps(nested(150)), '{"input":' * 3000, "9" * 5000, "NaN", "1e999"))
    return json.dumps(found, ensure_ascii=draw.random() < 0.5)


@kind("pairs", 3)
def pairs(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """--data of graphs: JSON lines with odd labels, deep and large."""
    lines = [pair_line(draw) for _ in range(draw.choice((0, 1, 1, 2, 3, 6)))]
    content = draw.choice(("\n", "\n", "\r\n", "\u2028")).join(lines).encode("utf-8", "surrogatepass")
    (place / "mine.jsonl").write_bytes(spoil_bytes(draw, content) if draw.random() < 0.15 else content)
    return learn(draw, place, "graph", "boolean", "data", "mine.jsonl")


def text(draw: random.Random) -> bytes:
    """A document: sound, odd or no text at all."""
    forms = (
        b"", b"x", b"\n", b"xy", b"a" * 500, b"\xff\xfea\0b\0", b"\xef\xbb\xbf" + TEXT.encode(), TEXT.encode("utf-16"),
        b"\0" * 99,
        TEXT.replace("\n", "\r").encode(), "".join(map(chr, range(32, 900))).encode() * 2,
        "\U0010ffff\ufffe𝔘".encode() * 60,
        draw.randbytes(300), b"\xed\xa0\x80" * 40, b"\x1b[2J" * 60, "a\u0301\u202e".encode() * 50, b"<|eos|>" * 30,
    )  # fmt: skip
    sort = draw.random()
    if sort < 0.5:
        return draw.choice(forms)
    return TEXT.encode() if sort < 0.6 else spoil_text(draw, TEXT) if sort < 0.8 else spoil_bytes(draw, TEXT.encode())


@kind("texts", 3)
def texts(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """--data of gpt: files and folders of files."""
    if draw.random() < 0.6:
        (place / "mine.txt").write_bytes(text(draw))
        return learn(draw, place, "gpt", "gpt", "data", "mine.txt")
    folder = place / "mine"
    folder.mkdir()
    for number in range(draw.randrange(5)):
        name = draw.choice(
            (
                f"{number}.txt",
                f"{number}.py",
                f".{number}.txt",
                f"{number}",
                f"é\n{number}.md",
                f"\x1b[1m{number}.txt",
                f"\udcff{number}.txt",
            )
        )
        path = folder / draw.choice((".", "sub", "sub/é", ".git", "x.txt")) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if draw.random() < 0.1:
            path.symlink_to(draw.choice(("nothing", "..", path.name, "/dev/null")))
        else:
            path.write_bytes(text(draw))
    return learn(draw, place, "gpt", "gpt", "data", "mine")
