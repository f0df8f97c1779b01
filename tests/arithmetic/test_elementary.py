"""log, exp, cos, sin and powers: near to what libm has, exact where they can be, and what they do at the ends."""

import math

import numpy as np
import pytest

from samebits.arithmetic.elementary import cos_sin, exp, log, normal, power


def uniform(low, high, size=5000):
    return np.random.default_rng(0).uniform(low, high, size)


LOGS = {
    "normal numbers of every size": 2.0 ** uniform(-1022, 1023),
    "around 1": uniform(0.5, 2),
    "just above 1": 1 + 2.0 ** uniform(-50, -2),
    "just below 1": 1 - 2.0 ** uniform(-50, -2),
    "uniform, as normal numbers are made of": uniform(0, 1),
}


def ulps(found, expected):
    found, expected = np.array(found), np.array(expected)
    return (np.abs(found - expected) / np.spacing(np.abs(expected))).max()


@pytest.mark.jit_off
@pytest.mark.parametrize("which", LOGS)
def test_log_is_exact_to_three_units_of_the_last_place(which):
    assert ulps([log(x) for x in LOGS[which]], [math.log(x) for x in LOGS[which]]) <= 3


@pytest.mark.jit_off
def test_log_at_the_ends():
    assert math.isnan(log(math.nan))
    assert log(0.0) == log(-0.0) == -math.inf
    assert log(math.inf) == math.inf
    assert math.isnan(log(-1.0))
    assert math.isnan(log(-math.inf))
    assert log(1.0) == 0
    assert log(np.finfo(np.float64).tiny) == -1022 * math.log(2)


@pytest.mark.jit_off
def test_exp_is_exact_to_two_units_of_the_last_place():
    x = np.concatenate([uniform(-1, 1), [0.0, -0.0, 1.0]])
    assert ulps([exp(v) for v in x], [math.exp(v) for v in x]) <= 2
    assert exp(0.0) == 1
    assert math.isnan(exp(math.nan))


@pytest.mark.jit_off
def test_cos_and_sin_of_turns():
    for turns in (*np.linspace(0, 1, 2001), *uniform(0, 1, 2000)):
        found, angle = cos_sin(turns), math.tau * turns
        assert found == pytest.approx((math.cos(angle), math.sin(angle)), rel=0, abs=1e-15)
    quarters = [cos_sin(quarter / 4) for quarter in range(5)]
    assert quarters == [(1, 0), (0, 1), (-1, 0), (0, -1), (1, 0)]


@pytest.mark.jit_off
def test_normal_numbers_are_box_and_mullers():
    drawn = uniform(0, 1, (2, 4000))
    out = np.empty_like(drawn)
    normal(out, drawn)
    radius, angle = np.sqrt(-2 * np.log(drawn[0])), 2 * np.pi * drawn[1]
    np.testing.assert_allclose(out, radius * np.array([np.cos(angle), np.sin(angle)]), rtol=0, atol=1e-14)
    assert abs(out.mean()) < 0.06
    assert abs(out.std() - 1) < 0.06


def test_powers():
    for base in range(-5, 6):
        for exponent in range(20):
            assert power(float(base), exponent) == base**exponent
    assert power(2.0, 1000) == 2.0**1000
    assert power(0.5, 1022) == 2.0**-1022
    assert power(0.0, 0) == 1
    for exponent in (1, 7, 100, 12_345):
        assert power(0.999, exponent) == pytest.approx(0.999**exponent, rel=1e-12)


def test_exp_is_as_exact_far_from_0():
    """Over the whole range: what ln 2 is short of must not be multiplied by the exponent."""
    x = uniform(-708, 709)
    assert ulps([exp(v) for v in x], [math.exp(v) for v in x]) <= 2
