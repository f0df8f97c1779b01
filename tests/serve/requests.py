"""Requests that nobody meant to send: made from good ones by chance, the same for the same seed."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple
from urllib.parse import quote

GOOD = {
    "model": "gpt", "prompt": "the ", "max_tokens": 4, "temperature": 0.5, "top_p": 0.9, "n": 1, "seed": 1,
    "stop": ["x"], "stream": False, "logprobs": 2, "echo": False,
}  # fmt: skip
ODD: list[Any] = [
    None, True, -1, 0, 1e308, -1e308, 2**63, 2**70, 10**40, "", "\0", "\ud800", "x" * 5000, [], [[]], {}, {"a": 1},
    [None], [1.5], ["a", 1], "../../etc/passwd", "%00", [[0] * 300], [-1], "NaN", [[["a"]]], float("inf"),
    float("nan"),
]  # fmt: skip
SECRET = "this file is nobody's business"
UP = ("../", "..%2f", "%2e%2e/", "..\\", "....//", "%252e%252e%252f", "/", "//", ".%00/")
ADDRESSES = (
    "/web/{}",
    "/v1/models/{}",
    "/{}",
    "/api/picture?run=gpt&name={}",
    "/api/run?id={}",
    "/api/picture?run={}&name=a.png",
)
TARGETS = (
    "secret.txt",
    "etc/passwd",
    "config.toml",
    "gpt/config.toml",
    "checkpoints/step-20/state.json",
    "metrics.csv",
    "app.py",
)


class Odd(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


JSON = {"content-type": "application/json"}


def make(number: int) -> Odd:
    """The request of a number; none of them may be answered with 2xx or 5xx."""
    rng = random.Random(number)
    return rng.choice((odd_value, odd_value, odd_bytes, odd_path, odd_path, odd_headers, odd_query, odd_method))(rng)


def odd_value(rng: random.Random) -> Odd:
    """A completion with one value of a wrong type or size; a few values happen to be right, so others follow."""
    asked: dict[str, Any] = dict(GOOD)
    asked[rng.choice(list(asked))] = rng.choice(ODD)
    asked["nobody knows this"] = rng.choice(ODD)
    return Odd("POST", "/v1/completions", JSON, json.dumps(asked).encode("utf-8", "replace"))


def odd_bytes(rng: random.Random) -> Odd:
    """JSON with some bytes cut out, turned over or doubled, that is none any more."""
    body = bytearray(json.dumps(GOOD).encode())
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(body))
        body[at : at + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 4))
    return Odd("POST", "/v1/completions", JSON, b"{" + bytes(body))


def odd_path(rng: random.Random) -> Odd:
    target = rng.choice(UP) * rng.randint(1, 8) + rng.choice(TARGETS)
    return Odd("GET", rng.choice(ADDRESSES).format(target), {}, b"")


def odd_headers(rng: random.Random) -> Odd:
    headers = rng.choice((
        {"host": "evil.example"}, {"host": ""}, {"host": "localhost.evil.example:8000"}, {"x-long": "a" * 20_000},
        {f"x-{i}": "b" * 200 for i in range(90)},
    ))  # fmt: skip
    return Odd("GET", "/api/runs", headers, b"")


def odd_query(rng: random.Random) -> Odd:
    value = quote(
        rng.choice(
            ("", "\0", "x" * 3000, "-1", "last'--", "1e9", "step-20", "../20", "日本", "(and x", ")(", "(" * 600)
        )
    )
    return Odd("GET", rng.choice((
        f"/api/rewrite?run=boolean&expression={value}", f"/api/rewrite?run={value}&expression=x",
        f"/api/automaton?run=deep/board&checkpoint={value}", f"/api/run?id={value}", f"/api/events?run={value}",
        "/api/events?" + "&".join(["run=gpt"] * 40), "/api/rewrite?run=gpt&expression=x", "/api/automaton?run=gpt",
    )), {}, b"")  # fmt: skip


def odd_method(rng: random.Random) -> Odd:
    method = rng.choice(("PUT", "DELETE", "PATCH", "POST"))
    path = rng.choice(("/", "/api/runs", "/api/run?id=gpt", "/web/run.js", "/v1/models", "/v1/models/gpt"))
    return Odd(method, path, JSON, json.dumps(GOOD).encode())


def judge(request: Odd, status: int, body: bytes) -> str:
    """What is wrong with an answer; empty: nothing."""
    asked = f"{request.method} {request.path[:200]} {request.headers!s:.200} {request.body[:200]!r}"
    told = f"{asked} → {status} {body[:200]!r}"
    if not 400 <= status < 500:
        return f"not refused: {told}"
    if SECRET.encode() in body or b"root:" in body or b"Traceback" in body:
        return f"tells too much: {told}"
    return ""
