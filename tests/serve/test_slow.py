"""Requests that arrive slowly, or never: their connections are closed, and others are answered."""

from __future__ import annotations

import socket

import httpx
import pytest

from samebits.serve import server
from tests.serve.conftest import serving

HALVES = {
    "nothing": b"",
    "part of a header": b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "part of a body": b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
}


@pytest.fixture
def served(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.3)
    with serving(tmp_path) as running:
        yield running


def connected(served):
    return socket.create_connection(("127.0.0.1", served.port), timeout=60)


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
def test_a_request_that_does_not_arrive_is_given_up(served, half):
    with connected(served) as client:
        client.sendall(half)
        assert served.get("/api/runs").status_code == 200
        while client.recv(1 << 16):  # until the server closes it
            pass


def sent_until_closed(client, byte):
    """Send this byte again and again, until the server ends the connection."""
    client.settimeout(0.05)
    while True:
        try:
            client.sendall(byte)
            if not client.recv(1):
                return True
        except TimeoutError:
            continue
        except OSError:  # a broken pipe, or a reset
            return True


def test_so_is_one_that_arrives_byte_by_byte(served):
    with connected(served) as client:
        client.sendall(HALVES["part of a header"])
        assert sent_until_closed(client, b"x")


def test_a_connection_is_used_again(served):
    """The time of a request ends with it: a second one on the same connection has its own."""
    with httpx.Client(base_url=served.url, timeout=60) as client:
        for _ in range(3):
            assert client.get("/api/runs").status_code == 200
