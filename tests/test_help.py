"""What the command line says of itself: tasks, keys and --help, all of it readable at 80 columns."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import typer

from samebits.cli import app, family_options
from samebits.cli.examples import EXAMPLES
from samebits.cli.keys import range_of
from samebits.errors import SamebitsError
from samebits.families import discover, find_preset
from samebits.training.parts import Option
from tests.helpers import samebits_here

TASKS = [task for family in discover().values() for task in family.tasks]
VERBS = typer.main.get_command(app).commands


def said(*words, cwd):
    done = samebits_here(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_line_a_task_and_none_is_cut(tmp_path):
    lines = said("tasks", cwd=tmp_path).split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines] == TASKS
    assert max(map(len, lines)) <= 80
    summaries = [about.summary for family in discover().values() for about in family.tasks.values()]
    assert [line.split(maxsplit=1)[1] for line in lines] == summaries


def test_a_task_shows_its_presets(tmp_path):
    shown = said("tasks", "checkerboard", cwd=tmp_path)
    for word in ("full", "robust", "small", "48,640", "500"):
        assert word in shown
    assert samebits_here("tasks", "checkers", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("task", TASKS)
def test_every_key_is_explained(task, tmp_path):
    shown, config = said("keys", task, cwd=tmp_path), find_preset(task, "full")
    assert max(map(len, shown.splitlines())) <= 80
    for key, field in type(config).model_fields.items():
        assert field.description, key
        assert range_of(field), key
        assert re.search(rf"^[* ] {key} = ", shown, re.MULTILINE), key


def test_a_key_has_its_default_its_range_its_meaning_and_its_price(tmp_path):
    shown = said("keys", "gpt", "lr", "batch_size", "--preset", "small", cwd=tmp_path)
    assert re.search(r"^  lr = 0\.001 +above 0 to 1e\+38$", shown, re.MULTILINE)
    assert re.search(r"^  batch_size = 4 +1 to 65,536$", shown, re.MULTILINE)
    assert "samples a step. Costs time, in proportion" in shown
    assert "steps =" not in shown
    refused = samebits_here("keys", "gpt", "learning_rate", cwd=tmp_path)
    assert (refused.returncode, "no config key 'learning_rate'" in refused.stderr) == (2, True)


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_flags_as_flags_and_examples(verb, tmp_path):
    shown = said(verb, "--help", cwd=tmp_path)
    assert shown.startswith(f"Usage: samebits {verb}")
    assert "<bool>" not in shown
    assert all(f"    {line}\n" in f"{shown}\n" for line in EXAMPLES[verb])


def test_options_of_families_are_config_keys_or_arguments():
    for family in discover().values():
        assert set(family.options) <= set(family_options.VERBS)
        assert set(family.options.get("train", {})) <= set(family.config.model_fields)


def test_families_share_an_option_and_each_says_what_it_is_for(tmp_path):
    shown = " ".join(said("train", "--help", cwd=tmp_path).split())
    assert "--data FILE gpt: a text, or a folder of texts; graph: your pairs" in shown


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"steps": Option("")},
            "the family graph adds --steps to samebits train, which has that option already",
        ),
        ({"data": Option("", int)}, "the families gpt and graph add --data to samebits train, each with another kind"),
    ],
    ids=["of the verb", "of another kind"],
)
def test_an_option_that_is_taken_is_refused(options, told, monkeypatch):
    families = {**discover(), "graph": replace(discover()["graph"], options={"train": options})}
    monkeypatch.setattr(family_options, "discover", lambda: families)
    verb = typer.main.get_command(app).commands["train"]
    with pytest.raises(SamebitsError, match=told):
        verb.get_params(typer.Context(verb))
