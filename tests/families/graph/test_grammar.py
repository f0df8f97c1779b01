from itertools import islice

import pytest

from samebits.config import override
from samebits.families import find_preset
from samebits.families.graph.expressions import parse
from samebits.families.graph.grammar import fits, said
from samebits.families.graph.model import Rewriting
from samebits.families.graph.series import SPLITS, expressions
from samebits.families.graph.series import TASK_WORDS as TASKS
from samebits.families.graph.verbs import judged

OUTSIDE = {
    "boolean": ("(simplify (and x 3))", "(simplify (simplify x))", "simplify"),
    "peano": ("(peano (S (add 0 0)))", "(peano (add 0 x))"),
    "arithmetic": ("(eval x)", "eval", "(eval (bind x 3) (add x y))", "(eval (bind x x) x)", "(eval (add 1 2) 3)",
                   "(eval (bind x 1) (bind x 2) x)", "(eval (bind x 3) (bind y 3))"),
    "algebra": ("(simplify (pow x y))", "(simplify (pow x 4))", "(simplify (sin x))"),
    "derivative": ("(d (div x 2))", "(d (mul x x))", "(d (pow 2 x))", "(d (log (mul 2 x)))", "(d (sin (sin x)))",
                   "(d (mul 1 x))", "(d (d x))", "(d (mul x (sin (mul 2 x))))", "(d 0)"),
}  # fmt: skip


def config_of(task, **settings):
    return override(find_preset(task, "full"), settings)


@pytest.mark.parametrize("task", TASKS)
def test_all_that_is_generated_fits(task):
    config = config_of(task)
    for split in SPLITS:
        for tree in islice(expressions(config, split), 200):
            assert fits(config, tree), tree


@pytest.mark.parametrize("task", TASKS)
def test_what_is_never_generated_does_not_fit(task):
    config = config_of(task)
    for text in OUTSIDE[task]:
        assert not fits(config, parse(text, 50)), text


def test_digits_end_at_the_modulus():
    assert not fits(config_of("arithmetic", modulus=5), parse("(eval (add 1 5))", 50))
    assert "below 5" in said(config_of("arithmetic", modulus=5))


@pytest.mark.parametrize(
    ("answer", "ended", "begin"),
    [("x", True, "right"), ("y", True, "wrong: by the rules it is x"), ("x", False, "not finished")],
)
def test_answers_are_judged_by_the_rules(answer, ended, begin):
    found = Rewriting([parse("(simplify (and x x))", 9), parse(answer, 9)], ended)
    assert judged(config_of("boolean"), found).startswith(begin)


def test_beyond_the_grammar_nothing_is_judged():
    found = Rewriting([parse("(d (mul x x))", 9), parse("x", 9)], True)
    assert judged(config_of("derivative"), found).startswith("do not rely on this: the network was trained on add, sub")
