"""What processes say to each other beside numbers: bytes of a length that all know, and JSON; no code, no pickle."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from samebits.errors import GroupLostError, SamebitsError
from samebits.groups.exchange import Links


def lost(how: str) -> GroupLostError:
    return GroupLostError(
        f"this process lost the others ({how}); one of them stopped, or the network did; it stopped here, and the last "
        "checkpoint is intact: start the job again, or let torchrun do it with --max-restarts"
    )


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
