from functools import partial

import numpy as np
import pytest
from gradients import compiled, examples, value_and_gradient
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from gsp_tf.losses import log1p_sum_exp, log_sum_exp, weighted_mean

REDUCTIONS = [weighted_mean, log_sum_exp, log1p_sum_exp]
few = settings(max_examples=examples(15))
shapes = st.sampled_from([(6,), (1,), (4, 5), (3, 1), (1, 3)])


def random_terms(shape, seed, weights=(0, 0, 0.5, 1, 3)):
    rng = np.random.default_rng(seed)
    return rng.normal(scale=3, size=shape), rng.choice(weights, shape)


@few
@given(shape=shapes, seed=st.integers(0, 1000))
def test_weighted_mean(shape, seed):
    terms, weights = random_terms(shape, seed)
    expected = np.sum(terms * weights) / max(np.sum(weights), 1e-9)
    assert float(weighted_mean(terms, weights)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@few
@given(shape=shapes, axis=st.sampled_from([0, -1]), seed=st.integers(0, 1000))
def test_logarithms_of_sums(shape, axis, seed):
    exponents, weights = random_terms(shape, seed)
    with np.errstate(divide="ignore"):
        expected = logsumexp(exponents, axis=axis, b=weights)
    actual = log_sum_exp(exponents, weights, axis)
    np.testing.assert_allclose(actual, np.where(np.isneginf(expected), 0, expected), atol=1e-12)
    actual = log1p_sum_exp(exponents, weights, axis)
    np.testing.assert_allclose(actual, np.logaddexp(0, expected), atol=1e-12)


@pytest.mark.parametrize("reduction", [log_sum_exp, log1p_sum_exp])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_logarithms_of_extreme_sums(reduction, jit_compile):
    extremes = np.array([-1e30, -3e3, -90.0, 88.0, 3e3, 1e30], "float32")
    exponents = np.stack([extremes, extremes, -np.inf + extremes, np.inf - extremes], axis=1)
    weights = np.tile(np.array([1, 2, 1, 0], "float32"), (6, 1))
    run = compiled(partial(value_and_gradient, lambda w, e: reduction(e, w)), jit_compile)
    values, gradient = run(weights, exponents)
    expected, shares = extremes + np.log(3), np.ones(6)
    if reduction is log1p_sum_exp:
        expected, shares = np.logaddexp(0, expected), extremes > 0
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-30)
    np.testing.assert_allclose(gradient, np.outer(shares, [1 / 3, 2 / 3, 0, 0]), atol=1e-6)


def test_small_sums_keep_their_digits_beside_1():
    exponents = np.array([[-20.0], [-40.0], [-80.0]], "float32")
    found, gradient = value_and_gradient(
        lambda w, e: log1p_sum_exp(e, w), np.ones((3, 1), "float32"), exponents
    )
    expected = np.exp(exponents.astype("float64"))
    np.testing.assert_allclose(found, np.log1p(expected[:, 0]), rtol=1e-5)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("others", [1.0, 0.0])
def test_terms_of_weight_zero_may_hold_anything(reduction, others):
    weights = others * np.array([[1.0, 0, 0, 0, 2]])
    expected = value_and_gradient(lambda w, t: reduction(t, w), weights, np.ones((1, 5)))
    terms = np.array([[1.0, np.nan, np.inf, -np.inf, 1]])
    value, gradient = value_and_gradient(lambda w, t: reduction(t, w), weights, terms)
    np.testing.assert_array_equal(value, expected[0])
    np.testing.assert_array_equal(gradient, expected[1])


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("jit_compile", [None, False, True])
def test_nan_is_not_hidden(reduction, jit_compile):
    # A graph optimiser may turn a comparison around, and NaN fails both ways.
    run = compiled(reduction, jit_compile)
    terms = np.array([1.0, np.nan, 0.0], "float32")
    for weights, is_nan in (([1.0, 1.0, 1.0], True), ([1.0, 0.0, 1.0], False)):
        assert np.isnan(float(run(terms, np.array(weights, "float32")))) == is_nan
