import keras
import numpy as np
import pytest
from gradients import differentiated, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from printed import assert_as_printed
from scipy.spatial.distance import cdist

from gsp_tf.ops import pairwise_distances


@pytest.mark.parametrize("squared", [False, True])
def test_equals_scipy_in_value_and_gradient(squared):
    rng = np.random.default_rng(0)
    x, y, up = rng.normal(size=(7, 5)), rng.normal(size=(9, 5)), rng.normal(size=(7, 9))
    weight = keras.ops.convert_to_tensor(up)
    metric = "sqeuclidean" if squared else "euclidean"
    expected = cdist(x, y, metric)
    np.testing.assert_allclose(pairwise_distances(x, y, squared), expected, rtol=1e-10)
    single = pairwise_distances(x.astype("float32"), y.astype("float32"), squared)
    np.testing.assert_allclose(single, expected, rtol=1e-5)
    assert_as_printed(
        lambda x: keras.ops.sum(pairwise_distances(x, y, squared) * weight),
        lambda x: (cdist(x, y, metric) * up).sum(),
        x,
    )


def test_batches_broadcast():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(2, 6, 3))
    distances = pairwise_distances(x, y)
    np.testing.assert_allclose(distances[1], cdist(x, y[1]), rtol=1e-10)


@settings(max_examples=examples(30))
@given(
    rows=st.integers(1, 40),
    columns=st.sampled_from([1, 2, 16, 64, 512, 2048]),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    seed=st.integers(0, 1000),
)
def test_coincident_points_have_distance_zero_and_no_gradient(rows, columns, scale, seed):
    x = np.random.default_rng(seed).normal(size=(rows, columns)) * scale
    diagonal, (gradient,) = differentiated(
        lambda x: keras.ops.diagonal(pairwise_distances(x, keras.ops.copy(x))), x.astype("float32")
    )
    assert (diagonal == 0).all() and (gradient == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [64, 96, 128, 256])
def test_many_coincident_points_have_distance_zero(columns, dtype):
    x = np.random.default_rng(0).normal(size=(1000, columns)).astype(dtype)
    assert not np.asarray(pairwise_distances(x, x.copy())).diagonal().any()


def near_pairs(columns):
    """Unit vectors in pairs 1e-2, 1e-3, ... 1e-6 apart, float32, and other unit vectors."""
    rng = np.random.default_rng(columns)
    points = rng.normal(size=(16, columns))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    for row, power in enumerate(range(2, 7)):
        aside = rng.normal(size=columns)
        aside -= aside @ points[row] * points[row]
        points[row + 5] = points[row] + 10.0**-power * aside / np.linalg.norm(aside)
    return points.astype("float32"), rng.normal(size=(16, 16)).astype("float32")


@pytest.mark.parametrize(
    ("columns", "jit_compile"), [(2, None), (64, None), (512, None), (64, False), (512, True)]
)
def test_near_pairs_are_exact_in_float32(columns, jit_compile):
    x, up = near_pairs(columns)
    np.fill_diagonal(up, 0)
    distances, (gradient,) = differentiated(
        pairwise_distances, x, upstream=up, jit_compile=jit_compile
    )
    expected = cdist(x.astype("float64"), x.astype("float64"))
    np.testing.assert_allclose(distances, expected, rtol=1e-3)
    differences = x[:, None].astype("float64") - x
    directions = differences / np.where(expected == 0, 1.0, expected)[..., None]
    both = (up + up.T)[..., None] * directions
    np.testing.assert_allclose(gradient, both.sum(1), atol=1e-3)


@pytest.mark.parametrize("squared", [False, True])
def test_nan_is_not_hidden(squared):
    x = np.array([[0.0, np.nan], [1.0, 0.0]], "float32")
    distances = np.asarray(pairwise_distances(x, squared=squared))
    assert np.isnan(distances[0]).all() and np.isnan(distances[:, 0]).all()


@pytest.mark.parametrize("scale", [1e19, 1e30, 1e38])
def test_large_vectors_have_their_distances(scale):
    x = np.array([[scale, 0.0], [-0.5 * scale, 0.5 * scale], [scale, 0.0]], "float32")
    found = keras.ops.convert_to_numpy(pairwise_distances(x))
    expected = cdist(x.astype("float64"), x.astype("float64"))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found[0, 2] == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_does_not_overflow(dtype):
    x = keras.ops.cast([[300.0, 0.0], [0.0, 400.0]], dtype)
    distances = pairwise_distances(x)
    assert keras.backend.standardize_dtype(distances.dtype) == "float32"
    np.testing.assert_allclose(distances[0, 1], 500.0, rtol=1e-2)
