"""Edit distances between graphs and between ordered trees: exact, bounded, and parallel over pairs."""

from weft.distance.assignment import bounds
from weft.distance.costs import Costs
from weft.distance.exact import graph_edit_distance
from weft.distance.graphs import Graph, from_networkx
from weft.distance.result import EditDistance
from weft.distance.tables import Distances, matrix
from weft.distance.trees import tree_edit_distance, tree_edit_mapping

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
