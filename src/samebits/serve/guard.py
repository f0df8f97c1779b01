"""Who may ask: loopback without a key, everybody with one. What is asked is bounded."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

from samebits.serve.runs import escaped

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

COOKIE = "samebits-key"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
MOST_BODY = 1 << 20
MOST_HEADERS = 1 << 14
OPEN = ("/web/",)  # the pages' own files are no secret
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data: blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
]


class TooLargeError(Exception):
    """The body is longer than anything we take."""


class Guard:
    """An ASGI application in front of another one."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], key: str | None, served: Any) -> None:
        self.app, self.key, self.served = app, key, served
        # A cookie does not hold the key itself: whoever reads it later cannot give it to an OpenAI client.
        self.cookie = hashlib.sha256(f"samebits page {key}".encode()).hexdigest() if key else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADERS:
            await refuse(send_guarded, 431, f"the headers are too long; together they may have {MOST_HEADERS} bytes")
        elif self.key is None and not is_loopback(headers.get("host", "")):
            # A web page elsewhere could point a name of its own at this machine, and read what we answer.
            await refuse(
                send_guarded, 403,
                f"the host is {headers.get('host', '')[:80]!r}; without a key only {', '.join(LOOPBACK_NAMES)} are "
                "served; open the address that samebits serve printed, or start it with --key",
            )  # fmt: skip
        elif self.key is not None and not self._knows_key(scope, headers):
            await self._ask_for_key(scope, headers, receive, send_guarded)
        else:
            await self._bounded(scope, headers, receive, send_guarded)

    def _knows_key(self, scope: Scope, headers: dict[str, str]) -> bool:
        assert self.key is not None
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and equal(given.strip(), self.key):
            return True
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            found = None
        return (found is not None and equal(found.value, self.cookie)) or scope["path"].startswith(OPEN)

    async def _ask_for_key(self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send) -> None:
        """A browser gets a form, and what it sends back a cookie; everybody else OpenAI's error."""
        asks_for_page = scope["path"] in ("/", "/run", "/key")
        if scope["path"] == "/key" and scope["method"] == "POST":
            body = await read_body(receive)
            given = dict(parse_qsl(body.decode("utf-8", "replace"))).get("key", "")
            if equal(given, self.key or ""):
                cookie = f"{COOKIE}={self.cookie}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000"
                await answer(send, 303, b"", "text/plain", [(b"location", b"/"), (b"set-cookie", cookie.encode())])
                return
        if asks_for_page:
            wrong = scope["method"] == "POST"
            await answer(send, 401, form(wrong).encode(), "text/html; charset=utf-8")
            return
        told = "the key is wrong" if headers.get("authorization") else "there is no key"
        await refuse(
            send, 401, f"{told}; send the one that samebits serve was started with, as: Authorization: Bearer KEY",
            "invalid_api_key",
        )  # fmt: skip

    async def _bounded(self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send) -> None:
        told = headers.get("content-length", "0")
        if not (told.isascii() and told.isdecimal()) or int(told[:12]) > MOST_BODY:
            await refuse(send, 413, f"the body is too long; it may have {MOST_BODY} bytes")
            return
        read = 0

        async def receive_bounded() -> MutableMapping[str, Any]:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > MOST_BODY:
                raise TooLargeError
            return message

        await self.app(scope, receive_bounded, send)


def equal(given: str, wanted: str) -> bool:
    """In a time that does not tell how much of it was right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode("utf-8", "surrogatepass"))


def is_loopback(host: str) -> bool:
    """Whether a Host header names this machine: a loopback address or one of the names, and perhaps a port."""
    found = re.fullmatch(r"([^:\[\]]*|\[[^\[\]]*\])(:\d{1,5})?", host)
    if found is None:
        return False
    try:
        return ipaddress.ip_address(found[1].strip("[]")).is_loopback  # no name of anybody's can be an address
    except ValueError:
        return found[1].lower() in LOOPBACK_NAMES


async def read_body(receive: Receive) -> bytes:
    body, more = b"", True
    while more and len(body) <= MOST_BODY:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


async def answer(
    send: Send, status: int, body: bytes, kind: str, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    about = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": about})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, status: int, text: str, code: str | None = None) -> None:
    await answer(send, status, json.dumps(error_body(text, status, code=code)).encode(), "application/json")


def error_body(text: str, status: int, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """An error in OpenAI's shape."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": escaped(text), "type": kind, "param": param, "code": code}}


def form(wrong: bool) -> str:
    """Asks for the key once."""
    told = '<p class="problem">That is not the key.</p>' if wrong else ""
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>samebits</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="/web/serve.css">
<body><main class="door"><h1>samebits</h1><p>This server asks for the key it was started with.</p>{told}
<form method="post" action="/key"><label>Key <input type="password" name="key" autofocus required></label>
<button>Open</button></form></main></body></html>"""
