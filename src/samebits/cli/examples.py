"""What `samebits VERB --help` shows below its options. A test types all of it, in this order; DIR is the run before."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "tasks": ("samebits tasks", "samebits tasks grow"),
    "keys": ("samebits keys gpt", "samebits keys life --preset small", "samebits keys gpt lr schedule"),
    "train": (
        "samebits train life --preset small",
        "samebits train checkerboard --steps 300 --set lr=0.03 --out runs/mine",
        "samebits train gpt --data FILE --sample-every 100",
    ),
    "sample": (
        'samebits sample DIR --prompt "ROMEO:" --tokens 100',
        "samebits sample DIR --temperature 0 --samples 3",
    ),
    "resume": ("samebits resume DIR", "samebits resume DIR --workers 1"),
    "eval": ("samebits eval DIR", "samebits eval DIR --json", "samebits eval DIR --data FILE --unknown drop"),
    "predict": ("samebits train boolean --preset small", 'samebits predict DIR "(and x (or x y))"'),
    "render": ("samebits train grow --preset small", "samebits render DIR --steps 20 --grid 32x32"),
    "circuit": ("samebits circuit DIR", "samebits circuit DIR --minimise 1"),
    "export": ("samebits export DIR --to c", "samebits export DIR --to verilog --grid 4x4"),
    "serve": ("samebits serve", "samebits serve runs"),
    "sweep": ("samebits sweep life --preset small --set lr=0.03,0.05 --steps 10",),
    "compare": (
        "samebits train life --preset small --out runs/one",
        "samebits train life --preset small --seed 1 --out runs/other",
        "samebits compare runs/one runs/other",
    ),
    "verify": ("samebits verify life --preset small", "samebits verify boolean --workers 1,2"),
    "bench": ("samebits bench checkerboard --workers 1,2 --peers", "samebits bench distances"),
    "profile": ("samebits profile checkerboard --preset small",),
    "doctor": ("samebits doctor",),
}


def epilog(verb: str) -> str | None:
    """As click wants it: \\b keeps its lines as they are."""
    lines = EXAMPLES.get(verb)
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines) if lines else None
