"""What a logic automaton is made of, and the published experiments as presets."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from samebits.arithmetic.simd import SUMS
from samebits.config import TrainConfig, override
from samebits.families.logic_ca import pictures, rules
from samebits.training.contract import Layout, Task

MOST_LAYERS, MOST_GATES = 256, 65_536  # gates of a layer
POSITIONS = 9  # of the 3×3 neighbourhood, row-major; 4 is the cell itself


class LogicConfig(TrainConfig):
    """Sizes follow Miotti et al. 2025; layer lists give outputs only, their inputs follow from the rest."""

    COSTS: ClassVar[dict[str, str]] = {
        "height": "time and memory, in proportion",
        "width": "time and memory, in proportion",
        "channels": "time and memory, in proportion; kernels run for each of them",
        "kernels": "time, in proportion",
        "perceive": "time: gates × cells × channels × kernels × ca_steps",
        "update": "time: gates × cells × ca_steps",
        "ca_steps": "time and memory, in proportion",
    }

    rule: str = Field(
        description="what the automaton must learn to do: life, checkerboard, grow; a rule of one bit a cell such as "
        "B36/S23, or its 512 digits, or a file of them"
    )
    height: int = Field(ge=3, le=4096, description="cells; a picture to grow sets it")
    width: int = Field(ge=3, le=4096, description="likewise")
    boundary: Literal["periodic", "zeros"] = Field(description="the grid is a torus, or has zeros around it")
    channels: int = Field(ge=1, le=1024, description="bits a cell; channel 0 is what the loss looks at")
    kernels: int = Field(ge=1, le=1024, description="perceive kernels, all with the same wiring")
    perceive: tuple[int, ...] = Field(
        min_length=1, max_length=MOST_LAYERS, description="gates of each perceive layer; the first has 8"
    )
    update: tuple[int, ...] = Field(
        min_length=1, max_length=MOST_LAYERS, description="gates of each update layer; the last has `channels`"
    )
    ca_steps: int = Field(ge=1, le=10_000, description="steps of the automaton before the loss looks")
    square: int = Field(2, ge=1, le=4096, description="checkerboard: side of a square")
    start: Literal["random", "centre", "zeros", "any"] | tuple[str, ...] = Field(
        "random",
        description="random bits, one full cell, nothing (zeros), one full cell first and random bits in all other "
        "samples (any), or a picture like target, one for each",
    )
    target: tuple[str, ...] = Field(
        (),
        description="grow: the picture, or several; a file, lizard, letter or heart; it sets the grid's size",
    )
    loss_steps: tuple[int, ...] = Field(
        (), max_length=10_000, description="CA steps after which the picture counts; default: the last alone"
    )
    damage: int = Field(0, ge=0, le=4096, description="side of a square of cells that is cleared at a random place")
    damage_after: int = Field(0, ge=0, le=10_000, description="… after this CA step")
    fire_rate: float = Field(1.0, gt=0, le=1, description="chance that a cell updates in a CA step; 1: synchronous")
    residual: Literal["a", "mixed", "spread", "routed"] = Field(
        "a", description="what gates pass on at first: a; mixed, spread: a or b in perceive; routed: in update too"
    )
    start_logit: float = Field(10.0, gt=0, le=50, description="how surely they do: the logit of that operation")
    harden_from: float = Field(
        1.0, ge=0, le=1, description="part of the schedule where gates begin to harden; 1: never"
    )
    harden_full: float = Field(1.0, ge=0, le=1, description="part of the schedule from which all gates are hard")
    repair: int = Field(
        0, ge=0, le=100_000,
        description="at the end of the schedule, change up to so many gates of the hard circuit for fewer wrong cells",
    )  # fmt: skip
    wiring_seed: int = Field(23, ge=0, lt=2**63, description="23 draws the published wires")
    lanes: int = Field(32, ge=SUMS, le=1024, multiple_of=SUMS, description="most cells in a tile")

    beta2: float = Field(0.99, ge=0, lt=1, description="AdamW: how long the mean of their squares remembers")
    clip_element: float = Field(100.0, ge=0, le=1e30, description="clip each gradient element to ± this; 0: off")

    @property
    def target_channels(self) -> int:
        return pictures.target_channels(self.target) if self.rule == "grow" else 1

    @property
    def follows_cells(self) -> bool:
        """Whether it is a rule like Life: what becomes of a cell follows from its neighbourhood, at every step."""
        return self.rule not in rules.PICTURES

    @property
    def draws_starts(self) -> bool:
        """Whether there is no end of starts: new ones are drawn for every step and every evaluation."""
        return self.start in ("random", "any")

    @property
    def pictures(self) -> int:
        """How many pictures grow, each from a start of its own."""
        return len(pictures.split(self.target))

    @property
    def update_inputs(self) -> int:
        return self.channels + self.channels * self.kernels * self.perceive[-1]

    @model_validator(mode="before")
    @classmethod
    def _check_pictures(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Names of our own pictures become their rows; a target sets the size of the grid. Files, arrays and functions
        are read before (settings.py)."""
        found = dict(values)
        if "rule" in found:
            found["rule"] = rules.checked_rule(found["rule"])
        target, start = found.get("target", ()), found.get("start", "")
        if not (isinstance(target, list | tuple) and len(target) == 0):
            rows = found["target"] = pictures.checked_pictures("target", target)
            first = pictures.split(rows)[0]
            found["height"], found["width"] = len(first), len(first[0])
        if not isinstance(start, str) or start not in ("", *pictures.STARTS):
            found["start"] = pictures.checked_pictures("start", start)
        return found

    def _check_start(self) -> None:
        drawn = isinstance(self.start, tuple)
        if drawn and self.rule != "grow":
            raise ValueError(f"rule is {self.rule}; only grow takes a start of its own; leave start out")
        if self.start == "any" and self.rule != "grow":
            raise ValueError(f"start is any; {self.rule} grows from random bits, not from a cell; use start=random")
        if self.start == "any" and self.boundary != "zeros":
            raise ValueError(
                "start is any; out of random bits on a torus nothing tells one cell from another, only a border does; "
                "use --set boundary=zeros"
            )
        if self.start == "any" and self.batch_size < 2:
            raise ValueError(
                f"start is any; its first sample is one full cell, the others are random bits, and batch_size is "
                f"{self.batch_size}; it must be at least 2; set --batch-size"
            )
        if self.pictures > 1 and not drawn:
            raise ValueError(
                f"target has {self.pictures} pictures and start is {self.start}; each needs a start of its own; give "
                "start as many pictures"
            )
        if isinstance(self.start, tuple):
            found = pictures.split(self.start)
            size = (len(found[0]), len(found[0][0]))
            if len(found) != self.pictures:
                raise ValueError(f"start has {len(found)} pictures, target {self.pictures}; give each one its start")
            if size != (self.height, self.width):
                raise ValueError(
                    f"start is {size[0]}×{size[1]} cells; the target has {self.height}×{self.width}; make them equal"
                )

    @model_validator(mode="after")
    def _check_layers(self) -> LogicConfig:
        if not all(1 <= gates <= MOST_GATES for gates in self.perceive + self.update):
            raise ValueError(
                f"perceive and update are lists of gate counts; each must be from 1 to {MOST_GATES:,}; fix the list"
            )
        if self.perceive[0] != POSITIONS - 1:
            raise ValueError(
                f"perceive starts with {self.perceive[0]}; its first layer pairs the 8 neighbours with the centre; "
                "start the list with 8"
            )
        if self.update[-1] != self.channels:
            raise ValueError(
                f"update ends with {self.update[-1]}; its last layer is the cell's next state; "
                f"end it with channels, {self.channels}"
            )
        if self.harden_full < self.harden_from:
            raise ValueError(
                f"harden_full is {self.harden_full}; it must not be below harden_from, {self.harden_from}; raise it"
            )
        if self.loss_steps and (
            sorted(set(self.loss_steps)) != list(self.loss_steps)
            or self.loss_steps[0] < 1
            or self.loss_steps[-1] != self.ca_steps
        ):
            raise ValueError(
                f"loss_steps is {list(self.loss_steps)}; it must rise from at least 1 to the last step, ca_steps, "
                f"{self.ca_steps}; fix the list"
            )
        if self.damage and not 1 <= self.damage_after < self.ca_steps:
            raise ValueError(
                f"damage_after is {self.damage_after}; cells need time to heal, so it must be from 1 to "
                f"{self.ca_steps - 1}, below ca_steps; set it"
            )
        if self.damage > min(self.height, self.width):
            raise ValueError(
                f"damage is {self.damage}; the grid has {self.height}×{self.width} cells; choose a square that fits"
            )
        if self.rule == "grow" and not self.target:
            raise ValueError("target is empty; rule grow needs a picture; set --target")
        if self.rule != "grow" and self.target:
            raise ValueError(f"rule is {self.rule}; only grow takes a picture; leave --target out")
        if self.target_channels > self.channels:
            raise ValueError(
                f"channels is {self.channels}; the target has {self.target_channels} colour channels; raise channels"
            )
        self._check_start()
        if self.follows_cells and self.channels != 1:
            raise ValueError(f"channels is {self.channels}; a Life cell is one bit; use --set channels=1")
        if self.follows_cells and self.boundary != "periodic":
            raise ValueError("boundary is zeros; Life's targets are those of a torus; use --set boundary=periodic")
        for label, sizes in (("perceive", self.perceive), ("update", (self.update_inputs, *self.update))):
            for inputs, outputs in pairwise(sizes):
                check_wirable(label, inputs, outputs)
        return self


def check_wirable(label: str, inputs: int, outputs: int) -> None:
    """`unique` wiring wants enough gates for its inputs and enough pairs for its gates."""
    pairs = inputs * (inputs - 1) // 2
    if 2 * outputs < inputs:
        raise ValueError(
            f"{label} has a layer of {outputs} gates on {inputs} inputs; they reach only {2 * outputs} of them; "
            f"make it at least {-(-inputs // 2)} gates"
        )
    if outputs > pairs:
        raise ValueError(
            f"{label} has a layer of {outputs} gates on {inputs} inputs; there are only {pairs} different pairs; "
            f"make it at most {pairs} gates"
        )


def layout(config: LogicConfig) -> Layout:
    """The logits of every layer by name, in the order of the flat vector: gate g owns elements 16·g to 16·g + 15."""
    perceive = [(f"perceive.{i}.logits", (config.kernels, gates, 16)) for i, gates in enumerate(config.perceive)]
    return perceive + [(f"update.{i}.logits", (gates, 16)) for i, gates in enumerate(config.update)]


def gate_count(config: LogicConfig) -> int:
    return config.kernels * sum(config.perceive) + sum(config.update)


# Kernels that start by seeing different neighbours, and gates that are decided at random, more and more of them, in the
# last 40 % of training (data.hardened). docs/automata.md has what this gains, and what it does not.
_HARDENED = {"residual": "mixed", "harden_from": 0.6, "harden_full": 0.95}
# Five steps of a preset end long before its gates harden. From 0 to 1: either can be set without the other.
_VERIFY_HARDENING = {"schedule_steps": 5, "harden_from": 0.0, "harden_full": 1.0}
# For wirings other than the published one: all of them start alike, close to undecided; gates harden at a falling rate.
_ROBUST = {
    "residual": "routed", "start_logit": 5.0, "harden_from": 0.6, "harden_full": 0.95, "schedule": "hold-cosine",
    "steps": 1000, "repair": 100,
}  # fmt: skip

_LIFE = LogicConfig(
    rule="life", height=3, width=3, boundary="periodic", channels=1, kernels=16, perceive=(8, 4, 2, 1),
    update=(*[128] * 17, 64, 32, 16, 8, 4, 2, 1), ca_steps=1, batch_size=20, lr=0.05, steps=3000,
    eval_every=100, checkpoint_every=500,
)  # fmt: skip
_BOARD = LogicConfig(
    rule="checkerboard", height=16, width=16, boundary="zeros", channels=8, kernels=16, perceive=(8, 4, 2),
    update=(*[256] * 10, 128, 64, 32, 16, 8, 8), ca_steps=20, batch_size=2, lr=0.05, steps=500,
    eval_every=50, eval_samples=8, checkpoint_every=100,
)  # fmt: skip

_ASYNC = override(
    _BOARD,
    {"height": 14, "width": 14, "update": (*[256] * 14, 128, 64, 32, 16, 8, 8), "ca_steps": 50, "fire_rate": 0.6,
     "batch_size": 1, "steps": 800},
)  # fmt: skip
_LIZARD = LogicConfig(
    rule="grow", target="lizard", height=20, width=20, start="centre", boundary="periodic", channels=128, kernels=4,
    perceive=(8, 4, 2, 1), update=(*[512] * 8, 256, 128), ca_steps=12, batch_size=1, lr=0.06, steps=3500,
    eval_every=50, checkpoint_every=500,
)  # fmt: skip
_LETTER = LogicConfig(
    rule="grow", target="letter", height=16, width=16, start="zeros", boundary="zeros", channels=64, kernels=4,
    perceive=(8, 4, 2), update=(*[512] * 8, 256, 128, 64), ca_steps=15, batch_size=1, lr=0.06, steps=3000,
    eval_every=50, checkpoint_every=500,
)  # fmt: skip

# A picture that is still there when it has grown: it counts at every step from the 9th on, or it would flicker where
# nobody looks. Soft gates find a way of greys that decided ones cannot go, so gates harden in the second half.
_STAYS = override(
    _LIZARD,
    {"target": "heart", "channels": 64, "update": (*[256] * 8, 128, 64), "residual": "spread", "ca_steps": 17,
     "loss_steps": tuple(range(9, 18)), "harden_from": 0.6, "harden_full": 0.9, "schedule": "hold-cosine",
     "steps": 2400, "repair": 200},
)  # fmt: skip
# … and heals: it is what all states end in, one cell and random bits alike, which are worse than any damage. The border
# tells cells where they are. It counts until long after it has grown, or slow waves would spoil what looked settled.
_HEALS = {
    "start": "any", "boundary": "zeros", "batch_size": 2, "update": (256, 256, 128, 64), "ca_steps": 32,
    "loss_steps": (18, 20, 22, 24, 25, 27, 29, 30, 31, 32), "lr": 0.05, "harden_full": 0.95, "repair": 0,
}  # fmt: skip

# 35 cells: two tiles of a sample; several steps: gradients travel through neighbours of neighbours.
_TINY = override(
    _BOARD,
    {"height": 5, "width": 7, "channels": 3, "kernels": 2, "update": (12, 6, 3), "ca_steps": 4, "batch_size": 3},
)
_TINY_PICTURE = override(
    _LETTER,
    {"target": ("RGB....", "WMC.YYY", "...RR..", "BB..GG.", "....CCC"), "channels": 4, "kernels": 2,
     "update": (16, 8, 4), "ca_steps": 4},
)  # fmt: skip

_TINY_DRAWING = override(_TINY_PICTURE, {"target": (".#.#.", "#####", ".###.", "..#.."), "start": "centre"})

TASKS = {
    "checkerboard": Task(
        presets={
            "full": _BOARD,
            "robust": override(_BOARD, _ROBUST),
            "small": override(_BOARD, {"update": (*[256] * 4, 128, 64, 32, 16, 8), "steps": 20, "eval_every": 10}),
        },
        summary="random bits on 16×16 cells settle into squares of 2",
        expect="hard loss 0 after about 250 of 500 steps",
        about={"robust": "learns from nearly every wiring, not only from the default one"},
        checks=(_TINY, override(_TINY, {"boundary": "periodic", "ca_steps": 2, "batch_size": 1})),
    ),
    "checkerboard-async": Task(
        presets={
            "full": _ASYNC,
            "small": override(_ASYNC, {"update": (*[256] * 4, 128, 64, 32, 16, 8), "ca_steps": 20, "steps": 20}),
        },
        summary="the same where a cell updates with chance 0.6 at each step",
        expect="hard loss 0 after about 400 of 800 steps",
        checks=(override(_TINY, {"fire_rate": 0.6}),),
    ),
    "life": Task(
        presets={
            "full": override(_LIFE, _HARDENED),
            "published": _LIFE,
            "small": override(
                _LIFE, {"kernels": 8, "update": (16, 16, 16, 8, 4, 2, 1), "steps": 100, "eval_every": 50}
            ),
        },
        summary="a cell learns Conway's rule from all 512 neighbourhoods",
        expect="hard loss 0 on all 512 patterns well before step 3,000",
        about={"published": "the recipe exactly as published"},
        checks=(override(_LIFE, {"kernels": 3, "update": (4, 2, 1), "batch_size": 7}),),
        verify=_VERIFY_HARDENING,
    ),
    "grow": Task(
        presets={
            "full": override(_LIZARD, {"residual": "spread"}),
            "published": _LIZARD,
            "persist": _STAYS,
            "regenerate": override(_STAYS, _HEALS),
            "small": override(_LIZARD, {"channels": 16, "update": (64, 32, 16), "ca_steps": 8, "steps": 30}),
        },
        summary="one cell grows into a picture: a lizard, or your --target",
        expect="hard loss 0 after about 1,900 of 3,500 steps",
        about={
            "published": "the recipe exactly as published",
            "persist": "a heart that stays when it has grown",
            "regenerate": "… and heals, whatever becomes of its cells",
        },
        one_batch=True,
        checks=(_TINY_DRAWING, override(_TINY_DRAWING, {"loss_steps": (1, 3, 4), "damage": 2, "damage_after": 2})),
    ),
    "letter": Task(
        presets={
            "full": override(_LETTER, _HARDENED),
            "published": _LETTER,
            "small": override(_LETTER, {"channels": 16, "update": (72, 36, 32, 16), "ca_steps": 8, "steps": 30}),
        },
        summary="an empty grid grows a picture of up to 8 colours",
        expect="4 wrong bits of 768 in the best checkpoint; the last is worse",
        about={"published": "the recipe exactly as published"},
        one_batch=True,
        checks=(_TINY_PICTURE,),
        verify=_VERIFY_HARDENING,
    ),
}
