import keras
import numpy as np
import pytest
from gradients import differentiated, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.layers.pooling.generalized_mean import generalized_mean
from gsp_tf.ops import (
    generalized_sum_pooling,
    lipschitz_normalize,
    pairwise_distances,
    partial_transport,
)


def step_by_step(features, prototypes, transport_ratio, entropy_smoothing, solver, mask):
    """The same through costs and plan, each with the gradient of its own."""
    cost = pairwise_distances(lipschitz_normalize(prototypes), lipschitz_normalize(features))
    plan = partial_transport(cost, transport_ratio, entropy_smoothing, solver, mask=mask)[1]
    weights = keras.ops.sum(plan, axis=1) / transport_ratio
    pooled = keras.ops.einsum("bn,bnc->bc", weights, features)
    return pooled, keras.ops.sum(plan, axis=2) / transport_ratio, weights


def outputs_and_gradients(pool, features, prototypes, upstream, *arguments, jit_compile=None):
    outputs, gradients = differentiated(
        lambda features, prototypes: pool(features, prototypes, *arguments),
        features,
        prototypes,
        upstream=tuple(upstream),
        jit_compile=jit_compile,
    )
    return *outputs, *gradients


def problem(batch, n, channels, m, scale, seed):
    """Features of all lengths around `scale`: one is 0, one a prototype, one a multiple of it."""
    rng = np.random.default_rng(seed)
    prototypes = rng.normal(size=(m, channels)) * rng.uniform(0.1, 3, (m, 1))
    features = rng.normal(size=(batch, n, channels)) * scale * rng.uniform(0, 2, (batch, n, 1))
    features[0, 0] = 0
    features[-1, -1] = prototypes[0]
    features[-1, n // 2] = 7 * prototypes[-1]
    upstream = [rng.normal(size=(batch, size)) for size in (channels, m, n)]
    return features, prototypes, upstream


@settings(max_examples=examples(25))
@given(
    sizes=st.tuples(*[st.integers(1, 7)] * 4),
    scale=st.sampled_from([0.01, 0.4, 3.0]),
    transport_ratio=st.one_of(st.floats(0.01, 0.99), st.just(1.0)),
    entropy_smoothing=st.floats(0.01, 60.0),
    masked=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_equals_its_steps_in_value_and_gradient(
    sizes, scale, transport_ratio, entropy_smoothing, masked, seed
):
    features, prototypes, upstream = problem(*sizes, scale, seed)
    mask = np.random.default_rng(seed).random(features.shape[:2]) < 0.6 if masked else None
    arguments = (transport_ratio, entropy_smoothing, "newton", mask)
    case = features, prototypes, upstream, *arguments
    for value, expected in zip(
        outputs_and_gradients(generalized_sum_pooling, *case),
        outputs_and_gradients(step_by_step, *case),
        strict=True,
    ):
        assert value.dtype == "float64"
        tolerance = 1e-9 * (1 + np.abs(expected).max())
        np.testing.assert_allclose(value, expected, rtol=1e-7, atol=tolerance)


def single(values):
    return [np.asarray(value, "float32") for value in values]


def test_single_precision_is_as_good_as_that_of_its_steps():
    features, prototypes, upstream = problem(3, 49, 128, 16, 0.3, seed=0)
    arguments = (0.3, 5.0, "newton", None)
    exact = outputs_and_gradients(step_by_step, features, prototypes, upstream, *arguments)
    case = *single([features, prototypes]), single(upstream), *arguments

    def errors(pool, jit_compile=None):
        values = outputs_and_gradients(pool, *case, jit_compile=jit_compile)
        pairs = zip(values, exact, strict=True)
        return np.array([np.linalg.norm(v - e) / np.linalg.norm(e) for v, e in pairs])

    stepwise = errors(step_by_step)
    for jit_compile in (None, True):
        assert (errors(generalized_sum_pooling, jit_compile) < 2 * stepwise + 1e-7).all()


@pytest.mark.parametrize("transport_ratio", [1e-3, 1 - 1e-7, 1.0])
@pytest.mark.parametrize("entropy_smoothing", [1e-4, 1e4])
@pytest.mark.parametrize("scale", [2.0**-70, 1.0, 2.0**62])
def test_is_finite_everywhere(transport_ratio, entropy_smoothing, scale):
    features, prototypes, upstream = problem(2, 9, 5, 3, 1.0, seed=1)
    case = *single([features * scale, prototypes]), single(upstream)
    values = outputs_and_gradients(
        generalized_sum_pooling, *case, transport_ratio, entropy_smoothing
    )
    assert all(np.isfinite(value).all() for value in values)
    np.testing.assert_allclose(np.sum(values[1], axis=1), 1, rtol=1e-2)
    np.testing.assert_allclose(np.sum(values[2], axis=1), 1, rtol=1e-2)


def test_huge_logits_are_finite():
    # JAX would subtract a maximum that was rounded from a product that was not.
    features, prototypes, upstream = problem(2, 9, 5, 3, 1.0, seed=1)
    case = *single([features, prototypes]), single(upstream)
    values = outputs_and_gradients(generalized_sum_pooling, *case, 0.3, 1e30)
    assert all(np.isfinite(value).all() for value in values)


def test_a_feature_at_a_prototype_is_not_pushed():
    prototypes = np.array([[3.0, 4.0], [-1.0, 0.5]], "float32")
    features = np.array([[[3.0, 4.0], [0.2, 0.1]]], "float32")
    upstream = single([np.zeros((1, 2)), np.array([[1.0, 0.0]]), np.zeros((1, 2))])
    for jit_compile in (None, True):
        gradient = outputs_and_gradients(
            generalized_sum_pooling,
            *(features, prototypes, upstream, 1.0, 5.0),
            jit_compile=jit_compile,
        )[3]
        assert np.isfinite(gradient).all()
        # Its distance to the first prototype is exactly 0; only the second one moves it.
        direction = prototypes[1] / np.linalg.norm(prototypes[1]) - [0.6, 0.8]
        tangent = direction - np.dot(direction, [0.6, 0.8]) * np.array([0.6, 0.8])
        cross = gradient[0, 0, 0] * tangent[1] - gradient[0, 0, 1] * tangent[0]
        assert abs(cross) < 1e-7 and np.abs(gradient[0, 0]).max() > 1e-5


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e15])
@pytest.mark.parametrize("p", [0.5, 1.0, 3.0, 50.0])
def test_equals_the_weighted_mean_of_powers_at_every_scale(p, scale):
    x = np.random.default_rng(0).uniform(0.1, 1, size=(4, 6, 3))
    weights = np.random.default_rng(1).dirichlet(np.ones(6), size=4)
    expected = scale * np.einsum("bn,bnc->bc", weights, x**p) ** (1 / p)
    mean = generalized_mean((scale * x).astype("float32"), p, weights.astype("float32"))
    np.testing.assert_allclose(mean, expected, rtol=1e-5)
