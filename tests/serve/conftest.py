"""A server in a thread of this process, over real sockets, on a folder of small runs, some of them damaged."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

import samebits
from samebits.cli.serve import listen
from samebits.report.plots import plot_losses
from samebits.serve.app import make_app
from samebits.serve.runs import Library
from samebits.serve.server import Server

OLD_RUN = Path(__file__).parent.parent / "data" / "weft-0.1.0-life"


@contextmanager
def serving(*folders, key=None, host="127.0.0.1"):
    """A running server: .url, .app (what is behind its guard), .library, .get(path)."""
    library, listening = Library(folders), listen(host, 0)
    app = make_app(library, key, workers=2)
    server = Server(app)
    thread = threading.Thread(target=server.serve_on, args=(listening,))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    url = f"http://{host}:{listening.getsockname()[1]}"
    try:
        with httpx.Client(base_url=url, timeout=60) as client:
            yield SimpleNamespace(
                url=url, port=listening.getsockname()[1], library=library, http=client, get=client.get,
                served=app.served,
            )  # fmt: skip
    finally:  # a test that fails must not leave it running
        server.end()
        thread.join()
        listening.close()


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """gpt, boolean, checkerboard: small; half (no config.toml), broken (metrics.csv), scrambled (config.toml), old."""
    folder = tmp_path_factory.mktemp("served") / "runs"
    text = folder.parent / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog.\n" * 80, encoding="utf-8")
    samebits.train("gpt", preset="small", out=folder / "gpt", steps=20, log_every=1, data=str(text))
    plot_losses(folder / "gpt", "gpt")
    samebits.train("boolean", preset="small", out=folder / "boolean", steps=2, eval_every=0)
    samebits.train("checkerboard", preset="small", out=folder / "deep" / "board", steps=2, eval_every=0)
    (folder / "half" / "checkpoints").mkdir(parents=True)
    (folder / "half" / ".lock").touch()
    shutil.copytree(folder / "boolean", folder / "broken")
    shutil.copytree(folder / "boolean", folder / "scrambled")
    (folder / "scrambled" / "config.toml").write_text("[run\n", encoding="utf-8")
    metrics = folder / "broken" / "metrics.csv"
    metrics.write_text(metrics.read_text() + "3,hello\n", encoding="utf-8")
    shutil.copytree(OLD_RUN, folder / "old")
    return folder


@pytest.fixture(scope="session")
def server(runs):
    with serving(runs) as found:
        yield found
