"""samebits.distance with graphs, costs and limits of every sort."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

from samebits import distance
from samebits.errors import SamebitsError
from tests.fuzz.bases import Bases
from tests.fuzz.calls import WORKERS, brief, call, chosen, odd_array, odd_object, some
from tests.fuzz.judge import attempt, check_message, frame_of
from tests.fuzz.kinds import Outcome, kind
from tests.fuzz.values import odd_number, odd_text

COSTS = ("node_insert", "node_delete", "node_substitute", "edge_insert", "edge_delete", "edge_substitute")


def label(draw: random.Random) -> Any:
    return draw.choice((0, 1, "a", "b", None, (1, 2), 1.5, float("nan"), odd_text(draw), True))


def graph(draw: random.Random, directed: bool | None = None) -> Any:
    """A small graph: mostly sound."""
    size = draw.choice((1, 2, 3, 5, 0, 7))
    ends = range(max(1, size)) if draw.random() < 0.9 else (-1, 0, size, 2**63, "x", None, 1.0)
    edges = list(dict.fromkeys((draw.choice(ends), draw.choice(ends)) for _ in range(draw.randrange(6))))
    given: dict[str, Any] = {"labels": [label(draw) for _ in range(size)], "edges": edges}
    given["directed"] = draw.random() < 0.3 if directed is None else directed
    if draw.random() < 0.3:
        given["edge_labels"] = [label(draw) for _ in range(len(edges) + (draw.random() < 0.1))]
    if draw.random() < 0.15:
        given[draw.choice(list(given))] = odd_object(draw)
    return distance.Graph(**given)


def tree(draw: random.Random) -> Any:
    """A pair (labels, parents), or a directed graph that may be a tree."""
    if draw.random() < 0.3:
        return graph(draw, directed=True)
    size = draw.choice((1, 2, 4, 8))
    parents = [-1, *(draw.randrange(i) if draw.random() < 0.2 else i - 1 for i in range(1, size))]
    if draw.random() < 0.2:
        parents[draw.randrange(size)] = draw.choice((-1, -2, size, 2**63 - 1, 2**70, "x", None))
    return [label(draw) for _ in range(size)], odd_array(draw) if draw.random() < 0.1 else parents


def costs(draw: random.Random) -> dict[str, Any]:
    """Some costs: numbers, tables, functions, or anything."""
    found: dict[str, Any] = {}
    for name in draw.sample(COSTS, draw.randrange(4)):
        sort = draw.random()
        found[name] = (
            draw.choice((0, 1, 0.5, 2, 1e-9, 1e300)) if sort < 0.5 else odd_number(draw) if sort < 0.65
            else np.full((3, 3), draw.choice((0, 1, np.nan, -1))) if sort < 0.8
            else draw.choice((lambda a, b: 1, lambda a, b: None, lambda a: 1, lambda a, b: "x")) if sort < 0.9
            else odd_object(draw)
        )  # fmt: skip
    return found


def networkx_graph(draw: random.Random) -> Any:
    import networkx

    sorts = (networkx.Graph, networkx.DiGraph, networkx.MultiGraph)
    found = draw.choice(sorts)()
    for _ in range(draw.randrange(6)):
        found.add_edge(label(draw) or 0, draw.choice("abc"), label=label(draw))
    return found


def thing(draw: random.Random) -> Any:
    sort = draw.random()
    return (
        graph(draw)
        if sort < 0.75
        else networkx_graph(draw)
        if sort < 0.8
        else tree(draw)
        if sort < 0.9
        else odd_object(draw)
    )


@kind("distances", 4)
def distances(draw: random.Random, place: Path, bases: Bases) -> Outcome:
    """One of the functions, with few nodes and a budget."""
    priced = costs(draw)
    made = attempt(f"Costs(**{brief(priced)})", list(priced), lambda: distance.Costs(**priced))
    if not made.accepted:
        return made
    common = {"costs": some(None, distance.Costs(**priced))}
    pair = {"a": thing, "b": thing}
    limits = {"budget": some(0, 50, 10**20), "timeout": some(None, None, 0, 0.01)}
    matrix = {"graphs": _several, "others": _several, "kind": some("graph", "tree"), "workers": WORKERS}
    matrix["budget"] = some(20, None)
    functions: list[tuple[Any, Any]] = [
        (distance.graph_edit_distance, {**pair, **common, **limits}),
        (distance.bounds, {**pair, **common}),
        (distance.tree_edit_distance, {"a": tree, "b": tree, **common}),
        (distance.tree_edit_mapping, _mapping()),
        (distance.matrix, {**matrix, **common}),
        (distance.from_networkx, {"graph": networkx_graph, "node_label": some("label", "x")}),
    ]
    function, makers = draw.choice(functions)
    try:
        given = chosen(draw, makers, 0.1)
    except SamebitsError as error:  # a Graph says itself what it cannot be
        check_message(str(error), frame_of(error), "Graph(…)")
        return Outcome(0, 1, str(error))
    if function is distance.matrix and str(given["kind"]) == "graph" and given["budget"] is None:
        given["budget"] = 20
    return call(function, given)


def _several(draw: random.Random) -> Any:
    make = draw.choice((graph, tree))
    return draw.choice(([make(draw) for _ in range(draw.randrange(4))], None))


def _mapping() -> dict[str, Any]:
    def labels(draw: random.Random) -> Any:
        return [draw.randrange(3) for _ in range(draw.choice((1, 3)))]

    def parents(draw: random.Random) -> Any:
        return draw.choice(([-1], [-1, 0, 0], [-1, 0, 1], [0], [-1, 2, 0], np.array([2**64 - 1, 0, 1], "uint64")))

    return {"labels_a": labels, "parents_a": parents, "labels_b": labels, "parents_b": parents}
