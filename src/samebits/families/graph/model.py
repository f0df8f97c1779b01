"""A trained network to use from Python: expressions in, rewriting series out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import numpy as np

from samebits.arithmetic.arrays import Array
from samebits.checks import refuse, row
from samebits.devices.choose import device_for
from samebits.devices.cpu.workers import Workers
from samebits.devices.interface import Device
from samebits.errors import SamebitsError, nearest
from samebits.families.graph import gpu, network
from samebits.families.graph.config import GraphConfig, layout
from samebits.families.graph.data import batch_of, decode, inputs_of
from samebits.families.graph.edits import DELETE, Edits, apply, is_fixed_point
from samebits.families.graph.expressions import Tree, is_tree, parse, text_of
from samebits.families.graph.series import TASK_WORDS
from samebits.printing import shown
from samebits.report.notebook import model_card
from samebits.training.contract import Constants
from samebits.training.params import check_model, views, weights_hash

OPERANDS = {
    "simplify": 1, "peano": 1, "d": 1, "and": 2, "or": 2, "not": 1, "add": 2, "sub": 2, "mul": 2, "div": 2, "pow": 2,
    "neg": 1, "S": 1, "sin": 1, "cos": 1, "exp": 1, "log": 1, "bind": 2,
}  # fmt: skip

CHOICES: Mapping[str, Callable[..., Array]] = {"cpu": network.choices, "gpu": gpu.choices}


@dataclass(eq=False)
class Rewriting:
    """What the network made of an expression: every tree on the way, the last being its answer."""

    trees: list[Tree]
    ended: bool  # False: the limit of steps or nodes came first

    def __repr__(self) -> str:
        first, last, count = self.texts[0], self.texts[-1], len(self.trees) - 1
        return f"Rewriting({first} → {last}, {count} steps{'' if self.ended else ', not finished'})"

    @property
    def texts(self) -> list[str]:
        return [text_of(tree) for tree in self.trees]


@dataclass(eq=False)
class GraphModel:
    """`params` maps names to arrays, views into `weights`."""

    config: GraphConfig
    weights: Array  # the flat vector
    constants: Constants
    params: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        check_model(GraphConfig, layout, self.config, self.weights, self.constants)
        self.params = views(layout(self.config), self.weights)

    def _repr_html_(self) -> str:
        """The model as a notebook shows it."""
        facts = {"rule": self.config.rule, "width": self.config.width, "layers": self.config.layers}
        return model_card("graph network", facts, self.weights.size, weights_hash(self.weights), self.params)

    def __repr__(self) -> str:
        config = self.config
        what = config.rule if config.data is None else f"pairs of {Path(config.data).name}"
        return f"GraphModel({what}, {config.layers} layers of width {config.width}, {self.weights.size:,} weights)"

    def parse(self, text: str) -> Tree:
        """The tree of an expression; the task word is put above it where it is missing."""
        config = self.config
        if not isinstance(text, str):
            raise refuse("text", text, "an expression", "write one such as (and x y)")
        tree = parse(text, config.most_nodes)
        for node, label in enumerate(tree.labels):
            self._check_label("expression", label)
            wanted, found = OPERANDS.get(label, 0), len(tree.children[node])
            if not config.from_pairs and label != "eval" and found != wanted:
                raise SamebitsError(f"{label} has {found} operands in {text_of(tree, node)}; it takes {wanted}; fix it")
        if config.from_pairs or tree.labels[0] == (word := TASK_WORDS[config.rule]):
            return tree
        return parse(f"({word} {text_of(tree)})", config.most_nodes + 1)

    def edits(
        self, trees: Sequence[Tree], workers: int | str | Workers = "auto", device: str | Device = "cpu"
    ) -> list[Edits]:
        """The most likely edits of each tree: one run of the network over all of them."""
        given = self._check(trees)
        with device_for(device, workers) as used:
            return self._edits(given, used) if given else []

    def _edits(self, trees: Sequence[Tree], device: Device) -> list[Edits]:
        store = inputs_of(self.config, trees)
        batch = batch_of(self.config, store, np.arange(len(trees)))
        choices = CHOICES[device.kind](self.config, device.upload(self.weights), batch.arrays, device)
        return [decode(self.config, part) for part in np.split(choices, store.nodes[1:-1])]

    def _check(self, trees: Sequence[Tree], name: str = "trees") -> list[Tree]:
        found = row(name, trees, "a list of trees", "make them with model.parse")
        for number, tree in enumerate(found):
            if not is_tree(tree):
                raise refuse(f"{name}[{number}]", tree, "a tree", "make it with model.parse")
            for label in tree.labels:
                self._check_label(f"{name}[{number}]", label)
        return found

    def _check_label(self, where: str, label: str) -> None:
        known = self.config.labels
        if label not in known:
            raise SamebitsError(f"{where}: there is no operator or symbol {shown(label)} here; {nearest(label, known)}")

    @overload
    def predict(
        self, expressions: str | Tree, workers: int | str | Workers = "auto", device: str | Device = "cpu"
    ) -> Rewriting: ...

    @overload
    def predict(
        self, expressions: list[str] | list[Tree], workers: int | str | Workers = "auto", device: str | Device = "cpu"
    ) -> list[Rewriting]: ...

    def predict(
        self,
        expressions: str | Tree | list[str] | list[Tree],
        workers: int | str | Workers = "auto",
        device: str | Device = "cpu",
    ) -> Rewriting | list[Rewriting]:
        """Edit until nothing changes, `most_steps` steps have gone, or a tree outgrows `most_nodes`.

        One expression, as a text or as the tree that `parse` makes of it; or a list of them, which run together.
        """
        if isinstance(expressions, str) or is_tree(expressions):
            return self._predict([expressions], workers, device)[0]
        return self._predict(expressions, workers, device)

    def _predict(self, expressions: Any, workers: int | str | Workers, device: str | Device) -> list[Rewriting]:
        given = row("expressions", expressions, "an expression, or a list of them", "write one such as (and x y)")
        trees = [self.parse(one) if isinstance(one, str) else one for one in given]
        found = [Rewriting([tree], False) for tree in self._check(trees, "expressions")]
        going = list(found)
        with device_for(device, workers) as used:
            for _ in range(self.config.most_steps):
                if not going:
                    break
                still = []
                for item, edits in zip(going, self._edits([one.trees[-1] for one in going], used), strict=True):
                    after = step(item.trees[-1], edits)
                    if after is None:
                        item.ended = True
                    else:
                        item.trees.append(after)
                        if len(after.labels) <= self.config.most_nodes:
                            still.append(item)
                going = still
        return found


def step(tree: Tree, edits: Edits) -> Tree | None:
    """The edited tree; None where the edits change nothing. A root whose loss would leave no tree stays."""
    if is_fixed_point(edits):
        return None
    after = apply(tree, edits)
    if after is None and edits.action[0] == DELETE:
        edits.action[0] = None
        after = apply(tree, edits)
    if after is None or after == tree:
        return None
    return after
