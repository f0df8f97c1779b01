"""What a family may bring besides training: reports, command-line options, its part of the web page, benchmarks.

What a part needs is imported when it is used: training loads no benchmark. Such things are named "module:attribute".
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from samebits.arithmetic.arrays import Array
from samebits.config import TrainConfig
from samebits.devices.cpu.workers import Workers


class Model(Protocol):
    """What every trained model has, beside what its family gives it."""

    config: Any
    weights: Array  # the flat vector
    constants: Mapping[str, Array]
    params: dict[str, Array]  # by name, constants too


C_contra = TypeVar("C_contra", bound=TrainConfig, contravariant=True)


class MakeModel(Protocol[C_contra]):
    """A model to use from Python. `constants` holds the arrays of the family's mutable state too."""

    def __call__(self, config: C_contra, weights: Array, constants: Mapping[str, Array]) -> Model: ...


@dataclass
class Report:
    """What `samebits eval` prints, and curves to plot, if there are any. A column that is empty in every row goes."""

    rows: list[dict[str, Any]]  # plain numbers: --json prints them as they are
    formats: Mapping[str, str] = field(default_factory=dict)  # by column: a format of Python's; ".2%" also of a share
    heading: str = ""  # of the table, where it is not the task's name
    curves: dict[str, Array] = field(default_factory=dict)
    title: str = ""
    x: str = ""
    y: str = ""
    plot: str = "curves"  # name of the picture


class Exported(NamedTuple):
    """What `samebits export` wrote, and what there is to say of it."""

    paths: Sequence[Path]
    lines: Sequence[str] = ()


class Glimpse(NamedTuple):
    """A text that shows what a model can do at a step of its training."""

    show: Callable[[Any, Any], str]  # (model, device)
    every: Callable[[Any], int]  # config → steps between two of them; 0: none


class Start(NamedTuple):
    """Weights that a run begins with, such as those of another run (runs/init_from.py)."""

    # (config, layout, constants, params): writes into `params`, which hold those of `init`, before the first step
    fill: Callable[[Any, Sequence[tuple[str, tuple[int, ...]]], Mapping[str, Array], Any], None]
    # (config, folder of the run's own checkpoint): the config to resume with. Whatever `fill` read is in that
    # checkpoint, and the files it came from may be gone.
    resumed: Callable[[Any, Path], Any]


class Option(NamedTuple):
    """A command-line option that one family adds to a verb: `--KEY`, with dashes for underscores."""

    help: str
    kind: type = str  # str, int, float, Path, or bool: a flag without a value
    metavar: str | None = None
    flags: str = ""  # where it is not --KEY: "--prove/--no-prove"
    bounds: tuple[int, int] | None = None  # of an int, both included
    parse: Callable[[str], Any] | None = None  # the text that was typed → the value; raises SamebitsError


@dataclass(frozen=True)
class Page:
    """What `samebits serve` shows of a run of this family, besides what it shows of every run."""

    # How the page shows the model: "automaton", "rewriting" or "text" (web/run.js); empty: not at all.
    part: str = ""
    # config → facts for the page, by name: texts and numbers. The part reads its own from them.
    details: Callable[[Any], Mapping[str, Any]] = field(default=lambda config: {})
    # What the part asks the server for, by the last word of the address: "module:function", which returns a dict for
    # JSON. "automaton" is called with (model, name of the task), "rewrite" with (model, expression).
    answers: Mapping[str, str] = field(default_factory=dict)
    # "module:function", model → TextModel: then the run answers OpenAI's clients, and the part "text" works.
    texts: str = ""


class TokenStream(Protocol):
    """Tokens as text, as they come; a character may take several."""

    def feed(self, token: int) -> str: ...

    def finish(self) -> str: ...


class Vocabulary(Protocol):
    """What the tokens of a model are."""

    @property
    def size(self) -> int: ...

    @property
    def end(self) -> int | None:
        """The token that ends a text, where there is one."""

    @property
    def pieces(self) -> Sequence[bytes]:
        """Every token as the bytes of its text."""

    def decode(self, tokens: Array) -> str: ...

    def stream(self) -> TokenStream: ...


NO_TOKEN = -1  # of TextBatch.step: the place reads its prompt


class TextBatch(Protocol):
    """Places for texts of one model that are written together, a token each a step."""

    logits: Array  # (places, vocabulary): of the last step

    def put(self, place: int, tokens: Sequence[int], how: Any, sample: int, drawn: int) -> None:
        """A text takes a place. `tokens`: all so far, of which the last `drawn` were drawn. `how`: of `draw`."""

    def step(self, active: Array) -> Array:
        """By place, the next token of those that are active, or NO_TOKEN."""


class TextModel(Protocol):
    """A model that writes text, as serve/batcher.py and serve/openai.py use it."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def context(self) -> int:
        """The most tokens of a prompt."""

    @property
    def place_bytes(self) -> int:
        """Memory that a place of a batch takes."""

    def encode(self, prompt: str) -> list[int]:
        """At least one token; raises SamebitsError for a text that the model cannot read."""

    def draw(self, temperature: float, top_p: float, top_k: int, seed: int) -> Any:
        """How tokens are drawn; what TextBatch.put takes."""

    def logits(self, tokens: Sequence[int], workers: Workers) -> Array:
        """(tokens, vocabulary): of the token that follows each."""

    def batch(self, places: int, workers: Workers) -> TextBatch: ...


class Peer(NamedTuple):
    """Another system that trains the same model; see bench/peers.py for what its module has to have."""

    name: str
    module: str
    needs: tuple[str, ...]  # packages
    options: Mapping[str, Any] = {}
    distributed: Mapping[str, Any] | None = None  # options for several processes, where it can do that
    tolerance: float = 1e-4  # of its first losses, relative: other orders of addition, or numbers with fewer digits


class Measurement(NamedTuple):
    """Something that `samebits bench NAME` measures and that is not training."""

    summary: str
    measure: str  # "module:function", worker counts → bench.cases.Found; it raises when answers disagree


@dataclass(frozen=True)
class Bench:
    flops: Callable[[Any], float] | None = None  # floating-point operations of one training step
    # What no implementation of a training step can do without: its matrix products, as (m, k, n, how many), or else the
    # bytes its kernels read and write if none were in the first-level cache.
    products: Callable[[Any], Sequence[tuple[int, int, int, int]]] | None = None
    traffic: Callable[[Any], float] | None = None
    # What a step works through, for the progress line: a word in the plural, and how many of them. Of any config.
    work: tuple[str, Callable[[Any], float]] | None = None
    peers: tuple[Peer, ...] = ()
    gpu_peers: tuple[Peer, ...] = ()
    peers_lack: Mapping[str, Any] = field(default_factory=dict)  # settings of what no peer does alike: draws of its own
    measurements: Mapping[str, Measurement] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)  # profile: names of posted functions that are no gradient


def find(name: str) -> Any:
    """What "module:attribute" names."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
