"""The records that kernels take by value, field by field as in automaton.cl and automaton_back.cl."""

from __future__ import annotations

from typing import NamedTuple


class Forward(NamedTuple):
    passes: int
    fired: int
    channels: int
    grid: int
    cells: int
    columns: int
    size: int


class Backward(NamedTuple):
    passes: int
    fired: int
    channels: int
    grid: int
    cells: int
    columns: int
    size: int
    chains: int
    readers: int
    goals: int
    places: int
    last: int
    judged: int


class Drawing(NamedTuple):
    ca_steps: int
    height: int
    width: int
    always: int
    limit: int
    struck: int
    side: int
    seed: int
    purpose: int
