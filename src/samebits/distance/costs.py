"""What an edit costs, and the same as tables over the labels that occur."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.checks import array, real, refuse
from samebits.errors import SamebitsError
from samebits.printing import shown

MOST_COST = 1e100  # so that no sum of costs overflows
MOST_LABELS = 2000  # different node or edge labels where a table or a function prices their substitution

RULE = "a number from 0 to 1e100"

Substitution = float | Array | Callable[[Any, Any], float]


def _number(what: str, value: Any) -> float:
    found = real(what, value, RULE)
    if not 0 <= found <= MOST_COST:
        raise refuse(what, value, RULE)
    return found


def _check_square(what: str, value: Array) -> None:
    found = array(what, value, "biuf", "a number, a square array of numbers or a function")
    if found.ndim != 2 or found.shape[0] != found.shape[1] or found.size == 0:
        raise SamebitsError(f"{what} has shape {found.shape}; it must be square, one row and one column a label")
    wrong = ~((found >= 0) & (found <= MOST_COST))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise refuse(f"{what}[{row}, {column}]", found[row, column].item(), RULE)


@dataclass(frozen=True)
class Costs:
    """Costs of single edits. Deleting is from the first graph, inserting is what the second one has more.

    A substitution is a number, charged where the labels differ; or a square array, indexed by labels that are whole
    numbers; or a function of two labels. Array and function price equal labels too.
    """

    node_insert: float = 1.0
    node_delete: float = 1.0
    node_substitute: Substitution = 1.0
    edge_insert: float = 1.0
    edge_delete: float = 1.0
    edge_substitute: Substitution = 1.0

    def __post_init__(self) -> None:
        for name in NAMES:
            value = getattr(self, name)
            if name.endswith("substitute") and callable(value):
                continue
            if name.endswith("substitute") and isinstance(value, np.ndarray) and value.ndim > 0:
                _check_square(name, value)
            else:
                object.__setattr__(self, name, _number(name, value))


NAMES = tuple(field.name for field in fields(Costs))
UNIT = Costs()


def as_costs(given: Any) -> Costs:
    """What a user gave as costs: Costs, or None for 1 each."""
    if given is None:
        return UNIT
    if not isinstance(given, Costs):
        raise refuse("costs", given, "a samebits.distance.Costs or None", "write costs=Costs(node_insert=2)")
    return given


def constant(cost: Substitution) -> bool:
    """Whether equal labels are free and all others cost the same: then no table is needed."""
    return isinstance(cost, float)


def table(what: str, cost: Substitution, labels: Sequence[Hashable]) -> Array:
    """Substitution costs between all labels that occur; 1 × 1 for a constant."""
    if constant(cost):
        return np.full((1, 1), cost, np.float64)
    if len(labels) > MOST_LABELS:
        raise SamebitsError(
            f"{len(labels)} different {what} labels occur; an array or a function can price at most {MOST_LABELS}; "
            f"give {what}_substitute as a number"
        )
    found = np.empty((len(labels), len(labels)))
    if callable(cost):
        for i, a in enumerate(labels):
            for j, b in enumerate(labels):
                price: Any = cost(a, b)  # a != b is one too
                if not (isinstance(price, int | float | np.bool_) and 0 <= price <= MOST_COST):
                    price = _number(f"{what}_substitute({shown(a)}, {shown(b)})", price)
                found[i, j] = price
        return found
    prices = np.asarray(cost, float)
    for label in labels:
        if not isinstance(label, int | np.integer) or not 0 <= label < len(prices):
            raise SamebitsError(
                f"the {what} label {shown(label)} has no row in {what}_substitute; with an array, labels must be whole "
                f"numbers from 0 to {len(prices) - 1}; give a larger array or a function"
            )
    at = np.array(labels, np.int64)
    return np.ascontiguousarray(prices[np.ix_(at, at)])


class Prices(NamedTuple):
    """Costs as compiled code reads them. The tables are 1 × 1 where equal labels are free and others cost the same."""

    single: Array  # insert and delete a node, insert and delete an edge
    node_constant: bool
    edge_constant: bool
    step: float  # every sum of costs is a multiple of it, without rounding; 0 if there is no such number
    nodes: Array
    edges: Array


def prices(costs: Costs, node_labels: Sequence[Hashable], edge_labels: Sequence[Hashable]) -> Prices:
    if constant(costs.node_substitute) and constant(costs.edge_substitute):
        return _constant_prices(*(getattr(costs, name) for name in NAMES))
    return _prices(
        (costs.node_insert, costs.node_delete, costs.edge_insert, costs.edge_delete),
        constant(costs.node_substitute),
        constant(costs.edge_substitute),
        table("node", costs.node_substitute, node_labels),
        table("edge", costs.edge_substitute, edge_labels),
    )


@functools.lru_cache(maxsize=16)
def _constant_prices(*values: float) -> Prices:
    """The usual case, kept: a search of two small graphs takes no longer than this."""
    node_insert, node_delete, node_substitute, edge_insert, edge_delete, edge_substitute = values
    single = (node_insert, node_delete, edge_insert, edge_delete)
    return _prices(single, True, True, np.array([[node_substitute]]), np.array([[edge_substitute]]))


def _prices(single: Sequence[float], node_constant: bool, edge_constant: bool, nodes: Array, edges: Array) -> Prices:
    numbers = np.array(single, np.float64)
    step = _step(np.concatenate((numbers, nodes.ravel(), edges.ravel())))
    return Prices(numbers, node_constant, edge_constant, step, nodes, edges)


def _step(values: Array) -> float:
    # Thousandths of two, as it were: finer costs are rare, and the search works without a step.
    scaled = values * 1024
    if (scaled != np.floor(scaled)).any() or scaled.max() > 2**40:
        return 0.0
    return float(np.gcd.reduce(scaled.astype(np.int64))) / 1024


def symmetric(found: Prices) -> bool:
    """Whether a distance is the same both ways."""
    node_insert, node_delete, edge_insert, edge_delete = found.single
    same = node_insert == node_delete and edge_insert == edge_delete
    return bool(same) and all(np.array_equal(prices, prices.T) for prices in (found.nodes, found.edges))
