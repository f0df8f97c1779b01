"""metrics.csv has a row of the last step, whatever log_every says; one that a longer run would not have goes again."""

import samebits

UNEVEN = {"preset": "small", "workers": 1, "log_every": 4, "eval_every": 0, "checkpoint_every": 3}


def steps_of(run):
    return samebits.resume(run.path, workers=1).metrics["step"].tolist()  # no step to do: nothing may change


def test_the_last_step_is_logged(tmp_path):
    run = samebits.train("life", out=tmp_path / "run", steps=6, **UNEVEN)
    assert run.metrics["step"].tolist() == steps_of(run) == [1, 4, 6]
    assert not (run.metrics["soft_loss"] != run.metrics["soft_loss"]).any()  # no NaN


def test_a_run_that_goes_on_ends_as_one_that_never_stopped(tmp_path):
    whole = samebits.train("life", out=tmp_path / "whole", steps=9, schedule_steps=9, **UNEVEN)
    parts = samebits.train("life", out=tmp_path / "parts", steps=6, schedule_steps=9, **UNEVEN)
    for steps in (7, 9):
        parts = samebits.resume(parts.path, workers=1, steps=steps)
        assert parts.metrics["step"].tolist()[-1] == steps
    assert steps_of(whole) == [1, 4, 8, 9]
    for name in ("metrics.csv", "checkpoints/step-9/state.json"):
        assert (parts.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_a_last_row_that_was_changed_is_not_missed(tmp_path):
    """It is no part of what a checkpoint vouches for, and goes when the run goes on."""
    run = samebits.train("life", out=tmp_path / "run", steps=6, **UNEVEN)
    table = run.path / "metrics.csv"
    table.write_text(table.read_text() + "half a row")
    assert samebits.resume(run.path, workers=1, steps=8).metrics["step"].tolist() == [1, 4, 8]
