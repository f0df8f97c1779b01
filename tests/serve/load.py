"""What `make load` measures: many clients at once, malformed requests, and a folder of many runs. Prints a table.

python -m tests.serve.load [--seconds 60] [--clients 64]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import psutil

import samebits
from tests.serve import requests

TEXT = "the quick brown fox jumps over the lazy dog, and the dog does not mind at all.\n" * 200
TOKENS = 400  # of a text: longer than the context of preset xs
SEEDS = 32  # different texts, whose wanted ones are written first
HEAD = (
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
)


FAILING_SEED = 99  # a request with it meets an error in the thread that writes
FAILING = f"""
from samebits.__main__ import main
from samebits.families.gpt.batching import Batch
put = Batch.put
def failing(batch, place, tokens, how, *others):
    if how.seed == {FAILING_SEED}:
        raise MemoryError
    put(batch, place, tokens, how, *others)
Batch.put = failing
main()
"""


def make_runs(folder: Path) -> None:
    text = folder.parent / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    samebits.train("gpt", preset="xs", out=folder / "gpt", data=str(text), steps=2, eval_every=0, batch_size=2)


def many_runs(folder: Path, count: int, rows: int) -> None:
    """Copies of a small run, one with so many rows of metrics."""
    samebits.train("checkerboard", preset="small", out=folder / "run-0", steps=2, eval_every=0)
    files = {
        file.relative_to(folder / "run-0"): file.read_bytes()
        for file in (folder / "run-0").rglob("*.*")
        if file.is_file()
    }
    for number in range(1, count):
        for name, content in files.items():
            target = folder / f"run-{number}" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    metrics = folder / "run-1" / "metrics.csv"
    columns = metrics.read_text().splitlines()[0].count(",")
    with metrics.open("a") as file:
        for step in range(3, rows):
            file.write(f"{step},{1000 / step + step % 7:.6f}" + ",0.5" * (columns - 1) + "\n")


def serve(*folders: Path) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-c", FAILING, "serve", *map(str, folders), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline().rsplit(":", 1)[1])
    while True:
        try:
            httpx.get(f"http://127.0.0.1:{port}/api/runs", timeout=60)
            return process, port
        except httpx.ConnectError:
            time.sleep(0.05)


async def stream_one(port: int, seed: int, tokens: int) -> str:
    """One streamed completion, read with as little work as can be: the server is measured, not the client."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    asked = {"model": "gpt", "prompt": "the ", "max_tokens": tokens, "seed": seed, "stream": True, "temperature": 0.8}
    body = json.dumps(asked).encode()
    writer.write(HEAD.format(len(body)).encode() + body)
    status = await reader.readline()
    assert b" 200 " in status, status
    text = []
    while line := await reader.readline():
        if line.startswith(b"data: {"):
            text.append(json.loads(line[6:])["choices"][0]["text"])
        elif line.startswith(b"data: [DONE]"):
            break
    writer.close()
    return "".join(text)


async def crowd(port: int, clients: int, seconds: float, wanted: list[str]) -> tuple[int, int, int]:
    """(texts, tokens, wrong ones) of clients that ask again and again."""
    end, found = time.perf_counter() + seconds, []

    async def one(number: int) -> None:
        turn = number
        while time.perf_counter() < end:
            seed = turn % SEEDS
            found.append(await stream_one(port, seed, TOKENS) == wanted[seed])
            turn += clients

    await asyncio.gather(*(one(number) for number in range(clients)))
    return len(found), TOKENS * len(found), found.count(False)


def clients_in_process(port: int, clients: int, seconds: float, wanted: list[str]) -> tuple[int, int, int, float]:
    """In a process of their own, as real ones are."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (port, clients, seconds, wanted))


def _measured(port: int, clients: int, seconds: float, wanted: list[str]) -> tuple[int, int, int, float]:
    began = time.perf_counter()
    texts, tokens, wrong = asyncio.run(crowd(port, clients, seconds, wanted))
    return texts, tokens, wrong, time.perf_counter() - began


def with_failures(port: int, clients: int, seconds: float, wanted: list[str]) -> tuple[int, int, int, int]:
    """(texts, wrong ones) of clients, while one more sends requests that fail; how many of these it sent, and of them
    were not answered with an error."""
    sent, odd, ended = 0, 0, threading.Event()

    def fail() -> None:
        nonlocal sent, odd
        asked = {"model": "gpt", "prompt": "the ", "max_tokens": 9, "seed": FAILING_SEED}
        while not ended.is_set():
            answer = httpx.post(f"http://127.0.0.1:{port}/v1/completions", json=asked, timeout=60)
            sent, odd = sent + 1, odd + ("not enough memory" not in answer.text or answer.status_code != 500)
            time.sleep(0.05)

    thread = threading.Thread(target=fail)
    thread.start()
    try:
        texts, _, wrong, _ = clients_in_process(port, clients, seconds, wanted)
    finally:
        ended.set()
        thread.join()
    return texts, wrong, sent, odd


def malformed(port: int, count: int) -> list[str]:
    found = []
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for number in range(count):
            odd = requests.make(number)
            url = client.base_url.copy_with(raw_path=odd.path.encode())
            answer = client.request(odd.method, url, headers=odd.headers, content=odd.body)
            if told := requests.judge(odd, answer.status_code, answer.content):
                found.append(told)
    return found


def first_pages(port: int) -> tuple[float, float, float, int]:
    """Seconds until the first page and its table are there, until the long curve is; and again; and its points."""
    base = f"http://127.0.0.1:{port}"
    began = time.perf_counter()
    httpx.get(f"{base}/")
    told = first_event(f"{base}/api/events", "all")
    page = time.perf_counter() - began
    assert len(told["runs"]) >= 300, len(told["runs"])
    times = []
    for _ in range(2):
        began = time.perf_counter()
        curve = first_event(f"{base}/api/events?run=run-1", "curve")
        times.append(time.perf_counter() - began)
    return page, times[0], times[1], max(len(one["steps"]) for one in curve["columns"].values())


def first_event(url: str, kind: str) -> dict[str, object]:
    with httpx.stream("GET", url, timeout=60) as answer:
        wanted = False
        for line in answer.iter_lines():
            if wanted:
                return json.loads(line.removeprefix("data: "))
            wanted = line == f"event: {kind}"
    raise AssertionError(f"{url} told no {kind}")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--clients", type=int, default=64)
    options.add_argument("--runs", type=int, default=300)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--malformed", type=int, default=2000)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "runs"
        make_runs(folder)
        (Path(place) / "secret.txt").write_text(requests.SECRET)
        model = samebits.load(folder / "gpt")
        wanted = [model.generate("the ", tokens=TOKENS, seed=seed, temperature=0.8)[0] for seed in range(SEEDS)]
        process, port = serve(folder)
        try:
            memory = psutil.Process(process.pid).memory_info
            clients_in_process(port, asked.clients, 3, wanted)  # warm
            alone = clients_in_process(port, 1, asked.seconds / 4, wanted)
            before = memory().rss
            together = clients_in_process(port, asked.clients, asked.seconds, wanted)
            after = memory().rss
            for name, (texts, tokens, wrong, seconds) in (
                ("one client", alone),
                (f"{asked.clients} clients", together),
            ):
                print(
                    f"{name:>12}: {texts:6} texts, {wrong} wrong, {tokens / seconds:9,.0f} tokens/s in {seconds:.0f} s"
                )
            ratio = together[1] / together[3] / (alone[1] / alone[3])
            print(f"together {ratio:.2f} times one; memory {before / 2**20:.0f} → {after / 2**20:.0f} MiB")
            texts, wrong, sent, odd = with_failures(port, asked.clients, asked.seconds / 4, wanted)
            print(
                f"with {sent} requests that fail, of which {odd} were not answered with an error: {texts} other texts, "
                f"{wrong} wrong"
            )
            problems = malformed(port, asked.malformed)
            print(
                f"{asked.malformed} malformed requests: {len(problems)} not refused as they should be",
                *problems[:5],
                sep="\n",
            )
        finally:
            process.terminate()
            process.wait()
        long = Path(place) / "many"
        many_runs(long, asked.runs, asked.rows)
        process, port = serve(long)
        try:
            page, curve, again, points = first_pages(port)
            print(
                f"{asked.runs} runs: page and table in {page:.2f} s; a curve of {asked.rows:,} rows as {points:,} "
                f"points a column in {curve:.2f} s, then in {again:.2f} s"
            )
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
