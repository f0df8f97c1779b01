"""What is served of run folders from strangers: nothing from outside, nothing that waits, and damage as damage."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal

import httpx
import pytest

from samebits.serve import events, server
from samebits.serve.app import make_app
from samebits.serve.events import Listener, Watcher, Watchers
from samebits.serve.runs import Library

SECRET = "only the user may read this"
ODD_ROWS = ["inf", "1e400", "9" * 400, "nan", "-1"]


@pytest.fixture
def folder(runs, tmp_path):
    """A run of its own, and a file outside of what is served."""
    shutil.copytree(runs / "gpt", tmp_path / "runs/gpt")
    (tmp_path / "secret").write_text(SECRET)
    return tmp_path / "runs"


def asked(folder, *addresses):
    """Answers of the application, without a socket."""

    async def ask():
        library = Library([folder])
        library.scan()
        transport = httpx.ASGITransport(make_app(library))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [await client.get(address) for address in addresses]

    return asyncio.run(asyncio.wait_for(ask(), 60))


def listened(folder, count=3):
    """The first messages about the run."""

    async def listen():
        library = Library([folder])
        library.scan()
        watchers = Watchers(library)
        stream = watchers.events(["gpt"], watchers.add())
        found = [await anext(stream) for _ in range(count)]
        await stream.aclose()
        return "".join(found)

    return asyncio.run(asyncio.wait_for(listen(), 60))


def replace_last_step(folder, step):
    path = folder / "gpt/metrics.csv"
    *rows, last = path.read_text().splitlines()
    path.write_text("\n".join([*rows, ",".join([step, *last.split(",")[1:]])]) + "\n")


@pytest.mark.parametrize("step", ODD_ROWS)
def test_odd_metrics_are_shown_as_damage(folder, step):
    replace_last_step(folder, step)
    runs, run = asked(folder, "/api/runs", "/api/run?id=gpt")
    assert "metrics.csv is not as samebits wrote it" in runs.json()["runs"][0]["problem"]
    assert run.status_code == 200
    assert "event: problem" in listened(folder)


@pytest.mark.parametrize("name", ["config.toml", "metrics.csv", "plots/loss.png", "checkpoints/step-20/state.json"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to(path.parents[path.parts[::-1].index("gpt")])])
def test_a_pipe_or_a_link_is_neither_waited_for_nor_read(folder, name, make):
    path = folder / "gpt" / name
    path.unlink()
    make(path)
    answers = asked(folder, "/api/runs", "/api/run?id=gpt", f"/api/picture?run=gpt&name={name}", "/v1/models/gpt")
    assert bool(answers[0].json()["runs"][0]["problem"]) == (name != "plots/loss.png")
    assert [answer.status_code for answer in answers[1:3]] == [200, 404]
    assert answers[3].status_code == (200 if name in ("plots/loss.png", "metrics.csv") else 404)
    listened(folder)


@pytest.mark.parametrize(
    "name", ["config.toml", "metrics.csv", "a.png", "plots/b.png", "checkpoints/step-20/state.json"]
)
def test_no_file_from_outside_is_read(folder, name):
    path = folder / "gpt" / name
    path.unlink(missing_ok=True)
    path.symlink_to(folder.parent / "secret")
    addresses = (
        "/api/runs",
        "/api/run?id=gpt",
        f"/api/picture?run=gpt&name={name}",
        "/v1/models/gpt",
        "/api/automaton?run=gpt",
    )
    assert not any(SECRET in answer.text for answer in asked(folder, *addresses))
    assert SECRET not in listened(folder)


def test_a_huge_picture_is_refused(folder):
    os.truncate(folder / "gpt/plots/loss.png", 1 << 40)
    (answer,) = asked(folder, "/api/picture?run=gpt&name=plots/loss.png")
    assert answer.status_code == 400
    assert "larger than" in answer.text


def test_a_link_in_a_loop_hides_no_run(folder):
    (folder / "loop").symlink_to("loop")
    assert [run.id for run in Library([folder]).scan()] == ["gpt"]


def test_a_watcher_that_fails_is_logged_and_goes_on(caplog):
    looks = iter([[], OverflowError("planted"), ["news"]])

    def look():
        found = next(looks)
        if isinstance(found, Exception):
            raise found
        return found

    async def watch():
        watcher, listener = Watcher(look, list, 0.001), Listener()
        await watcher.join(listener)
        found = await asyncio.wait_for(listener.queue.get(), 10)
        watcher.leave(listener)
        return found

    with caplog.at_level(logging.ERROR, events.LOG.name):
        assert asyncio.run(watch()) == "news"
    assert "OverflowError: planted" in caplog.text


def test_a_run_that_cannot_be_looked_at_breaks_no_stream(folder, monkeypatch):
    """Whatever goes wrong: whoever listens is told, and the error is logged."""
    monkeypatch.setattr(Library, "refresh", lambda self, name: 1 // 0)
    told = listened(folder)
    assert json.loads(told.rpartition("data: ")[2])["problem"] == "it cannot be read; the server's log says why"


def test_the_second_signal_ends_the_process(monkeypatch, tmp_path):
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    running = server.Server(make_app(Library([tmp_path])))
    running.handle_exit(signal.SIGTERM, None)
    assert running.should_exit
    assert ended == []
    running.handle_exit(signal.SIGTERM, None)
    assert ended == [128 + signal.SIGTERM]
