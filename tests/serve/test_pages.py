"""Pages and what they ask for: runs of all kinds shown as they are, live curves, and nothing from outside."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import threading
import time
from types import SimpleNamespace

import httpx
import numpy as np
import pytest

from samebits.cli.serve import check_key
from samebits.families import built_in, find_preset
from samebits.families.graph.expressions import parse, tree_of
from samebits.families.graph.page import verdicts_of
from samebits.metrics import last_row
from samebits.runs.runfolder import RunFolder
from samebits.serve import app, events
from samebits.serve.events import Watchers
from samebits.serve.metrics import BUCKETS, Curve, Thinned
from samebits.serve.runs import Library
from tests.helpers import samebits_here
from tests.serve import requests
from tests.serve.conftest import serving


def summaries(server):
    server.library.scan()
    return {run["id"]: run for run in server.get("/api/runs").json()["runs"]}


def test_runs_are_found_and_told(server):
    found = summaries(server)
    assert set(found) == {"gpt", "boolean", "deep/board", "half", "broken", "scrambled", "old"}
    gpt = found["gpt"]
    assert (gpt["task"], gpt["preset"], gpt["step"], gpt["steps"]) == ("gpt", "small", 20, 20)
    assert 0 < gpt["best"] < 10
    assert 0 < gpt["loss"] < 10
    assert len(gpt["hash"]) == 64
    assert not gpt["live"]
    assert not gpt["problem"]


def test_damaged_runs_are_shown_as_such_and_the_others_work(server):
    found = summaries(server)
    assert "half written: it has no config.toml" in found["half"]["problem"]
    assert "is not valid TOML" in found["scrambled"]["problem"]
    assert "metrics.csv is not as samebits wrote it" in found["broken"]["problem"]
    assert "bits number 1" in found["old"]["note"]
    for name in found:
        assert server.get("/api/run", params={"id": name}).status_code == 200


def test_a_run_that_trains_is_live(server, runs):
    from samebits.api import open_run

    with open_run(runs / "gpt").lock():
        assert summaries(server)["gpt"]["live"]
    assert not summaries(server)["gpt"]["live"]


def test_a_page_of_a_run(server, runs):
    found = server.get("/api/run", params={"id": "gpt"}).json()
    assert found["can"] == "text"
    assert found["details"] == {"context": 16}
    assert found["config"]["context"] == 16
    assert found["checkpoints"] == [10, 20]
    assert found["commands"][0] == f"samebits resume {runs}/gpt --steps 40"
    assert found["pictures"] == ["plots/loss.png"]
    picture = server.get("/api/picture", params={"run": "gpt", "name": "plots/loss.png"})
    assert picture.headers["content-type"] == "image/png"
    for page in ("/", "/run?id=gpt", "/web/run.js", "/web/serve.css"):
        assert server.get(page).status_code == 200


def test_an_automaton_of_any_checkpoint(server):
    steps = server.get("/api/run", params={"id": "deep/board"}).json()["checkpoints"]
    found = server.get("/api/automaton", params={"run": "deep/board", "checkpoint": str(steps[0])})
    assert found.status_code == 200
    assert found.json()["name"] == "checkerboard"


def test_an_expression_is_rewritten_and_judged(server):
    found = server.get("/api/rewrite", params={"run": "boolean", "expression": "(and x T)"}).json()
    assert found["steps"][0]["text"] == "(simplify (and x T))"
    assert found["steps"][0]["verdict"] == ""
    assert {step["verdict"] for step in found["steps"][1:]} <= {"right", "wrong"}
    assert found["judged"]
    wrong = server.get("/api/rewrite", params={"run": "boolean", "expression": "(and x"})
    assert wrong.status_code == 400


def test_a_folder_without_runs_is_served(tmp_path):
    with serving(tmp_path) as server:
        assert server.get("/api/runs").json() == {"runs": [], "folders": [str(tmp_path)]}
        assert "samebits train" in server.get("/web/runs.js").text


def test_links_that_lead_outside_are_not_followed(tmp_path, runs):
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "link").symlink_to(runs)
    assert Library([folder]).scan() == []
    (folder / "real").mkdir()
    (folder / "real" / "config.toml").write_text("x = 1\n")
    (tmp_path / "secret.png").write_text("secret")
    (folder / "real" / "a.png").symlink_to(tmp_path / "secret.png")
    (folder / "real" / "plots").symlink_to(tmp_path)
    with serving(folder) as server:
        assert server.get("/api/run", params={"id": "real"}).json()["pictures"] == []
        for name in ("a.png", "plots/secret.png"):
            assert server.get("/api/picture", params={"run": "real", "name": name}).status_code == 404


def test_two_folders_with_the_same_names(tmp_path, runs):
    library = Library([runs, runs.parent / "runs" / ".." / "runs" / "deep", runs / "gpt"])
    library.scan()
    assert {"gpt", "deep/board", "board", "gpt/gpt"} <= set(library.runs)


def told_texts(told):
    """Every text of a message, however deep."""
    if isinstance(told, dict | list):
        return [text for part in (told.values() if isinstance(told, dict) else told) for text in told_texts(part)]
    return [told]


BAD_NAME = os.fsdecode(b"bad-\xff")


def test_names_that_are_no_utf_8_are_shown_escaped(tmp_path, runs):
    """Of run folders, of a folder above them, of pictures. No command could use such a run, so it has a problem."""
    for name in ("good", BAD_NAME, f"{BAD_NAME}-deep/board"):
        shutil.copytree(runs / "gpt", tmp_path / name)
    for name in ("good", BAD_NAME):
        shutil.copy(runs / "gpt/plots/loss.png", tmp_path / name / "plots" / f"{BAD_NAME}.png")
    with serving(tmp_path) as server:
        found = {run["id"]: run for run in server.get("/api/runs").json()["runs"]}
        assert set(found) == {"good", "bad-\\udcff", "bad-\\udcff-deep/board"}
        assert found["bad-\\udcff"]["path"] == f"{tmp_path}/bad-\\udcff"
        assert "is no UTF-8, and no command of samebits takes it; rename it" in found["bad-\\udcff"]["problem"]
        assert [one["id"] for one in server.get("/v1/models").json()["data"]] == ["good"]
        for run in ("good", "bad-\\udcff"):
            page = server.get("/api/run", params={"id": run}).json()
            assert page["pictures"] == ["plots/bad-\\udcff.png", "plots/loss.png"]
            picture = server.get("/api/picture", params={"run": run, "name": "plots/bad-\\udcff.png"})
            assert picture.content == (runs / "gpt/plots/loss.png").read_bytes()
        for params in ({}, {"run": "bad-\\udcff"}):
            with server.http.stream("GET", "/api/events", params=params) as events:
                first = next(line for line in events.iter_lines() if line.startswith("data"))
            assert "bad-\\udcff" in told_texts(json.loads(first.removeprefix("data: ")))
    with serving(tmp_path / f"{BAD_NAME}-deep") as server:
        found = server.get("/api/runs").json()
        assert found["folders"] == [f"{tmp_path}/bad-\\udcff-deep"]
        assert server.get("/api/automaton", params={"run": "board"}).status_code == 400


@pytest.mark.parametrize("error", [KeyError("rule"), UnicodeError("x"), RecursionError(), MemoryError()])
def test_a_run_that_cannot_be_read_hides_no_other(runs, monkeypatch, error):
    read = RunFolder.open

    def failing(path, families):
        if path.name == "boolean":
            raise error
        return read(path, families)

    monkeypatch.setattr(RunFolder, "open", failing)
    found = {summary.id: summary for summary in Library([runs]).scan()}
    assert f"it cannot be read ({type(error).__name__}" in found["boolean"].problem
    assert not found["gpt"].problem


def test_values_that_json_has_not_and_links_to_themselves(tmp_path, runs):
    shutil.copytree(runs / "gpt", tmp_path / "gpt")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    library = Library([tmp_path])
    (summary,) = library.scan()
    summary.best = float("inf")
    assert summary.as_json()["best"] is None
    json.dumps(summary.as_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/api/runs", {}), ("/v1/models", {}), ("/api/run", {"id": "new"}), ("/v1/models/new", {}),
        ("/v1/models/new@last", {}), ("/api/picture", {"run": "new", "name": "plots/loss.png"}),
    ],
)  # fmt: skip
def test_a_run_that_came_while_serving_is_there_at_the_first_request(tmp_path, runs, path, params):
    with serving(tmp_path) as server:
        shutil.copytree(runs / "gpt", tmp_path / "new")
        answer = server.get(path, params=params)
        assert answer.status_code == 200
        assert "image" in answer.headers["content-type"] or '"new' in answer.text
        shutil.rmtree(tmp_path / "new")
        gone = server.get(path, params=params)
        if params or path.startswith("/v1/models/"):
            assert gone.status_code == 404
            assert "new" in gone.json()["error"]["message"]
        else:
            assert '"new' not in gone.text


def test_events_of_a_run_that_came_while_serving(tmp_path, runs):
    with serving(tmp_path) as server:
        shutil.copytree(runs / "gpt", tmp_path / "new")
        with server.http.stream("GET", "/api/events", params={"run": "new"}) as events:
            assert events.status_code == 200


def test_threads_that_scan_at_once_share_a_scan_that_began_after_they_asked(tmp_path, monkeypatch):
    library, began, go, scans = Library([tmp_path]), threading.Event(), threading.Event(), []
    whole = Library._scan

    def slow(self):
        scans.append(1)
        began.set()
        go.wait()
        whole(self)

    monkeypatch.setattr(Library, "_scan", slow)
    threads = [threading.Thread(target=library.scan) for _ in range(6)]
    threads[0].start()
    began.wait()
    for thread in threads[1:]:
        thread.start()
    until_waiting = [thread for thread in threads[1:] if not thread.is_alive()]
    go.set()
    for thread in threads:
        thread.join()
    assert until_waiting == []
    assert 2 <= len(scans) < 6


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost:1@evil.example", "128.0.0.1", "[::2]:1"]
)
def test_other_hosts_are_refused_without_a_key(server, host):
    answer = server.get("/api/runs", headers={"host": host})
    assert answer.status_code == 403
    assert "only localhost" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST:1", "127.0.0.2:80", "127.255.0.1"]
)
def test_loopback_is_served(server, host):
    assert server.get("/api/runs", headers={"host": host}).status_code == 200


def test_malformed_requests_are_refused_and_tell_nothing(server, runs):
    """Two hundred of them; `make load` sends two thousand."""
    (runs.parent / "secret.txt").write_text(requests.SECRET)
    found = []
    for number in range(200):
        odd = requests.make(number)
        url = httpx.URL(server.url).copy_with(raw_path=odd.path.encode())
        answer = server.http.request(odd.method, url, headers=odd.headers, content=odd.body)
        found.append(requests.judge(odd, answer.status_code, answer.content))
    assert [told for told in found if told] == []
    assert server.get("/api/runs").status_code == 200


def test_a_body_that_is_too_long_is_refused(server):
    answer = server.http.post("/v1/completions", content=b"x" * (1 << 21), headers=requests.JSON)
    assert answer.status_code == 413


def write_rows(path, first, last, columns=1):
    with path.open("a") as file:
        for step in range(first, last):
            file.write(f"{step}" + f",{(step * 7919) % 1000 / 10}" * columns + ("," if step % 2 else f",{step}") + "\n")


def test_a_long_curve_is_thinned_without_losing_a_peak(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss,eval_loss\n")
    write_rows(path, 0, 50_000)
    with path.open("a") as file:
        file.write("50000,1e6,\n")
    write_rows(path, 50_001, 70_000)
    curve = Curve(path)
    assert curve.update()[0]
    told = curve.told()
    loss = told["columns"]["loss"]
    assert told["rows"] == 70_000
    assert len(loss["steps"]) <= 2 * BUCKETS + 2
    assert loss["steps"] == sorted(loss["steps"])
    assert max(loss["values"]) == 1e6
    assert loss["steps"][loss["values"].index(1e6)] == 50_000
    assert min(loss["values"]) == 0
    assert last_row(path)["step"] == 69_999


def test_thinning_keeps_the_extremes_of_every_bucket():
    rng = np.random.default_rng(0)
    rows = np.stack([np.arange(9001.0), rng.normal(size=9001)], axis=1)
    whole, parts = Thinned(2), Thinned(2)
    whole.add(rows)
    for part in np.array_split(rows, 37):
        parts.add(part)
    assert whole.points(1) == parts.points(1)
    steps, values = whole.points(1)
    np.testing.assert_array_equal(rows[np.array(steps, int), 1], values)
    for start in range(0, 9001 - 16, 16):
        some = rows[start : start + 16, 1]
        assert {some.min(), some.max()} <= set(values)


def test_a_curve_is_read_by_offset_and_anew_when_it_was_cut(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss,eval_loss\n1,2.5,\n2,2.25")
    curve = Curve(path)
    assert curve.update()[1].tolist()[0][:2] == [1, 2.5]  # the row that is being written is not read yet
    with path.open("a") as file:
        file.write(",\n3,2,1\n")
    again, rows = curve.update()
    assert not again
    assert curve.told_rows(rows)["columns"] == {
        "loss": {"steps": [2, 3], "values": [2.25, 2]}, "eval_loss": {"steps": [3], "values": [1]},
    }  # fmt: skip
    path.write_text("step,loss,eval_loss\n1,9,\n")
    assert curve.update()[0]
    assert curve.told()["columns"] == {"loss": {"steps": [1], "values": [9]}}


def test_a_live_curve_is_told_as_it_grows_by_one_watcher(tmp_path, runs):
    folder = tmp_path / "runs"
    shutil.copytree(runs / "gpt", folder / "gpt")
    library = Library([folder])
    library.scan()

    def parsed(told):
        kind, data = told.split("\n")[:2]
        return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))

    async def listen():
        watchers = Watchers(library)
        one, two = (watchers.events(["gpt"], watchers.add()) for _ in range(2))
        assert await anext(one) == ": here\n\n"
        first = [parsed(await anext(one)) for _ in range(2)]
        assert [kind for kind, _ in first] == ["run", "curve"]
        assert first[1][1]["rows"] == 20
        for _ in range(3):
            await anext(two)
        assert len(watchers.runs) == 1
        row = (folder / "gpt" / "metrics.csv").read_text().splitlines()[-1].split(",")
        with (folder / "gpt" / "metrics.csv").open("a") as file:
            file.write(",".join(["21", *row[1:]]) + "\n")
        for listener in (one, two):
            kind, told = parsed(await anext(listener))
            assert (kind, told["rows"], told["columns"]["loss"]["steps"]) == ("rows", 21, [21])
            await listener.aclose()
        assert not watchers.listeners
        assert watchers.runs["gpt"].task is None
        table = watchers.events([], watchers.add())
        await anext(table)
        assert parsed(await anext(table))[1]["runs"][0]["id"] == "gpt"
        watchers.end()
        assert [told async for told in table] == []

    asyncio.run(asyncio.wait_for(listen(), 60))


def test_another_loopback_address_serves_itself(tmp_path):
    check_key("127.0.0.2", None)
    with serving(tmp_path, host="127.0.0.2") as server:
        assert server.get("/api/runs").status_code == 200


@pytest.mark.parametrize("given", ["", None])
def test_an_empty_key_is_refused(tmp_path, monkeypatch, given):
    """Not served without one: whoever set the variable believes that there is a key."""
    monkeypatch.setenv("SAMEBITS_KEY", "")
    done = samebits_here("serve", *([] if given is None else ["--key", given]), cwd=tmp_path)
    assert done.returncode == 2
    told = "SAMEBITS_KEY is set and empty" if given is None else "--key has 0 characters"
    assert told in done.stderr


def test_a_burst_of_listeners_meets_the_limit(runs, monkeypatch):
    """All ask before the first of them has read anything."""
    monkeypatch.setattr(events, "MOST_LISTENERS", 4)
    with serving(runs) as server:
        links = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(9)]
        for link in links:
            link.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        statuses = [link.recv(12).decode().split()[1] for link in links]
        assert sorted(statuses) == ["200"] * 4 + ["503"] * 5
        assert len(server.served.watchers.listeners) == 4
        for link in links:
            link.close()
        deadline = time.monotonic() + 60
        while server.served.watchers.listeners:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_steps_after_one_that_is_no_expression_are_wrong():
    """An operator without operands, as a network makes it that has learned nothing."""
    config = find_preset("algebra", "small")
    start = parse("(simplify (mul (add x 0) 1))", 100)
    broken = tree_of(["simplify", "mul", "add", "x"], [-1, 0, 1, 1])
    found = SimpleNamespace(trees=[start, broken, broken])
    assert verdicts_of(SimpleNamespace(config=config), found)[1:] == [("wrong", "x"), ("wrong", "")]


@pytest.mark.parametrize("error", [KeyError("rule"), ValueError("not enough"), MemoryError()])
def test_a_mistake_of_ours_is_told_in_words(runs, monkeypatch, error):
    def failing(*args):
        raise error

    monkeypatch.setattr(app, "details", failing)
    with serving(runs) as server:
        answer = server.get("/api/run", params={"id": "gpt"})
    assert answer.status_code == 500
    assert f"could not be answered ({type(error).__name__}); please report" in answer.json()["error"]["message"]


def test_bad_commands_say_what_to_do(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        cases = {
            ("--port", port): f"port {port} is in use; choose another with --port",
            ("--host", "0.0.0.0"): "without a key only this machine is served; add --key",
            ("--host", "0.0.0.0", "--key", "short"): "--key has 5 characters; it must be 8 or more",
            ("--host", "192.0.2.1", "--key", "long-enough"): "cannot be listened on",
            ("nowhere",): "nowhere is no folder",
            ("--workers", "0"): "workers",
        }
        for words, told in cases.items():
            done = samebits_here("serve", *words, cwd=tmp_path)
            assert (done.returncode, told in done.stderr) == (2, True), (words, done.stderr)
            assert os.listdir(tmp_path) == []


def test_the_page_knows_every_part_that_a_family_names(server):
    script = server.get("/web/run.js").text
    assert all(f'seen.can === "{family.page.part}"' in script for family in built_in().values())
