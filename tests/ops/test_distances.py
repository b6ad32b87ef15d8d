import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from gsp_tf.ops import pairwise_distances


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("squared", [False, True])
def test_equals_scipy(squared, jit_compile):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, 5)), rng.normal(size=(9, 5))
    expected = cdist(x, y, "sqeuclidean" if squared else "euclidean")
    run = tf.function(lambda x, y: pairwise_distances(x, y, squared), jit_compile=jit_compile)
    np.testing.assert_allclose(run(x, y), expected, rtol=1e-10)
    single = run(x.astype("float32"), y.astype("float32"))
    np.testing.assert_allclose(single, expected, rtol=1e-5)


def test_batches_broadcast():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(2, 6, 3))
    distances = pairwise_distances(x, y)
    np.testing.assert_allclose(distances[1], cdist(x, y[1]), rtol=1e-10)


@settings(max_examples=30)
@given(
    rows=st.integers(1, 40),
    columns=st.sampled_from([1, 2, 16, 64, 512, 2048]),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    seed=st.integers(0, 1000),
)
def test_coincident_points_have_distance_zero_and_no_gradient(rows, columns, scale, seed):
    x = tf.constant(np.random.default_rng(seed).normal(size=(rows, columns)) * scale, "float32")
    other = tf.identity(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        diagonal = tf.linalg.diag_part(pairwise_distances(x, other))
    assert (diagonal.numpy() == 0).all()
    assert (tape.gradient(diagonal, x).numpy() == 0).all()


@pytest.mark.parametrize("squared", [False, True])
def test_gradient_equals_finite_differences(squared):
    rng = np.random.default_rng(2)
    x, y, up = rng.normal(size=(3, 4)), rng.normal(size=(5, 4)), rng.normal(size=(3, 5))
    metric = "sqeuclidean" if squared else "euclidean"
    variable = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        target = tf.reduce_sum(pairwise_distances(variable, y, squared) * up)
    gradient = tape.gradient(target, variable).numpy()
    for index in np.ndindex(*x.shape):
        shift = np.zeros_like(x)
        shift[index] = 1e-6
        numeric = (cdist(x + shift, y, metric) - cdist(x - shift, y, metric)) / 2e-6
        assert gradient[index] == pytest.approx((numeric * up).sum(), rel=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_does_not_overflow(dtype):
    x = tf.cast([[300.0, 0.0], [0.0, 400.0]], dtype)
    distances = pairwise_distances(x)
    assert distances.dtype == tf.float32
    np.testing.assert_allclose(distances[0, 1], 500.0, rtol=1e-2)


def test_refuses_different_dimensions():
    with pytest.raises(ValueError, match=r"same D, received shapes \(2, 3\) and \(2, 4\)"):
        pairwise_distances(np.ones((2, 3)), np.ones((2, 4)))


@pytest.mark.parametrize("squared", [False, True])
def test_nan_is_not_hidden(squared):
    x = np.array([[0.0, np.nan], [1.0, 0.0]], "float32")
    distances = pairwise_distances(x, squared=squared).numpy()
    assert np.isnan(distances[0]).all() and np.isnan(distances[:, 0]).all()


def test_float32_meets_float64():
    distances = pairwise_distances(np.zeros((2, 3), "float32"), np.ones((4, 3)))
    assert distances.dtype == tf.float64
    np.testing.assert_allclose(distances, np.sqrt(3))
