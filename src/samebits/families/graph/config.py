"""What a graph-to-graph network is made of, and the tasks as presets."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from samebits.config import OUTSIDE_HASH, TrainConfig, override
from samebits.families.graph.edits import FIXED
from samebits.families.graph.expressions import BIND, LABEL
from samebits.families.graph.rules import DIGITS, VARIABLES
from samebits.printing import shown
from samebits.training.contract import Layout, Task

ROOT_ROW, BIND_ROW = 0, 1  # a node's feature says where it stands: the root, a bound value, or an argument position
FIRST_POSITION = 2
MOST_NODES, MOST_LABELS = 400, 4096


class GraphConfig(TrainConfig):
    """Labels and what each head can say follow from the task, or from --data (filled in when training begins)."""

    COSTS: ClassVar[dict[str, str]] = {
        "expressions": "seconds at the start, and memory",
        "width": "time, by its square",
        "layers": "time, in proportion",
        "sinkhorn": "when above 0: several times the time of a step",
        "sinkhorn_steps": "time of the structural loss, in proportion",
    }

    rule: Literal["boolean", "peano", "arithmetic", "algebra", "derivative", "pairs"] = Field(
        description="the teacher; pairs: none but your own pairs"
    )
    operators: tuple[int, int] = Field(description="fewest and most operators of a training expression")
    larger: tuple[int, int] = Field(description="the same of the larger split; it must begin above")
    expressions: int = Field(2000, ge=1, le=1_000_000, description="training expressions; each gives a series of pairs")
    modulus: int = Field(10, ge=2, le=10, description="arithmetic: results are taken modulo this")
    labels: tuple[str, ...] = Field((), max_length=MOST_LABELS, description="all labels of nodes")
    relabels: tuple[str, ...] = Field((), max_length=MOST_LABELS, description="labels that a node can get")
    aboves: tuple[str, ...] = Field((), max_length=MOST_LABELS, description="labels that can be inserted above a node")
    rights: tuple[str, ...] = Field(
        (), max_length=MOST_LABELS, description="leaves that can be inserted right of a node"
    )
    firsts: tuple[str, ...] = Field(
        (), max_length=MOST_LABELS, description="leaves that can be inserted as first child"
    )

    width: int = Field(64, ge=1, le=1024, description="numbers a node")
    layers: int = Field(3, ge=1, le=32, description="message-passing layers: how many edges far a node sees")
    positions: int = Field(4, ge=1, le=64, description="argument positions told apart; later ones count as the last")
    directed: bool = Field(True, description="children and parents have weights of their own; false: one set for both")
    activation: Literal["bend", "relu"] = Field("bend", description="bend: smooth; relu: what most peers use")
    most_nodes: int = Field(160, ge=1, le=MOST_NODES, description="larger graphs are refused, and end a prediction")
    most_steps: int = Field(40, ge=1, le=1000, description="rewriting steps before a prediction is given up")
    unit_nodes: int = Field(256, ge=1, le=65_536, description="nodes a unit of work aims at")

    sinkhorn: float = Field(0.0, ge=0, le=1e6, description="weight of the soft structural loss; 0: off")
    sinkhorn_steps: int = Field(10, ge=1, le=100, description="rounds of scaling")
    sinkhorn_temperature: float = Field(0.3, ge=1e-6, le=1e6, description="lower: closer to a one-to-one matching")

    shuffle_targets: bool = Field(False, description="a check: edits dealt to random nodes; nothing can be learned")
    random_graphs: tuple[int, int] = Field(
        (0, 0), description="for timing: random graphs of so many nodes and edges instead of expressions; 0, 0: off"
    )
    data: str | None = Field(
        None,
        description="your own pairs, a JSON-lines file, instead of the task's generator",
        json_schema_extra=OUTSIDE_HASH,
    )
    data_hash: str | None = Field(None, description="filled in: what the pairs were when training began")

    @property
    def from_pairs(self) -> bool:
        """Whether pairs teach it, a user's or the example's, and not the rules of a task."""
        return self.data is not None or self.rule == "pairs"

    @property
    def kinds(self) -> int:
        """Sets of neighbours with weights of their own."""
        return 2 if self.directed else 1

    @property
    def head_labels(self) -> tuple[tuple[str, ...], ...]:
        return self.relabels, self.aboves, self.rights, self.firsts

    @cached_property  # read several times a step
    def head_sizes(self) -> tuple[int, ...]:
        """Classes of each head; a head that could say only one thing is left out."""
        return tuple(
            len(fixed) + len(names) if names or index == 0 else 0
            for index, (fixed, names) in enumerate(zip(FIXED, self.head_labels, strict=True))
        )

    @model_validator(mode="after")
    def _check_sizes(self) -> GraphConfig:
        for key in ("operators", "larger"):
            least, most = getattr(self, key)
            if not 0 <= least <= most <= 40:
                raise ValueError(f"{key} is {shown([least, most])}; it must be fewest and most, from 0 to 40; fix it")
        nodes, edges = self.random_graphs
        if self.random_graphs != (0, 0) and not 2 <= nodes <= edges + 1 <= min(nodes, MOST_NODES) ** 2 // 2:
            raise ValueError(
                f"random_graphs is [{shown(nodes)}, {shown(edges)}]; it must be nodes from 2 to {MOST_NODES} and edges "
                "from nodes − 1 to nodes² / 2 − 1; use --set random_graphs=[20,20], or [0,0] for none"
            )
        if self.larger[0] <= self.operators[1]:
            raise ValueError(
                f"larger begins at {self.larger[0]}; it must be above operators' most, {self.operators[1]}; "
                "raise larger or lower operators"
            )
        for names in (self.labels, *self.head_labels):
            if len(set(names)) < len(names):
                raise ValueError(f"labels are {shown(names)}; each must be there once; leave out the others")
            for name in names:
                if not LABEL.fullmatch(name):
                    raise ValueError(f"label {shown(name)} must be a name without spaces and parentheses; rename it")
                if name not in self.labels:
                    raise ValueError(f"label {name!r} can be made but is not among labels; add it there")
        return self


def layout(config: GraphConfig) -> Layout:
    """Names and shapes in the order of the flat vector; the matrices of one layer follow each other, as one product."""
    H = config.width
    found: list[tuple[str, tuple[int, ...]]] = [("embed", (len(config.labels), config.positions + FIRST_POSITION, H))]
    names = ("self", "up", "down") if config.directed else ("self", "around")
    for i in range(config.layers):
        found += [(f"layers.{i}.{name}", (H, H)) for name in names] + [(f"layers.{i}.bias", (H,))]
    classes = sum(config.head_sizes)
    return [*found, ("heads.weight", (H, classes)), ("heads.bias", (classes,))]


def parameter_total(config: GraphConfig) -> int:
    """The sum of the shapes above, without making the list: asked every step."""
    H = config.width
    layers = config.layers * ((1 + config.kinds) * H * H + H)
    return len(config.labels) * (config.positions + FIRST_POSITION) * H + layers + (H + 1) * sum(config.head_sizes)


_COMMON = {
    "lr": 3e-3, "schedule": "cosine", "weight_decay": 0.0, "clip_norm": 1.0, "warmup_steps": 20, "batch_size": 64,
    "log_every": 50, "eval_every": 250, "eval_samples": 200, "checkpoint_every": 1000,
}  # fmt: skip

_BOOLEAN = GraphConfig(
    rule="boolean", operators=(1, 4), larger=(5, 8), expressions=8000, steps=2500,
    labels=("simplify", "and", "or", "not", *VARIABLES, "T", "F"), relabels=("T", "F"), **_COMMON,
)  # fmt: skip
_PEANO = GraphConfig(
    rule="peano", operators=(1, 3), larger=(4, 6), expressions=1500, steps=600,
    labels=("peano", "add", "S", "0"), aboves=("S",), **_COMMON,
)  # fmt: skip
_ARITHMETIC = GraphConfig(
    rule="arithmetic", operators=(1, 4), larger=(5, 8), expressions=6000, steps=4000,
    labels=("eval", BIND, "add", "sub", "mul", *VARIABLES, *DIGITS), relabels=DIGITS, **_COMMON,
)  # fmt: skip
_ALGEBRA = GraphConfig(
    rule="algebra", operators=(1, 4), larger=(5, 8), expressions=8000, steps=4000,
    labels=("simplify", "add", "sub", "mul", "neg", "pow", *VARIABLES, *DIGITS),
    relabels=("mul", "neg", "pow", *DIGITS), **_COMMON,
)  # fmt: skip
_DERIVATIVE = GraphConfig(
    rule="derivative", operators=(0, 3), larger=(4, 6), expressions=4000, steps=2000,
    labels=("d", "add", "sub", "mul", "div", "neg", "pow", "sin", "cos", "exp", "log", "x", *DIGITS),
    relabels=("add", "sub", "mul", "div", "neg", "sin", "cos", *DIGITS[:9]), aboves=("d", "neg"),
    firsts=("sin", "cos", "exp", "x", *DIGITS[1:]), **_COMMON,
)  # fmt: skip

# Labels, heads and the hash follow from the pairs.
_REWRITE = GraphConfig(rule="pairs", operators=(1, 4), larger=(5, 8), expressions=100_000, steps=2000, **_COMMON)

_SMALL = {
    "width": 16, "layers": 2, "expressions": 60, "steps": 200, "batch_size": 16, "eval_samples": 20, "unit_nodes": 32,
    "eval_every": 50, "checkpoint_every": 100, "log_every": 10, "warmup_steps": 0,
}  # fmt: skip
_TINY = {**_SMALL, "width": 5, "expressions": 30, "batch_size": 12, "unit_nodes": 16, "positions": 2}


# What the peers were timed on: 64 graphs of 20 nodes and 20 edges, seen from both ends; one set of weights for both.
_TIMING = {
    "random_graphs": (20, 20), "directed": False, "activation": "relu", "expressions": 1024, "schedule": "constant",
    "warmup_steps": 0, "clip_norm": 0.0, "eval_samples": 64, "unit_nodes": 160,
}  # fmt: skip


def _task(full: GraphConfig, summary: str, expect: str) -> Task:
    timing = {"timing": override(full, _TIMING)} if full.rule == "boolean" else {}
    return Task(
        presets={"full": full, "small": override(full, _SMALL), **timing},
        about={"timing": "random graphs of one size, to time against peers"} if timing else {},
        summary=summary,
        expect=expect,
        verify={"sinkhorn": 0.5} if full.rule == "boolean" else {},  # one task has the structural loss in play
        checks=(override(full, _TINY), override(full, {**_TINY, "sinkhorn": 0.5, "sinkhorn_steps": 3, "layers": 1})),
    )


TASKS = {
    "boolean": _task(_BOOLEAN, "simplify logic formulas", "99.5 % of unseen formulas exact, in seconds"),
    "peano": _task(_PEANO, "add numbers written 0, (S 0), (S (S 0)) …", "all unseen sums exact, larger ones too"),
    "arithmetic": _task(_ARITHMETIC, "evaluate + − × modulo 10, with bound symbols", "95 % of unseen terms exact"),
    "algebra": _task(_ALGEBRA, "simplify polynomials", "95 % of unseen terms exact"),
    "derivative": _task(_DERIVATIVE, "differentiate sums, powers, sin, cos, exp, log", "95 % of unseen terms exact"),
    "rewrite": _task(
        _REWRITE, "learn your own pairs of trees: --data pairs.jsonl", "as much as your pairs have in common"
    ),
}
