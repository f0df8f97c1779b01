"""User data, line by line, and the command line on small runs."""

from __future__ import annotations

import json
import shutil
from itertools import product

import numpy as np
import pytest
from PIL import Image

import samebits as api
from samebits.config import override
from samebits.errors import SamebitsError
from samebits.families import find_preset
from samebits.families.graph import example, userdata
from samebits.families.graph.data import load, pairs_of
from samebits.families.graph.expressions import parse, text_of
from samebits.report.graphs import places
from tests.helpers import samebits_here, snapshot, weights_line

SMALL = ["--preset", "small", "--workers", "1"]


def lines(*pairs, **more):
    return "\n".join(json.dumps({"input": a, "target": b, **more}) for a, b in pairs)


# Swap the operands of f; double g. Enough different inputs for both splits.
NAMES = "abcdefghij"
SWAPS = [(f"(f {a} {b})", f"(done {b} {a})") for a in NAMES for b in NAMES if a != b]


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(lines(*SWAPS))
    return path


def prepared(path, **settings):
    return userdata.prepare(override(find_preset("boolean", "small"), {"data": str(path), **settings}))


def test_labels_heads_and_hash_follow_from_the_file(pairs):
    config = prepared(pairs)
    assert config.labels == tuple(sorted({*NAMES, "f", "done"}))
    assert "done" in config.relabels
    assert len(config.data_hash) == 64
    found = userdata.read(config).series
    assert len(found["train"]) + len(found["unseen"]) == len(SWAPS)
    assert found["unseen"]
    store = pairs_of(config, found["train"])
    assert len(store.nodes) - 1 >= len(found["train"])


def test_user_pairs_are_learned(pairs, tmp_path):
    run = api.train("boolean", preset="small", data=str(pairs), steps=300, width=32, out=tmp_path / "run", workers=2)
    series = userdata.read(run.model.config).series["unseen"]
    answers = run.model.predict([one.trees[0] for one in series], 1)
    assert np.mean([a.trees[-1] == one.trees[-1] for a, one in zip(answers, series, strict=True)]) > 0.8


def test_shared_nodes_splits_and_blank_lines_are_read(tmp_path):
    path = tmp_path / "pairs.jsonl"
    shared = {"labels": ["and", "x"], "children": [[1, 1], []]}
    path.write_text(
        lines((shared, "x"), split="train") + "\n\n" + lines(("(or y y)", "y"), split="larger") + "\n"
        + lines(("x", "x"), split="unseen")
    )  # fmt: skip
    found = userdata.read(prepared(path)).series
    assert [text_of(one.trees[0]) for one in found["train"]] == ["(and x x)"]
    assert [len(found[split]) for split in ("train", "unseen", "larger")] == [1, 1, 1]
    assert len(found["unseen"][0].trees) == 1
    assert load(prepared(path)).train.nodes[-1] == 4


BAD = {
    "not JSON": ("{", "line 1: not JSON", "character"),
    "not an object": ("[1]", "line 1: it must be an object"),
    "no target": ('{"input": "x"}', "line 1: it must be an object"),
    "unknown key": (lines(("x", "x"), weight=2), "line 1: it must be an object"),
    "malformed": (lines(("x", "x"), ("(and x", "x")), "line 2: input: expression", "<here>"),
    "malformed target": (lines(("x", ")")), "line 1: target: expression"),
    "empty": (lines(("", "x")), "line 1: input: expression is empty"),
    "empty graph": (lines(({"labels": [], "children": []}, "x")), "line 1: input: graph is empty"),
    "cycle": (lines(({"labels": ["a", "b"], "children": [[1], [0]]}, "x")), "line 1: input: graph has a cycle"),
    "too large": (lines(("(f" + " x" * 200 + ")", "x")), "line 1: input", "160 nodes", "most_nodes"),
    "number": (lines((3, "x")), "line 1: input: graph: it must be"),
    "contradiction": (lines(("(f x)", "x"), ("y", "y"), ("(f x)", "y")), "line 3", "line 1", "another target"),
    "unfinished": (lines(("(f (f x))", "(f x)"), ("(f x)", "x")), "line 2", "target of line 1", "stay"),
    "split": (lines(("x", "x"), split="test"), "line 1: split is 'test'", "train, unseen, larger"),
    "nothing": ("\n\n", "no pair to train on"),
    "no train": (lines(("x", "x"), split="unseen"), "no pair to train on"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_by_line(name, tmp_path):
    text, *words = BAD[name]
    (tmp_path / "bad.jsonl").write_text(text)
    before = snapshot(tmp_path)
    done = samebits_here("train", "boolean", *SMALL, "--data", "bad.jsonl", "--out", "new", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    message = done.stderr.strip().splitlines()
    assert len(message) == 1
    assert message[0].startswith("samebits: bad.jsonl")
    for word in words:
        assert word in message[0]
    assert snapshot(tmp_path) == before


def test_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, word in (("none.jsonl", "cannot read"), ("binary", "UTF-8")):
        done = samebits_here("train", "peano", *SMALL, "--data", name, "--out", "new", cwd=tmp_path)
        assert done.returncode == 2
        assert word in done.stderr


def test_a_changed_file_stops_a_resumed_run(pairs, tmp_path):
    api.train("boolean", preset="small", data=str(pairs), steps=4, out=tmp_path / "run")
    pairs.write_text(pairs.read_text().replace('"(f a b)"', '"(f a a)"'))
    for steps in (4, 8):
        with pytest.raises(SamebitsError, match=r"pairs\.jsonl has changed since training began"):
            api.resume(tmp_path / "run", steps=steps)
    pairs.write_text(lines(*SWAPS))
    assert api.resume(tmp_path / "run", steps=8).outcome.step == 8


def test_an_edited_file_is_read_anew_in_the_same_process(pairs):
    before = prepared(pairs)
    pairs.write_text(lines(("(f a b)", "(done b a)")))
    after = prepared(pairs)
    assert after.data_hash != before.data_hash
    assert after.labels == ("a", "b", "done", "f")
    assert load(after).train.nodes[-1] == 6


def test_a_run_finds_its_pairs_from_another_folder(pairs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    api.train("boolean", preset="small", data=pairs.name, steps=4, out="run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert api.resume("../run", steps=8).outcome.step == 8
    assert api.load("../run").config.data == str(pairs)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("trained")
    done = samebits_here("train", "boolean", *SMALL, "--steps", 120, "--out", "run", cwd=place)
    assert done.returncode == 0, done.stderr
    assert weights_line(done.stdout)
    assert "next: samebits render run" in done.stdout
    done = samebits_here("train", "life", *SMALL, "--steps", 2, "--out", "cells", cwd=place)
    assert done.returncode == 0, done.stderr
    return place


def test_predict_shows_every_step(trained):
    done = samebits_here("predict", "run", "(and x x)", cwd=trained)
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert rows[0] == "0  (simplify (and x x))"
    assert [row.split()[0] for row in rows[:-1]] == [str(i) for i in range(len(rows) - 1)]
    assert rows[-1].startswith(("right: ", "wrong: by the rules it is x", "not finished: "))
    assert "do not rely on this: " in samebits_here("predict", "run", "(simplify (simplify x))", cwd=trained).stdout


def test_eval_reports_every_split_beside_the_baselines(trained):
    done = samebits_here("eval", "run", "--workers", "2", cwd=trained)
    assert done.returncode == 0, done.stderr
    for word in ("train", "unseen", "larger", "network", "copy the input", "always", "mean edit distance", "exact"):
        assert word in done.stdout
    assert done.stdout == samebits_here("eval", "run", "--workers", "1", cwd=trained).stdout


def test_render_draws_answers_and_a_series(trained, tmp_path):
    done = samebits_here("render", "run", "--out", tmp_path / "p", cwd=trained)
    assert done.returncode == 0, done.stderr
    for name in ("answers.png", "series.png"):
        with Image.open(tmp_path / "p" / name) as image:
            assert min(image.size) > 200
            assert len(set(image.convert("L").resize((64, 64)).tobytes())) > 10  # something is drawn


def test_render_shows_training_pairs_where_nothing_is_held_back(tmp_path):
    (tmp_path / "pairs.jsonl").write_text(lines(("(f a b)", "(done b a)"), ("(f b a)", "(done a b)"), split="train"))
    done = samebits_here(
        "train", "boolean", *SMALL, "--steps", 4, "--data", "pairs.jsonl", "--out", "run", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    done = samebits_here("render", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("answers.png", "series.png"):
        with Image.open(tmp_path / "run/pictures" / name) as image:
            assert min(image.size) > 50


REFUSED = {
    "unknown symbol": (["predict", "run", "(and x w)"], "'w'", "known"),
    "malformed": (["predict", "run", "(and x (or y z)"], "never closed", "<here>"),
    "empty": (["predict", "run", ""], "empty"),
    "an opening alone": (["predict", "run", "("], "an operator must follow", "(<here>"),
    "too large": (["predict", "run", "(and" + " x" * 300 + ")"], "160 nodes"),
    "operands": (["predict", "run", "(not x y)"], "not has 2 operands", "takes 1"),
    "an automaton": (["predict", "cells", "(and x y)"], "logic_ca run", "samebits eval"),
    "grid": (["render", "run", "--grid", "9x9"], "--grid is not for boolean", "leave it out"),
    "steps": (["render", "run", "--steps", "3"], "--steps is not for boolean"),
    "soft": (["render", "run", "--soft"], "--soft is not for boolean"),
    "async": (["render", "run", "--async"], "--async is not for boolean"),
    "circuit": (["circuit", "run"], "graph run", "samebits eval"),
    "larger": (["train", "boolean", "--set", "larger=[3, 8]", "--out", "new"], "larger begins at 3", "raise larger"),
    "operators": (["train", "boolean", "--set", "operators=[4, 2]", "--out", "new"], "operators is [4, 2]"),
    "random graphs": (
        ["train", "boolean", "--set", "random_graphs=[20, 3]", "--out", "new"],
        "random_graphs is [20, 3]", "edges from nodes − 1", "--set random_graphs=",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name, trained, tmp_path):
    shutil.copytree(trained, tmp_path / "place")
    before = snapshot(tmp_path)
    args, *words = REFUSED[name]
    done = samebits_here(*args, cwd=tmp_path / "place")
    assert done.returncode == 2, (done.stdout, done.stderr)
    told = [line for line in done.stderr.splitlines() if not line.startswith("compiling kernels")]
    assert len(told) == 1, done.stderr
    for word in words:
        assert word in done.stderr
    assert snapshot(tmp_path) == before


def test_a_drawn_tree_keeps_the_order_of_leaves_and_centres_parents():
    found = places([-1, 0, 1, 1, 0])
    assert found == [(1.25, 0), (0.5, 1), (0.0, 2), (1.0, 2), (2.0, 1)]


def test_the_task_rewrite_is_for_pairs_of_ones_own(tmp_path):
    (tmp_path / "mine.jsonl").write_text(lines(("(f a b)", "(done b a)"), ("(f b a)", "(done a b)"), split="train"))
    for words in (("--data", "mine.jsonl"), ()):
        run = f"run{len(words)}"
        assert (
            samebits_here("train", "rewrite", *SMALL, "--steps", 4, *words, "--out", run, cwd=tmp_path).returncode == 0
        )
    assert "your pairs of mine.jsonl, step-4" in samebits_here("eval", "run2", cwd=tmp_path).stdout
    assert "rewrite, step-4" in samebits_here("eval", "run0", cwd=tmp_path).stdout
    assert samebits_here("predict", "run2", "(f a a)", cwd=tmp_path).stdout.lstrip().startswith("0  (f a a)\n")
    assert (
        samebits_here("predict", "run0", "(not (not x))", cwd=tmp_path).stdout.lstrip().startswith("0  (not (not x))\n")
    )


def test_the_example_moves_negations_to_the_symbols_and_keeps_what_a_formula_says():
    def value(tree, node, of):
        label, below = tree.labels[node], [value(tree, child, of) for child in tree.children[node]]
        if not below:
            return of[label]
        return not below[0] if label == "not" else all(below) if label == "and" else any(below)

    rows = [json.loads(line) for line in example.pairs().splitlines()]
    assert len(rows) > 150
    for row in rows:
        before, after = (parse(row[key], 50) for key in ("input", "target"))
        for bits in product((False, True), repeat=3):
            of = dict(zip("xyz", bits, strict=True))
            assert value(before, 0, of) == value(after, 0, of), row
        nots = [node for node, label in enumerate(after.labels) if label == "not"]
        assert all(after.labels[after.children[node][0]] in "xyz" for node in nots), row
