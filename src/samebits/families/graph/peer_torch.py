"""The graph networks in PyTorch Geometric, as its users would write them: GraphConv, and its own collation.

Without directions a layer is GraphConv itself: W_root h + W_rel Σ neighbours + b. With them, children go through
GraphConv and parents through a second sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch as Collated
from torch_geometric.data import Data
from torch_geometric.nn import GraphConv, SimpleConv

from samebits.arithmetic.arrays import Array
from samebits.bench.peers import Problem, Stepper
from samebits.bench.torch_gpu import Recipe, stepper
from samebits.bench.torch_peers import optimise
from samebits.families.graph import data
from samebits.families.graph.config import GraphConfig
from samebits.training.contract import Batch

IGNORED = -100  # no class


class Network(nn.Module):  # type: ignore[misc]
    """Parameters are ours, by name; torch's linear layers hold their matrices transposed."""

    def __init__(self, config: GraphConfig, params: Mapping[str, Array]) -> None:
        super().__init__()
        self.config = config
        H = config.width
        self.embed = nn.Parameter(torch.tensor(params["embed"].reshape(-1, H)))
        self.around = nn.ModuleList(GraphConv(H, H, aggr="add") for _ in range(config.layers))
        self.down = nn.ModuleList(nn.Linear(H, H, bias=False) for _ in range(config.layers if config.directed else 0))
        self.sum = SimpleConv(aggr="sum")
        self.heads = nn.Linear(H, sum(config.head_sizes))
        with torch.no_grad():
            for i in range(config.layers):
                first = "up" if config.directed else "around"
                self.around[i].lin_rel.weight.copy_(torch.tensor(params[f"layers.{i}.{first}"].T))
                self.around[i].lin_rel.bias.copy_(torch.tensor(params[f"layers.{i}.bias"]))
                self.around[i].lin_root.weight.copy_(torch.tensor(params[f"layers.{i}.self"].T))
                if config.directed:
                    self.down[i].weight.copy_(torch.tensor(params[f"layers.{i}.down"].T))
            self.heads.weight.copy_(torch.tensor(params["heads.weight"].T))
            self.heads.bias.copy_(torch.tensor(params["heads.bias"]))

    def forward(self, x: Tensor, edge_index: Tensor, y: Tensor) -> Tensor:
        """The sum of the losses; a node whose targets are IGNORED has none."""
        h = self.embed.index_select(0, x)
        for i, conv in enumerate(self.around):
            a = conv(h, edge_index)
            if self.config.directed:
                a = a + self.down[i](self.sum(h, edge_index.flip(0)))
            h = torch.relu(a) if self.config.activation == "relu" else 0.5 * a * (1 + a * torch.rsqrt(1 + a * a))
        logits = self.heads(h)
        total = torch.zeros((), device=x.device)
        for head, part in enumerate(torch.split(logits, list(self.config.head_sizes), dim=1)):
            if part.shape[1]:
                total = total + nn.functional.cross_entropy(part, y[:, head], reduction="sum", ignore_index=IGNORED)
        return total

    def flat(self) -> Array:
        """The weights in our order."""
        named: list[Tensor] = [self.embed]
        for i, conv in enumerate(self.around):
            named += [conv.lin_root.weight.T, conv.lin_rel.weight.T]
            named += [self.down[i].weight.T] if self.config.directed else []
            named.append(conv.lin_rel.bias)
        named += [self.heads.weight.T, self.heads.bias]
        return np.concatenate([value.detach().cpu().numpy().ravel() for value in named])


def dataset(store: Any) -> list[Data]:
    """One Data object a graph, with one feature row a node: a node that stands in one place only."""
    found = []
    for g in range(len(store.nodes) - 1):
        first, last = int(store.nodes[g]), int(store.nodes[g + 1])
        starts = store.edge_starts[0]
        counts = np.diff(starts[first : last + 1])
        to = np.repeat(np.arange(last - first), counts)
        edges = np.stack([store.edges[0, starts[first] : starts[last]], to]).astype(np.int64)
        rows = store.rows[store.row_starts[first:last]].astype(np.int64)
        targets = store.targets[first:last].astype(np.int64)
        found.append(Data(x=torch.from_numpy(rows), edge_index=torch.from_numpy(edges), y=torch.from_numpy(targets)))
    return found


def build(problem: Problem) -> Stepper:
    network = Network(problem.config, problem.params)
    graphs = dataset(data.load(problem.config).train)

    def loss(batch: Batch) -> Tensor:
        return network(*collated(graphs, batch)) / batch.divisor

    return Stepper(optimise(problem, list(network.parameters()), loss), network.flat)


def collated(graphs: Sequence[Data], batch: Batch) -> list[Tensor]:
    found = Collated.from_data_list([graphs[g] for g in batch.arrays.chosen])
    return [found.x, found.edge_index, found.y]


def build_on(problem: Problem, device: str, compiled: bool = False, graph: bool = False) -> Stepper:
    """On a GPU; batches are collated before the clock runs. Compiled, it is for any number of nodes and edges; in a
    CUDA graph every batch is filled up to the most that there can be."""
    graphs = dataset(data.load(problem.config).train)
    samples = problem.config.batch_size
    nodes, edges = (samples * max(sizes) for sizes in zip(*((g.num_nodes, g.num_edges) for g in graphs), strict=True))

    def make(where: torch.device) -> Recipe:
        network = Network(problem.config, problem.params).to(where)
        forward: Any = torch.compile(network, dynamic=not graph) if compiled else network

        def loss(x: Tensor, edge_index: Tensor, y: Tensor, divisor: Tensor) -> Tensor:
            return forward(x, edge_index, y) / divisor

        def inputs(batch: Batch) -> list[Any]:
            parts = collated(graphs, batch)
            return [*(filled(parts, nodes, edges) if graph else parts), np.float32(batch.divisor)]

        return Recipe(list(network.parameters()), loss, inputs, network.flat)

    return stepper(problem, device, make, graph)


def filled(parts: Sequence[Tensor], nodes: int, edges: int) -> list[Tensor]:
    """So many nodes and edges: one node more than there can be, without a loss, has all the edges that are too many."""
    x, edge_index, y = parts
    more_nodes, more_edges = nodes + 1 - len(x), edges - edge_index.shape[1]
    return [
        nn.functional.pad(x, (0, more_nodes)),
        nn.functional.pad(edge_index, (0, more_edges), value=nodes),
        nn.functional.pad(y, (0, 0, 0, more_nodes), value=IGNORED),
    ]
