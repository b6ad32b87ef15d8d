import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.losses import prototype_diversity


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


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (5, 4), (9, 2)])
def test_equals_the_definition(shape, jit_compile):
    prototypes = random_prototypes(shape)
    value = tf.function(prototype_diversity, jit_compile=jit_compile)(prototypes)
    assert float(value) == pytest.approx(defined_diversity(prototypes), rel=1e-9)


def test_gradient_of_a_weight_equals_finite_differences():
    prototypes = random_prototypes((3, 4))
    weight = keras.Variable(prototypes, dtype="float64")
    with tf.GradientTape() as tape:
        value = prototype_diversity(weight)
    gradient = tape.gradient(value, weight.value).numpy()
    for index in np.ndindex(*prototypes.shape):
        shift = np.zeros_like(prototypes)
        shift[index] = 1e-6
        numeric = defined_diversity(prototypes + shift) - defined_diversity(prototypes - shift)
        assert gradient[index] == pytest.approx(numeric / 2e-6, rel=1e-5, abs=1e-9)


def test_lengths_signs_and_order_do_not_matter():
    prototypes = random_prototypes()
    moved = np.array([0.1, -3.0, 70.0, -1.0, 2.0])[:, None] * prototypes[[2, 0, 4, 1, 3]]
    assert float(prototype_diversity(moved)) == pytest.approx(
        float(prototype_diversity(prototypes)), rel=1e-9
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
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
def test_extremes(prototypes, expected, dtype):
    prototypes = tf.cast(prototypes, dtype)
    with tf.GradientTape() as tape:
        tape.watch(prototypes)
        value = prototype_diversity(prototypes)
    assert value.dtype == tf.float32
    assert float(value) == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(tf.cast(tape.gradient(value, prototypes), "float32"), 0, atol=1e-6)
