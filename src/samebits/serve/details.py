"""What the page of one run shows besides its curve: config, checkpoints, pictures, what to type next, and its model."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from samebits import api
from samebits.errors import SamebitsError
from samebits.families.graph.expressions import Tree, text_of
from samebits.families.graph.grammar import fits
from samebits.families.graph.model import GraphModel, Rewriting
from samebits.families.graph.series import make_series, teacher
from samebits.families.graph.verbs import judged
from samebits.report.graphs import places
from samebits.runs import checkpoint as checkpoints
from samebits.runs.runfolder import CONFIG, RunFolder
from samebits.serve.runs import Summary, pictures
from samebits.training.contract import parameter_count

MOST_EXPRESSION = 10_000  # characters
EXAMPLES = {
    "boolean": "(and x (or x (not F)))",
    "peano": "(add (S (S 0)) (S 0))",
    "arithmetic": "(add 2 (mul 3 1))",
    "algebra": "(mul (add x 0) 1)",
    "derivative": "(mul x (sin x))",
}


def details(summary: Summary, path: Path) -> dict[str, Any]:
    """A run's page; of a damaged run, what can still be read of it."""
    found: dict[str, Any] = {"run": summary.as_json(), "pictures": list(pictures(path)), "commands": commands(summary)}
    file = path / CONFIG
    if file.is_file():
        found["config_file"] = file.read_bytes()[: 1 << 16].decode("utf-8", "replace")
    if summary.problem:
        return found
    run = api.open_run(path)
    config: Any = run.config
    steps = checkpoints.steps_saved(run.checkpoints)
    found |= {
        "config": {key: value for key, value in run.values.items() if value is not None},
        "parameters": parameter_count(run.family, run.config),
        "checkpoints": steps,
        "sizes": [[name, list(shape)] for name, shape in run.family.layout(run.config)][:200],
        "can": what_it_can(run) if steps else "",
    }
    if found["can"] == "graph":
        found["example"] = EXAMPLES.get(config.rule, "") if config.data is None else ""
    if found["can"] == "gpt":
        found["context"] = config.context
    return found


def what_it_can(run: RunFolder) -> str:
    """Which part of the page there is for its family's model."""
    return {"logic_ca": "automaton", "gpt": "gpt", "graph": "graph"}.get(run.family.name, "")


def commands(summary: Summary) -> list[str]:
    """What to type next, in the folder that samebits serve was started in."""
    folder = shlex.quote(summary.path)
    if summary.problem:
        return []
    found = []
    if not summary.live and summary.step < summary.steps:
        found.append(f"samebits resume {folder}")
    elif not summary.live:
        found.append(f"samebits resume {folder} --steps {2 * summary.steps}")
    if not summary.hash:
        return found
    found.append(f"samebits eval {folder}")
    found += {
        "logic_ca": [f"samebits render {folder}", f"samebits circuit {folder}", f"samebits export {folder} --to html"],
        "gpt": [f'samebits sample {folder} --prompt "def "', f"samebits export {folder}"],
        "graph": [f"samebits render {folder}"],
    }.get(summary.family, [])
    return found


def rewritten(model: GraphModel, expression: str) -> dict[str, Any]:
    """An expression rewritten by the network, every step drawn and judged."""
    if len(expression) > MOST_EXPRESSION:
        raise SamebitsError(
            f"the expression has {len(expression)} characters; it may have {MOST_EXPRESSION}; shorten it"
        )
    found = model.predict(expression, workers=1)
    verdicts = verdicts_of(model, found)
    steps = [
        {**drawn(tree), "text": text, "verdict": verdict, "instead": instead}
        for tree, text, (verdict, instead) in zip(found.trees, found.texts, verdicts, strict=True)
    ]
    return {"steps": steps, "ended": found.ended, "judged": judged(model.config, found)}


def drawn(tree: Tree) -> dict[str, Any]:
    """A tree with a place for each of its nodes."""
    return {"labels": tree.labels, "parents": tree.parents, "places": places(tree.parents)}


def verdicts_of(model: GraphModel, found: Rewriting) -> list[tuple[str, str]]:
    """Of every tree: "right" or "wrong" by what the rules make of the one before, and that where it differs. "" where
    there are no rules, or they are not made for this expression."""
    config = model.config
    if config.data is not None or not fits(config, found.trees[0]):
        return [("", "")] * len(found.trees)
    step, verdicts = teacher(config), [("", "")]
    for before, after in zip(found.trees, found.trees[1:], strict=False):
        try:
            series = make_series(step, before, 10 * config.most_steps).trees
        except (SamebitsError, LookupError, ValueError):
            # After a wrong step the rules may come to no end, or the tree is no expression: "mul" without operands.
            verdicts.append(("wrong", ""))
            continue
        wanted = series[1] if len(series) > 1 else before
        verdicts.append(("right", "") if after == wanted else ("wrong", text_of(wanted)))
    return verdicts
