"""A small text and runs on it that several files of tests share."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers import samebits_here, sets

WORDS = ("the", "weaver", "wove", "a", "blue", "cloth", "and", "sang", "of", "rivers", "naïve", "while", "it", "grew")
SMALL = ["--preset", "small", "--workers", "1", *sets(log_every=1, eval_every=4, checkpoint_every=4, eval_samples=999)]


def story(seed, sentences=400):
    """Sentences of a few words: something to learn, without a file to ship."""
    random = np.random.default_rng(seed)
    lines = [" ".join(random.choice(WORDS, random.integers(4, 9))) + ".\n" for _ in range(sentences)]
    return "".join(line.capitalize() for line in lines)


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """story.txt, a finished run on it (8 steps), and another family's run. Read it; copy it to change it."""
    place = tmp_path_factory.mktemp("gpt")
    (place / "story.txt").write_text(story(0), encoding="utf-8")
    done = samebits_here("train", "gpt", *SMALL, "--steps", 8, "--data", "story.txt", "--out", "run", cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "next: samebits sample run"
    assert "tokens/s" in done.stderr
    every = sets(eval_every=0, checkpoint_every=99)
    other = ["train", "life", "--preset", "small", "--workers", 1, "--steps", 1, *every, "--out", "life"]
    assert samebits_here(*other, cwd=place).returncode == 0
    return place
