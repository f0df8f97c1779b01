"""samebits serve"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from samebits import checks
from samebits.api import RUNS
from samebits.cli.common import WorkerOption
from samebits.cli.terminal import counted, echo, say
from samebits.devices.cpu.pool import worker_count
from samebits.errors import SamebitsError

KEY_VARIABLE = "SAMEBITS_KEY"
LEAST_KEY = 8  # characters
SWITCH_SECONDS = 0.0005  # Python's threads take turns: who writes texts must not wait long for who sends them


def serve(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="folders of runs, or runs; default: runs", metavar="[FOLDER]…")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="address to listen on; others than loopback need --key")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free")] = 8000,
    key: Annotated[
        str | None,
        typer.Option("--key", envvar=KEY_VARIABLE, help="who asks must know it: a bearer token; pages ask for it"),
    ] = None,
    workers: WorkerOption = "auto",
) -> None:
    """Show runs in a browser while they train, play with what was learned, and answer OpenAI clients. Read-only."""
    try:
        from samebits.serve.app import make_app
        from samebits.serve.server import Server
    except ModuleNotFoundError as error:
        raise SamebitsError(
            f"serve needs the package {error.name}; install it with: pip install 'samebits[serve]'"
        ) from None
    from samebits.serve.runs import Library

    worker_count(workers)
    library = Library(chosen(folders))
    check_key(host, key)
    listening = listen(host, port)
    sys.setswitchinterval(SWITCH_SECONDS)
    app = make_app(library, key, workers)
    shown = f"[{host}]" if ":" in host else host
    with listening:
        echo(f"http://{shown}:{listening.getsockname()[1]}")
        echo(f"{counted(len(library.scan()), 'run')} in {', '.join(library.shown)}; Ctrl-C ends")
        with suppress(KeyboardInterrupt):
            Server(app).serve_on(listening)
    say("ended")


def chosen(folders: list[Path] | None) -> list[Path]:
    """The folders, each once; one that was named must be there."""
    found = [checks.path("FOLDER", folder) for folder in folders or []]
    for folder in found:
        if not folder.is_dir():
            raise SamebitsError(f"{folder} is no folder; name one that holds runs, or a run itself")
    return list({folder.resolve(): folder for folder in found}.values()) or [RUNS]


def check_key(host: str, key: str | None) -> None:
    if key is None and KEY_VARIABLE in os.environ:  # an empty value is no option to typer
        raise SamebitsError(
            f"{KEY_VARIABLE} is set and empty, so nobody would be asked for a key; give it a value, or unset it"
        )
    if key is not None and (len(key) < LEAST_KEY or not key.isascii() or not key.isprintable() or " " in key):
        raise SamebitsError(
            f"--key has {len(key)} characters; it must be {LEAST_KEY} or more letters, digits and signs, no spaces; "
            'make one with: python -c "import secrets; print(secrets.token_urlsafe())"'
        )
    if key is None and not is_loopback(host):
        raise SamebitsError(
            f"--host is {host}, which others can reach; without a key only this machine is served; add --key, or leave "
            "--host out"
        )


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket of our own, so that a port in use is said before anything else happens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, so that asyncio sends without delay
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(2048)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise SamebitsError(f"port {port} is in use; choose another with --port, or 0 for any free one") from None
        raise SamebitsError(
            f"--host {host} --port {port} cannot be listened on ({error.strerror}); choose others"
        ) from None
    return found
