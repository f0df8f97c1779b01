"""Several processes as one, on one machine or many: torch.distributed over gloo, started by torchrun.

torchrun sets a few variables for every process it starts; they are how we know. What travels is bytes that all
processes agree on beforehand, and JSON: no code, no pickle. Nothing is encrypted (docs/cluster.md).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import numpy as np
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as pack_arrays

from samebits.checks import refuse
from samebits.engine.arrays import Array
from samebits.engine.exchange import Links
from samebits.engine.optim import Plateau
from samebits.engine.record import Checkpoint, TrainState
from samebits.errors import GroupLostError, SamebitsError

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SECONDS = 120.0  # to wait for others, at the beginning and in every exchange; $SAMEBITS_TIMEOUT is another number
POLL = 0.05
MOST_RANKS = 1 << 16


def launched() -> bool:
    """Whether torchrun, or somebody who sets the same variables, has started this process."""
    return all(os.environ.get(name) for name in VARIABLES)


def rank_and_size() -> tuple[int, int]:
    """Of this process; alone, it is rank 0 of 1."""
    if not launched():
        return 0, 1
    size = _variable("WORLD_SIZE", 1, MOST_RANKS)
    return _variable("RANK", 0, size - 1), size


def _variable(name: str, least: int, most: int) -> int:
    text = os.environ[name]
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
        raise refuse(
            name, text, f"a whole number from {least} to {most}", "torchrun sets it; unset it if it is a stray"
        )
    return int(text)


def job() -> str | None:
    """What torchrun calls this job: the same after a restart. None where there is no name for it."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none") if launched() else "none"
    return None if name == "none" else name


def restarted() -> bool:
    return launched() and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def patience() -> float:
    text = os.environ.get("SAMEBITS_TIMEOUT", str(SECONDS))
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e6:
        raise SamebitsError(f"SAMEBITS_TIMEOUT is {text!r}; it must be a number of seconds above 0; use {SECONDS:g}")
    return found


def package() -> Any:
    try:
        import torch
        import torch.distributed
    except ImportError:
        raise SamebitsError(
            "several processes need PyTorch; install the extra: pip install 'samebits[cluster]'"
        ) from None
    return torch


@contextmanager
def joined() -> Iterator[Links | None]:
    """The links to the other processes of this job; None for one that is alone."""
    if rank_and_size()[1] == 1:
        yield None
        return
    links = TorchLinks()
    try:
        yield links
    finally:
        links.close()


class TorchLinks(Links):
    """Links of torch.distributed's gloo backend."""

    def __init__(self) -> None:
        self._torch, self.sent = package(), 0
        self.rank, self.size = rank_and_size()
        # Its name since PyTorch 2.12, and the one before.
        named = getattr(self._torch.distributed, "all_gather_single", None)
        self._gather = named or self._torch.distributed.all_gather_into_tensor
        wait, distributed = timedelta(seconds=patience()), self._torch.distributed
        try:
            # torchrun's agent keeps the store, and it outlives a restart; else rank 0 does.
            kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
            host, port = os.environ["MASTER_ADDR"], _variable("MASTER_PORT", 1, 65_535)
            store = distributed.TCPStore(
                host, port, self.size, self.rank == 0 and not kept, timeout=wait, wait_for_workers=False
            )
            attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
            store = distributed.PrefixStore(f"samebits/{attempt}", store)
            self._await_everybody(store)
            distributed.init_process_group("gloo", store=store, rank=self.rank, world_size=self.size, timeout=wait)
        except (RuntimeError, ValueError) as error:  # torch's errors of stores and sockets are RuntimeErrors
            where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
            raise GroupLostError(
                f"this process did not meet the others at {where} within {patience():g} s ({first_line(error)}); look "
                "at the addresses and that every machine was started"
            ) from None

    def _await_everybody(self, store: Any) -> None:
        """Say how many are missing, rather than that something timed out."""
        end, came = time.monotonic() + patience(), store.add("came", 1)
        while came < self.size:
            if time.monotonic() > end:
                raise SamebitsError(
                    f"{came} of {self.size} ranks came within {patience():g} s, {self.size - came} did not; start them "
                    "too, or start fewer; SAMEBITS_TIMEOUT is how many seconds to wait"
                )
            time.sleep(POLL)
            came = store.add("came", 0)

    def close(self) -> None:
        self._torch.distributed.destroy_process_group()

    def all_to_all(self, sent: Array, sizes: list[int], received: Array, theirs: list[int]) -> None:
        with self._guarded():
            self._torch.distributed.all_to_all_single(self._tensor(received), self._tensor(sent), theirs, sizes)
        self.sent += (sent.size - sizes[self.rank]) * sent.itemsize

    def all_gather(self, mine: Array, into: Array) -> None:
        with self._guarded():
            self._gather(self._tensor(into), self._tensor(mine))
        self.sent += mine.nbytes * (self.size - 1)

    def broadcast(self, content: Array) -> None:
        with self._guarded():
            self._torch.distributed.broadcast(self._tensor(content), 0)
        self.sent += content.nbytes if self.rank == 0 else 0

    def _tensor(self, array: Array) -> Any:
        return self._torch.from_numpy(array.reshape(-1))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise GroupLostError(
                f"this process lost the others ({first_line(error)}); one of them stopped, or the network did; it "
                "stopped here, and the last checkpoint is intact: start the job again, or let torchrun do it with "
                "--max-restarts"
            ) from None


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def gather_texts(links: Links, text: str) -> list[str]:
    """Everybody's text, by rank."""
    mine = np.frombuffer(text.encode(), np.uint8)
    sizes = np.zeros(links.size, np.int64)
    links.all_gather(np.array([mine.size], np.int64), sizes)
    padded, everybody = np.zeros(sizes.max(), np.uint8), np.zeros((links.size, sizes.max()), np.uint8)
    padded[: mine.size] = mine
    links.all_gather(padded, everybody.reshape(-1))
    return [row[:size].tobytes().decode() for row, size in zip(everybody, sizes.tolist(), strict=True)]


def agree(links: Links, facts: Mapping[str, str]) -> None:
    """Refuse a group whose processes are not alike; the error is everybody's, and names a rank and both values."""
    everybody = [json.loads(text) for text in gather_texts(links, json.dumps(dict(facts)))]
    for rank, theirs in enumerate(everybody):
        if "problem" in theirs:
            raise everywhere(SamebitsError(f"rank {rank}: {theirs['problem']}"))
    for rank, theirs in enumerate(everybody):
        for key, value in everybody[0].items():
            if theirs.get(key) != value:
                told = f"{key} is {theirs.get(key)} on rank {rank} and {value} on rank 0"
                remedy = "start all of them with the same version, command and data"
                raise everywhere(SamebitsError(f"the processes are not alike: {told}; {remedy}"))


def everywhere(error: SamebitsError) -> SamebitsError:
    """All processes raise it, so one of them need say it."""
    error.everywhere = True
    return error


def by_first(links: Links | None, function: Callable[[], Any]) -> Any:
    """What rank 0 makes of it, on all of them; JSON. Its error is everybody's."""
    if links is None:
        return function()
    answer: dict[str, Any] = {}
    if links.rank == 0:
        try:
            answer = {"value": function()}
        except SamebitsError as error:
            answer = {"error": str(error), "lost": error.exit_code == 1}
    answer = json.loads(gather_texts(links, json.dumps(answer))[0])
    if "error" in answer:
        raise everywhere((GroupLostError if answer["lost"] else SamebitsError)(answer["error"]))
    return answer["value"]


def share_checkpoint(links: Links | None, read: Callable[[], Checkpoint | None]) -> Checkpoint | None:
    """What rank 0 reads, on all of them: one folder is enough."""
    if links is None:
        return read()
    found: Checkpoint | None = None
    content = np.zeros(0, np.uint8)

    def describe() -> dict[str, Any] | None:
        nonlocal found, content
        found = read()
        if found is None:
            return None
        content = np.frombuffer(bytearray(packed(found)), np.uint8)
        return {"state": asdict(found.state), "config_hash": found.config_hash, "bytes": content.size}

    told = by_first(links, describe)
    if told is None:
        return None
    if found is None:
        content = np.zeros(told["bytes"], np.uint8)
    links.broadcast(content)
    if found is not None:
        return found
    arrays = parse_arrays(content.tobytes())
    params, first, second = (arrays.pop(name) for name in VECTORS)
    state = TrainState(**{**told["state"], "plateau": Plateau(**told["state"]["plateau"])})
    return Checkpoint(state, params, first, second, arrays, told["config_hash"])


VECTORS = ("samebits.params", "samebits.first", "samebits.second")


def packed(found: Checkpoint) -> bytes:
    vectors = dict(zip(VECTORS, (found.params, found.first, found.second), strict=True))
    return pack_arrays({name: np.ascontiguousarray(value) for name, value in {**vectors, **found.constants}.items()})
