import keras
import numpy as np
import pytest
from gradients import compiled, differentiated
from printed import assert_as_printed
from scipy.spatial.distance import cdist

from gsp_tf.losses import prototype_diversity, similarity_consistency


def random_prototypes(shape=(5, 4), seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def defined_diversity(prototypes):
    values = [
        abs(p @ q) / np.linalg.norm(p) / np.linalg.norm(q)
        for i, p in enumerate(prototypes)
        for j, q in enumerate(prototypes)
        if i != j
    ]
    return np.mean(values)


@pytest.mark.parametrize(("shape", "jit_compile"), [((3, 4), None), ((9, 2), None), ((2, 3), True)])
def test_diversity_equals_the_definition(shape, jit_compile):
    assert_as_printed(
        compiled(prototype_diversity, jit_compile), defined_diversity, random_prototypes(shape)
    )


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("prototypes", "expected"),
    [
        (np.eye(4), 0.0),
        (np.ones((4, 3)), 1.0),
        (np.full((4, 3), 6e4), 1.0),
        (np.zeros((4, 3)), 0.0),
        (np.ones((1, 3)), 0.0),
        (np.array([[1.0, 0, 0], [0, 0, 0], [1, 0, 0]]), 1 / 3),
    ],
)
def test_extreme_prototypes(prototypes, expected, dtype):
    value, (gradient,) = differentiated(prototype_diversity, prototypes.astype(dtype))
    assert value.dtype == "float32"
    assert float(value) == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


def pair_of_embeddings(rows=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 3)), rng.normal(size=(rows, 4))


def defined_consistency(a, b):
    return np.mean(np.abs(cdist(a, a, "cosine") - cdist(b, b, "cosine")))


@pytest.mark.parametrize(("rows", "jit_compile"), [(5, None), (2, None), (4, False), (5, True)])
def test_consistency_equals_the_definition(rows, jit_compile):
    run = compiled(similarity_consistency, jit_compile)
    assert_as_printed(run, defined_consistency, *pair_of_embeddings(rows))


@pytest.mark.parametrize("dtypes", [("float16", "float32"), ("bfloat16", "bfloat16")])
@pytest.mark.parametrize("length", [0.0, 1e-3, 6e4])
def test_consistency_is_finite_in_half_precision(dtypes, length):
    points = [
        keras.ops.cast(np.sign(x) * length, dtype)
        for x, dtype in zip(pair_of_embeddings(), dtypes, strict=True)
    ]
    value, gradients = differentiated(similarity_consistency, *points)
    assert value.dtype == "float32" and np.isfinite(value)
    assert all(np.isfinite(gradient.astype("float32")).all() for gradient in gradients)
