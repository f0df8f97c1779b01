"""Random inputs for some minutes: python -m tests.fuzz --minutes 10 (or: make fuzz MINUTES=10).

Every input ends well, or in exit 2 with one message; a traceback, a crash or a hang is a finding, and then the exit
status is 1. All choices come from --seed. The log is Markdown, for docs/LOG.md. One input again: --once KIND:SEED
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from samebits.bench.records import machine
from samebits.compiler.cores import available_cores
from samebits.printing import printable
from tests.fuzz import bases as prepared
from tests.fuzz.child import attempted, prepare
from tests.fuzz.kinds import load
from tests.fuzz.parent import Found, Plan, fuzz

SEEDS = 10_000_000  # of one --seed, before those of the next
LINES = "\n"
COMMAND = "python -m tests.fuzz --once"


def table(found: Found) -> str:
    """What goes into docs/LOG.md."""
    lines = [
        "| kind | inputs | accepted | refused (exit 2) | tracebacks | crashes | hangs |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in [*sorted(found.tallies), "all"]:
        rows = [found.tallies[name]] if name != "all" else list(found.tallies.values())
        numbers = [sum(getattr(row, key) for row in rows) for key in ("inputs", "accepted", "refused")]
        numbers += [sum(row.sorts[sort] for row in rows) for sort in ("traceback", "crash", "hang")]
        lines.append(f"| {name} | " + " | ".join(f"{number:,}" for number in numbers) + " |")
    return "\n".join(lines)


def listed(found: Found) -> str:
    """Every distinct finding, with what shows it again."""
    lines = [f"{len(found.findings)} distinct findings."]
    for key, finding in sorted(found.findings.items()):
        said = (
            finding.told.splitlines()[: 1 if "Traceback" in finding.told else 3] if finding.sort == "traceback" else []
        )
        lines.append(
            f"- {finding.sort} {finding.what} at {finding.where}, {found.times[key]}×: `{COMMAND} {finding.input}`"
        )
        lines += [f"  {printable(line)[:200]}" for line in said]
    return "\n".join(lines)


def run(given: argparse.Namespace) -> bool:
    """Whether nothing was found."""
    load(given.also)
    facts = machine()
    with tempfile.TemporaryDirectory(prefix="samebits-fuzz-") as name:
        made = prepared.make(Path(name))
        until = time.time() + 60 * given.minutes
        plan = Plan(made.folder, until, given.children, given.limit, tuple(given.kinds), tuple(given.also))
        found = fuzz(plan, given.seed * SEEDS)
    print(
        f"Fuzzing for {given.minutes:g} minutes, seed {given.seed}, {given.children} processes, {facts['cpu']}, commit "
        f"{facts['commit']}: {found.inputs:,} inputs, {found.inputs / found.seconds:.0f} a second.\n"
    )
    print(table(found))
    print(f"\n{listed(found)}" if found.findings else "\nEvery input ended well or in one message.")
    if given.details:
        told = [f"## {one.input}\n{printable(one.told, keep=LINES)}\n" for one in found.findings.values()]
        given.details.write_text("\n".join(told), encoding="utf-8")
    if given.slow:
        spent = sorted((tally.seconds / max(1, tally.inputs), name) for name, tally in found.tallies.items())
        print("\n".join(f"{name}: {1e3 * each:.1f} ms an input" for each, name in spent), file=sys.stderr)
    return not found.findings


def once(inputs: list[str], also: list[str]) -> bool:
    """Inputs again, one after the other in this process, with all that they say."""
    prepare()
    load(also)
    good = True
    with tempfile.TemporaryDirectory(prefix="samebits-fuzz-") as name, prepared.short_work():
        made = prepared.make(Path(name))
        for each in inputs:
            kind, _, seed = each.partition(":")
            print(f"--- {each}", flush=True)
            result = attempted(kind, int(seed), made)
            print(result.finding.told if result.finding else result.outcome.told)
            print(f"accepted {result.outcome.accepted}, refused {result.outcome.refused}", flush=True)
            good = good and result.finding is None
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=[], help="only these")
    parser.add_argument("--children", type=int, default=available_cores(), help="processes; default: one a core")
    parser.add_argument("--limit", type=float, default=120, help="seconds an input may take")
    parser.add_argument("--also", nargs="+", default=[], help="modules that register further kinds")
    parser.add_argument("--once", nargs="+", metavar="KIND:SEED", help="do these inputs again, and show them")
    parser.add_argument("--details", type=Path, help="a file for the whole of every finding")
    parser.add_argument("--slow", action="store_true", help="also say how long each kind takes")
    given = parser.parse_args()
    unknown = set(given.kinds) - set(load(given.also))
    if unknown:
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    sys.exit(0 if (once(given.once, given.also) if given.once else run(given)) else 1)


if __name__ == "__main__":
    main()
