"""Edit distances between graphs and between ordered trees: exact, bounded, and parallel over pairs."""

from weft.distance.trees import tree_edit_mapping

__all__ = ["tree_edit_mapping"]
