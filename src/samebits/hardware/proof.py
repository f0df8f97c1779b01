"""Equal for every input, or a counter-example: two circuits on the same inputs, and a solver looks for a difference.

Needs python-sat (the extra `hardware`), whose CaDiCaL answers: "unsatisfiable" is the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from samebits.errors import SamebitsError
from samebits.hardware.network import Network, cone
from samebits.printing import shown

SOLVER = "cadical195"
MISSING = (
    "python-sat is not installed, and it is what proves; install it: pip install 'samebits[hardware]', or --no-prove"
)


def solver_is_there() -> bool:
    try:
        import pysat.solvers  # noqa: F401
    except ImportError:
        return False
    return True


class Solver:
    """Clauses over numbered variables; a literal is a variable or its negative. Clauses stay, questions come and go."""

    def __init__(self) -> None:
        try:
            from pysat.solvers import Solver as Sat
        except ImportError:
            raise SamebitsError(MISSING) from None
        self.sat: Any = Sat(name=SOLVER)
        self.variables = 0
        self.clauses = 0

    def __enter__(self) -> Solver:
        return self

    def __exit__(self, *_: object) -> None:
        self.sat.delete()

    def variable(self) -> int:
        self.variables += 1
        return self.variables

    def clause(self, *literals: int) -> None:
        self.clauses += 1
        self.sat.add_clause(literals)

    @cached_property
    def false(self) -> int:
        found = self.variable()
        self.clause(-found)
        return found

    def table(self, sources: Sequence[int], values: int) -> int:
        """A new variable that is bit p of `values` where bit i of p is the value of source i: a clause for every p."""
        found = self.variable()
        for pattern in range(1 << len(sources)):
            differs = [-source if pattern >> i & 1 else source for i, source in enumerate(sources)]
            self.clause(*differs, found if values >> pattern & 1 else -found)
        return found

    def differ(self, one: int, other: int) -> int:
        return self.table((one, other), 0b0110)

    def choose(self, asked: int, yes: int, no: int) -> int:
        """yes where asked, else no."""
        return self.table((asked, yes, no), 0xD8)

    def any_of(self, literals: Sequence[int]) -> int:
        """A literal that can only be true if one of these is."""
        found = self.variable()
        self.clause(-found, *literals)
        return found

    def possible(self, literal: int) -> bool:
        """Whether something makes it true; `holds` then says what."""
        return bool(self.sat.solve(assumptions=[literal]))

    def holding(self, literals: Mapping[Any, int]) -> dict[Any, bool]:
        """The values in what makes the last question true."""
        true = {literal for literal in self.sat.get_model() if literal > 0}
        return {
            name: (literal in true) if literal > 0 else (-literal not in true) for name, literal in literals.items()
        }

    def network(self, network: Network, inputs: Mapping[str, int], outputs: Iterable[str] = ()) -> dict[str, int]:
        """The literals of a network's outputs, or of some of them; what these do not depend on is left out."""
        wanted = list(outputs) or list(network.outputs)
        first, nodes = len(network.inputs), dict[int, int]()
        for node in cone(network, wanted):
            if node < first:
                nodes[node] = inputs[network.inputs[node]]
            else:
                sources, values = network.tables[node - first]
                nodes[node] = self.table([nodes[source] for source in sources], values)
        return {name: nodes[network.outputs[name]] for name in wanted}


class Inputs(dict[str, int]):
    """A variable for every name that is asked for."""

    def __init__(self, solver: Solver) -> None:
        super().__init__()
        self.solver = solver

    def __missing__(self, name: str) -> int:
        self[name] = self.solver.variable()
        return self[name]


@dataclass(frozen=True)
class CounterExample:
    """A pattern of all inputs, and the outputs that are wrong there."""

    inputs: dict[str, bool]
    wanted: dict[str, bool]
    found: dict[str, bool]

    @property
    def wrong(self) -> list[str]:
        return [name for name, value in self.wanted.items() if self.found[name] != value]


class NotEqualError(SamebitsError):
    """A file that computes something else: with a neighbourhood where it does, as a drawing of several lines."""

    def __init__(self, message: str, example: CounterExample, drawing: str) -> None:
        super().__init__(message)
        self.example, self.drawing = example, drawing


def check_names(what: str, found: Network, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """A file with other ports cannot be compared."""
    for kind, have, want in (("inputs", found.inputs, inputs), ("outputs", list(found.outputs), outputs)):
        if sorted(have) != sorted(want):
            other = sorted(set(have) ^ set(want))[:1] or ["a name twice"]
            raise SamebitsError(
                f"{what} has {len(have)} {kind} and the model has {len(want)}; {shown(other[0])} is not in both; "
                "export again"
            )


def compare(
    solver: Solver, inputs: Mapping[str, int], wanted: Mapping[str, int], found: Mapping[str, int]
) -> CounterExample | None:
    """Ask whether any output can differ."""
    differences = [solver.differ(wanted[name], found[name]) for name in wanted]
    if not solver.possible(solver.any_of(differences)):
        return None
    return CounterExample(*(solver.holding(part) for part in (inputs, wanted, {name: found[name] for name in wanted})))
