"""Your own pairs: a JSON-lines file, checked line by line, turned into rewriting series by optimal edit scripts."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from samebits import checks
from samebits.config import override
from samebits.errors import SamebitsError
from samebits.families.graph import example
from samebits.families.graph.config import GraphConfig
from samebits.families.graph.edits import DELETE, JOIN, no_edits, optimal_mapping, rounds
from samebits.families.graph.expressions import Tree, from_graph, parse, text_of
from samebits.families.graph.series import SPLITS, Series, in_split
from samebits.printing import shown

KEYS = {"input", "target", "split"}


class UserData(NamedTuple):
    series: dict[str, list[Series]]
    labels: tuple[str, ...]
    made: tuple[tuple[str, ...], ...]  # labels that each head must be able to say
    digest: str


def read(config: GraphConfig) -> UserData:
    """The file's series; an error where it is not what training began with."""
    name = "the example's pairs" if config.data is None else config.data
    content = example.pairs() if config.data is None else _contents(config.data)
    found = _parse(content, name, config.most_nodes)
    if config.data_hash is not None and found.digest != config.data_hash:
        raise SamebitsError(
            f"{name} has changed since training began (its hash was {config.data_hash[:12]}…, now "
            f"{found.digest[:12]}…); put the old file back, or train anew"
        )
    return found


def _contents(name: str) -> bytes:
    try:
        return checks.path("data", name).read_bytes()
    except OSError as error:
        raise SamebitsError(
            f"cannot read {name} ({error.strerror}); name a file of pairs with --data; if it has moved since a run "
            "began: samebits resume DIR --set data=PATH"
        ) from None


def prepare(config: GraphConfig) -> GraphConfig:
    """The labels and the hash of the user's pairs, and their path made absolute: resume finds them from anywhere."""
    if not config.from_pairs:
        return config
    found = read(config)
    relabels, aboves, rights, firsts = found.made
    return override(
        config,
        {
            "labels": found.labels, "relabels": relabels, "aboves": aboves, "rights": rights, "firsts": firsts,
            "data": config.data and str(Path(config.data).expanduser().resolve()), "data_hash": found.digest,
        },
    )  # fmt: skip


@lru_cache(maxsize=2)  # by content: a file may be edited between two readings
def _parse(content: bytes, name: str, most_nodes: int) -> UserData:
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise SamebitsError(
            f"{name} is not UTF-8 text; it must be one JSON object a line; name another --data"
        ) from None
    series: dict[str, list[Series]] = {split: [] for split in SPLITS}
    inputs: dict[str, tuple[int, str]] = {}  # text → (line, target)
    targets: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            before, after, split = _pair(line, most_nodes)
            known = inputs.get(text_of(before))
            if known and known[1] != text_of(after):
                raise SamebitsError(f"its input is that of line {known[0]}, with another target; keep one of them")
        except SamebitsError as error:
            raise SamebitsError(f"{name}, line {number}: {error}") from None
        if known:
            continue
        inputs[text_of(before)] = number, text_of(after)
        targets.setdefault(text_of(after), number)
        series[split].append(_series(before, after))
    for text, number in targets.items():
        if text in inputs and inputs[text][1] != text:
            raise SamebitsError(
                f"{name}, line {inputs[text][0]}: its input is the target of line {number}, and a target must stay as "
                "it is; give that line the final target, or remove one of them"
            )
    if not series["train"]:
        raise SamebitsError(
            f'{name} has no pair to train on; add lines such as {{"input": "(and x T)", "target": "x"}}'
        )
    return UserData(series, *_vocabulary(series), hashlib.sha256(content).hexdigest())


def _pair(line: str, most_nodes: int) -> tuple[Tree, Tree, str]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise SamebitsError(f"not JSON ({error.msg}, at character {error.pos + 1}); fix it") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or thousands of brackets
        raise SamebitsError("its JSON is too long or too deeply nested to be a graph; fix it") from None
    if not isinstance(value, dict) or not {"input", "target"} <= set(value) <= KEYS:
        raise SamebitsError('it must be an object with "input" and "target", and "split" if you like; fix it')
    before, after = (_tree(key, value[key], most_nodes) for key in ("input", "target"))
    split = value.get("split")
    if split is None:
        split = "unseen" if in_split(before, "unseen") else "train"
    if split not in SPLITS:
        raise SamebitsError(f"split is {shown(split)}; it must be {', '.join(SPLITS)}; fix it")
    return before, after, split


def _tree(key: str, value: Any, most_nodes: int) -> Tree:
    try:
        return parse(value, most_nodes) if isinstance(value, str) else from_graph(value, most_nodes)
    except SamebitsError as error:
        raise SamebitsError(f"{key}: {error}") from None


def _series(before: Tree, after: Tree) -> Series:
    steps = [] if before == after else rounds(before, after, optimal_mapping(before, after)[1])
    return Series([*(tree for tree, _ in steps), after], [*(edits for _, edits in steps), no_edits(after)])


def _vocabulary(series: dict[str, list[Series]]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    labels: set[str] = set()
    made: list[set[str]] = [set(), set(), set(), set()]
    for found in (item for split in series.values() for item in split):
        for tree, edits in zip(*found, strict=True):
            labels.update(tree.labels)
            for words, head in zip(made, edits, strict=True):
                words.update(word for word in head if word not in (None, DELETE, JOIN))
    return tuple(sorted(labels)), tuple(tuple(sorted(words)) for words in made)
