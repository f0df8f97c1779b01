"""Our exact graph edit distance against networkx's: the same networkx graphs, the same values, then the times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from samebits.bench.cases import OURS, Found, Row, compared, row
from samebits.distance import graph_edit_distance, matrix
from samebits.errors import SamebitsError

DENSITY, NODE_LABELS = 0.4, 3
SIZES, ALONE = (6, 7, 8), (10, 12)  # nodes; the second are not given to networkx, which would take minutes a pair
PAIRS, ROUNDS = 20, 3
TABLE_GRAPHS, TABLE_NODES = 100, 9
Pair = tuple[Any, Any]


def distances(
    counts: Sequence[int],
    sizes: Sequence[int] = SIZES,
    alone: Sequence[int] = ALONE,
    pairs: int = PAIRS,
    table: tuple[int, int] = (TABLE_GRAPHS, TABLE_NODES),
    seed: int = 0,
) -> Found:
    """Mean milliseconds a pair by size, then a whole table of distances by worker count.

    Random graphs, every edge with probability 0.4, three node labels, unit costs. Our time includes reading the
    networkx graph.
    """
    try:
        import networkx
    except ImportError:
        raise SamebitsError("networkx is not installed, and is what we measure against; pip install networkx") from None

    def theirs(a: Any, b: Any) -> float:
        return float(networkx.graph_edit_distance(a, b, node_match=lambda x, y: x["label"] == y["label"]))

    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for nodes in (*sizes, *alone):
        drawn = [(random_graph(networkx, rng, nodes), random_graph(networkx, rng, nodes)) for _ in range(pairs)]
        rows += one_by_one(nodes, drawn, theirs if nodes in sizes else None)
    graphs = [random_graph(networkx, rng, table[1]) for _ in range(table[0])]
    rows += whole_table(f"all pairs of {table[0]} graphs of {table[1]} nodes", graphs, counts)
    settings = {"density": DENSITY, "node_labels": NODE_LABELS, "seed": seed, "pairs": pairs}
    proof = (
        f"{pairs} pairs each of {', '.join(map(str, sizes))} nodes: every distance is networkx's; "
        f"the table has the same bits for {', '.join(map(str, counts))} workers, and is what pairs give one by one"
    )
    return Found(settings, proof, compared(rows))


def ours(a: Any, b: Any) -> float:
    return graph_edit_distance(a, b).distance


def one_by_one(nodes: int, pairs: Sequence[Pair], theirs: Callable[[Any, Any], float] | None) -> list[Row]:
    systems = {OURS: ours} | ({"networkx": theirs} if theirs else {})
    times: dict[str, list[float]] = {system: [] for system in systems}
    for _ in range(ROUNDS):
        found = {}
        for system, call in systems.items():
            found[system], mean = timed(call, pairs)
            times[system].append(mean)
        if theirs and found[OURS] != found["networkx"]:
            raise SamebitsError(
                f"at {nodes} nodes our distances {found[OURS]} are not networkx's {found['networkx']}; "
                "no time is recorded"
            )
    return [row(f"edit distance, {nodes} nodes", system, 1, "ms a pair", times[system]) for system in systems]


def timed(call: Callable[[Any, Any], float], pairs: Sequence[Pair]) -> tuple[list[float], float]:
    """Every pair's distance, and the mean milliseconds a pair."""
    call(*pairs[0])  # compiled, imported, warm
    start = time.perf_counter()
    found = [call(a, b) for a, b in pairs]
    return found, 1e3 * (time.perf_counter() - start) / len(pairs)


def whole_table(case: str, graphs: Sequence[Any], counts: Sequence[int]) -> list[Row]:
    tables = {count: matrix(graphs, workers=count).distance for count in counts}  # the first one compiles
    first = tables[counts[0]]
    if not all(np.array_equal(first, other) for other in tables.values()):
        raise SamebitsError(f"the worker counts {list(counts)} give different distances; a timing would be meaningless")
    if first[0].tolist() != [ours(graphs[0], other) for other in graphs]:
        raise SamebitsError("a table's first row is not what its pairs give one by one; a timing would be meaningless")
    times: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(ROUNDS):
        for count in counts:
            start = time.perf_counter()
            matrix(graphs, workers=count)
            times[count].append(1e3 * (time.perf_counter() - start))
    return [row(case, OURS, count, "ms", times[count]) for count in counts]


def random_graph(networkx: Any, rng: np.random.Generator, nodes: int) -> Any:
    graph = networkx.Graph()
    graph.add_nodes_from((i, {"label": int(label)}) for i, label in enumerate(rng.integers(0, NODE_LABELS, nodes)))
    graph.add_edges_from((i, j) for i in range(nodes) for j in range(i) if rng.random() < DENSITY)
    return graph
