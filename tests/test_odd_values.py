"""Values that nobody types on purpose: refused in one line that prints, or shown so that they do no harm."""

from __future__ import annotations

import json
import shutil
import warnings

import pytest

import samebits as api
from samebits.config import TrainConfig, parse_setting, to_toml
from samebits.errors import SamebitsError
from samebits.families import discover
from samebits.printing import SHOWN, printable, shown
from samebits.report.graphs import Drawing, save_trees
from tests.helpers import samebits_here, sets, snapshot
from tests.test_bad_input import refused

TRAIN = ["train", "life", "--preset", "small", "--workers", "1", "--out", "new"]
ESCAPE = "\x1b]0;pwned\x07"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    place = tmp_path_factory.mktemp("odd")
    api.train("life", preset="small", workers=1, steps=2, out=place / "life")
    api.train("gpt", preset="small", workers=1, steps=2, eval_every=0, data="generated", out=place / "gpt")
    return place


@pytest.fixture
def place(base, tmp_path):
    shutil.copytree(base, tmp_path / "place")
    return tmp_path / "place"


FILES = {
    "a table for a value": "[config.lr]\nx = 1\n",
    "a list for a value": "[config]\nsteps = [1, 2]\n",
    "a number of 5,000 digits": f"[config]\nsteps = {'9' * 5000}\n",
    "a number of 400 digits": f"[config]\nsteps = 1{'0' * 400}\n",
    "nested brackets": f"[config]\nsteps = {'[' * 3000}{']' * 3000}\n",
    "nested tables": f"[config{'.a' * 3000}]\n",
    "steps infinite": "[config]\nsteps = inf\n",
    "a rate that is none": "[config]\nlr = nan\n",
    "steps true": "[config]\nsteps = true\n",
    "a date": "[config]\nsteps = 2026-11-16\n",
    "no table": "config = 3\n",
    "a list of tables": "[[config]]\nsteps = 1\n",
    "run no table": "run = 3\n[config]\nsteps = 1\n",
    "run of a table": "[run]\ntask = {a = 1}\n[config]\nsteps = 1\n",
    "a key that moves the cursor": f'[config]\n"{ESCAPE.encode("unicode_escape").decode()}" = 1\n'.replace(
        "\\x", "\\u00"
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_strange_config_is_refused(case, place):
    (place / "odd.toml").write_text(FILES[case])
    before = snapshot(place)
    refused(samebits_here(*TRAIN, "--config", "odd.toml", cwd=place))
    assert snapshot(place) == before


RUNS = {
    "family a list": ("family", 'family = ["logic_ca"]', "run.family"),
    "family unknown": ("family", 'family = "zzz"', "'zzz'"),
    "task a number": ("task", "task = 3", "run.task"),
    "a surplus key": ("task", 'task = "life"\nsurprise = 1', "surprise"),
    "bits a number": ("bits", "bits = 3", "made_with.bits"),
    "bits none": ("bits", "bits = []", "made_with.bits"),
    "bits huge": ("bits", f"bits = [{10**30}]", "made_with.bits"),
    "no schedule": ("schedule_steps", "", "schedule_steps"),
    "steps a table": ("steps", "steps = {a = 1}", "steps"),
    "a huge square": ("square", f"square = {10**20}", "square"),
    "a layer of too many gates": ("update", f"update = [{10**20}, 1]", "gate counts"),
    "too many layers": ("update", f"update = {[1] * 5000}", "update"),
    "digits": ("seed", f"seed = {'9' * 5000}", "cannot be read"),
    "brackets": ("seed", f"seed = {'[' * 3000}", "nested"),
    "batch of true": ("batch_size", "batch_size = true", "batch_size"),
    "a label with NUL": ("rule", 'rule = "li\\u0000fe"', "rule"),
}


@pytest.mark.parametrize("case", RUNS)
def test_an_altered_config_of_a_run_is_refused(case, place):
    key, line, word = RUNS[case]
    config = place / "life/config.toml"
    lines = config.read_text().splitlines()
    assert sum(old.startswith(f"{key} = ") for old in lines) == 1
    config.write_text("\n".join(line if old.startswith(f"{key} = ") else old for old in lines))
    before = snapshot(place)
    for verb in ("resume", "eval"):
        refused(samebits_here(verb, "life", cwd=place), word)
    assert snapshot(place) == before


ARGUMENTS = {
    "digits to set": [*TRAIN, *sets(steps="9" * 5000)],
    "brackets to set": [*TRAIN, *sets(steps="[" * 3000)],
    "steps beyond all": [*TRAIN, "--steps", str(10**400)],
    "a square beyond all": [*TRAIN, *sets(square=10**20)],
    "two lines to set": [*TRAIN, "--set", "lr=0.1\nseed=3"],
    "a line break to set": [*TRAIN, "--set", "lr=\r0.1"],
    "nobody's home": [*TRAIN[:-1], "~nosuchuser/run"],
    "nobody's data": ["train", "gpt", "--preset", "small", "--out", "new", "--data", "~nosuchuser/text"],
    "nobody's pairs": ["train", "boolean", "--preset", "small", "--out", "new", "--data", "~nosuchuser/text"],
    "nobody's picture": ["train", "grow", "--preset", "small", "--out", "new", "--target", "~nosuchuser/text"],
    "nobody's run": ["train", "gpt", "--preset", "small", "--out", "new", "--init-from", "~nosuchuser/text"],
    "a path with NUL": ["train", "gpt", "--preset", "small", "--out", "new", "--data", "a\0b"],
    "half a character": ["train", "gpt", "--preset", "small", "--out", "new", "--data", "a\udcffb"],
    "an out of half a character": [*TRAIN[:-1], "a\udcffb"],
    "a run of half a character": ["eval", "a\udcffb"],
    "a name too long": ["eval", "x" * 5000],
    "workers zzz": ["sample", "gpt", "--workers", "zzz"],
    "workers of 5,000 digits": ["sample", "gpt", "--workers", "9" * 5000],
    "workers of other digits": [*TRAIN, "--workers", "²"],
    "top-k beyond all": ["sample", "gpt", "--top-k", str(10**30)],
    "tokens beyond all": ["sample", "gpt", "--tokens", str(10**30)],
    "samples beyond all": ["sample", "gpt", "--samples", str(10**30)],
    "a seed beyond all": ["sample", "gpt", "--seed", str(10**30)],
    "temperature none": ["sample", "gpt", "--temperature", "nan"],
    "a grid of digits": ["render", "life", "--grid", f"{'9' * 5000}x3"],
    "a grid of other digits": ["render", "life", "--grid", "٣x٣"],
    "damage of digits": ["render", "life", "--damage", f"{'9' * 5000}x3@1-2"],
    "steps of a picture": ["render", "life", "--steps", str(10**30)],
    "a seed of a picture": ["render", "life", "--seed", str(10**30)],
    "a checkpoint of digits": ["eval", "life", "--checkpoint", "9" * 5000],
    "a checkpoint that moves the cursor": ["eval", "life", "--checkpoint", ESCAPE],
}  # fmt: skip


@pytest.mark.parametrize("case", ARGUMENTS)
def test_a_strange_argument_is_refused(case, place):
    before = snapshot(place)
    told = refused(samebits_here(*ARGUMENTS[case], cwd=place))
    assert told.isprintable()
    assert len(told) < 1000 or "x" * 5000 in told
    assert snapshot(place) == before


@pytest.mark.parametrize("family", discover().values(), ids=lambda family: family.name)
def test_every_whole_number_of_a_config_has_a_limit(family):
    """What has none reaches a kernel as whatever is left of it."""
    for name, field in family.config.model_fields.items():
        kinds = str(field.annotation)
        if "int" in kinds and "tuple" not in kinds:
            limits = [getattr(rule, key, None) for rule in field.metadata for key in ("le", "lt")]
            assert any(limit is not None for limit in limits), name


# Labels and texts that are printed or drawn.


def test_labels_are_drawn_as_they_are(tmp_path):
    """Between dollar signs matplotlib reads formulas; and it knows no control characters."""
    labels = ["$x$", r"$\frac{$", "a$b", ESCAPE, "\n", "€", r"\$"]
    tree = Drawing(labels, [-1, 0, 0, 0, 0, 0, 0], "input")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert save_trees(tmp_path / "trees.png", [[tree]], "$title").exists()


def test_labels_of_a_users_pairs_do_no_harm(tmp_path):
    words = ["$x$", ESCAPE, r"$\frac{$", "\x7f", "\x9b31m"]
    lines = [{"input": f"(f {word} {other})", "target": word} for word in words for other in words]
    (tmp_path / "pairs.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    small = ["--preset", "small", "--steps", "2", "--workers", "1"]
    done = samebits_here("train", "boolean", *small, "--data", "pairs.jsonl", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for command in (("eval", "run"), ("render", "run"), ("predict", "run", f"(f {ESCAPE} $x$)"), ("resume", "run")):
        done = samebits_here(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert printable(done.stdout, "\n") == done.stdout
        assert printable(done.stderr, "\n") == done.stderr


@pytest.mark.parametrize("label", ["a b", "(", ")", " x", "x\t", "", "\ud800", "\0", 3, None])
def test_labels_that_are_none_are_refused(label, tmp_path):
    graph = {"labels": [label], "children": [[]]}
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"input": graph, "target": "x"}) + "\n")
    words = ["train", "boolean", "--preset", "small", "--data", "pairs.jsonl", "--out", "run"]
    refused(samebits_here(*words, cwd=tmp_path), "pairs.jsonl, line 1", "labels")


@pytest.mark.parametrize(
    "line",
    ["[" * 5000, '{"input": ' * 3000, "9" * 5000, '{"input": "x", "target": "x", "split": {}}', "\ufeff{}", "{}"],
)
def test_pairs_that_are_none_are_refused(line, tmp_path):
    (tmp_path / "pairs.jsonl").write_text(line + "\n", encoding="utf-8")
    words = ["train", "boolean", "--preset", "small", "--data", "pairs.jsonl", "--out", "run"]
    refused(samebits_here(*words, cwd=tmp_path), "pairs.jsonl, line 1")


def test_what_cannot_be_shown_is_described():
    assert shown(10**5000) == "a int that cannot be shown (ValueError)"
    assert len(shown("x" * 1000)) == SHOWN
    assert shown(ESCAPE) == r"'\x1b]0;pwned\x07'"
    assert printable("a\nb\x1b\udcff\u202e") == r"a\nb\x1b\udcff\u202e"
    assert str(SamebitsError("a\nb")) == r"a\nb"


def test_a_config_with_every_character_is_read_back():
    import tomllib

    text = "".join(chr(code) for code in [*range(1, 0x300), 0x2028, 0x1F600])
    assert tomllib.loads(to_toml({"t": {"key": text}})) == {"t": {"key": text}}


@pytest.mark.parametrize("text", ["a\0", "\ud800"])
def test_a_config_holds_only_what_a_file_can(text):
    class Texts(TrainConfig):
        name: str = ""

    with pytest.raises(ValueError, match="whole characters"):
        Texts(name=text)
    assert parse_setting(f"name={text}") == ("name", text)
