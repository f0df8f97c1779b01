"""Edit distances between graphs and between ordered trees: exact, bounded, and parallel over pairs."""

from samebits.distance.assignment import bounds
from samebits.distance.costs import Costs
from samebits.distance.exact import graph_edit_distance
from samebits.distance.graphs import Graph, from_networkx
from samebits.distance.result import EditDistance
from samebits.distance.tables import Distances, matrix
from samebits.distance.trees import tree_edit_distance, tree_edit_mapping

__all__ = [
    "Costs",
    "Distances",
    "EditDistance",
    "Graph",
    "bounds",
    "from_networkx",
    "graph_edit_distance",
    "matrix",
    "tree_edit_distance",
    "tree_edit_mapping",
]
