import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group

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


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (9, 2)])
def test_diversity_equals_the_definition(shape, jit_compile):
    prototypes = random_prototypes(shape)
    value = tf.function(prototype_diversity, jit_compile=jit_compile)(prototypes)
    assert float(value) == pytest.approx(defined_diversity(prototypes), rel=1e-9)


def test_gradient_of_diversity_equals_finite_differences():
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


def test_lengths_signs_and_order_of_prototypes_do_not_matter():
    prototypes = random_prototypes()
    moved = np.array([0.1, -3.0, 70.0, -1.0, 2.0])[:, None] * prototypes[[2, 0, 4, 1, 3]]
    assert float(prototype_diversity(moved)) == pytest.approx(
        float(prototype_diversity(prototypes)), rel=1e-9
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
    prototypes = tf.cast(prototypes, dtype)
    with tf.GradientTape() as tape:
        tape.watch(prototypes)
        value = prototype_diversity(prototypes)
    assert value.dtype == tf.float32
    assert float(value) == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(tf.cast(tape.gradient(value, prototypes), "float32"), 0, atol=1e-6)


def pair_of_embeddings(rows=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 3)), rng.normal(size=(rows, 4))


def defined_consistency(a, b):
    return np.mean(np.abs(cdist(a, a, "cosine") - cdist(b, b, "cosine")))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_consistency_equals_the_definition_for_any_batch_size(jit_compile):
    run = tf.function(
        similarity_consistency,
        input_signature=[tf.TensorSpec((None, 3), "float64"), tf.TensorSpec((None, 4), "float64")],
        jit_compile=jit_compile,
    )
    for rows in (5, 2):
        a, b = pair_of_embeddings(rows)
        assert float(run(a, b)) == pytest.approx(defined_consistency(a, b), rel=1e-9)
        assert float(similarity_consistency(a, b)) == pytest.approx(float(run(a, b)), rel=1e-9)


def test_the_sum_is_the_mean_times_the_pairs():
    a, b = pair_of_embeddings(5)
    total = float(similarity_consistency(a, b, reduction="sum"))
    assert total == pytest.approx(25 * defined_consistency(a, b), rel=1e-9)
    with pytest.raises(ValueError, match='reduction must be "mean" or "sum", received \'none\''):
        similarity_consistency(a, b, reduction="none")


def test_gradients_of_consistency_equal_finite_differences():
    points = [tf.constant(x) for x in pair_of_embeddings(4)]
    with tf.GradientTape() as tape:
        tape.watch(points)
        value = similarity_consistency(*points)
    for which, gradient in enumerate(tape.gradient(value, points)):
        for index in np.ndindex(*gradient.shape):
            values = []
            for sign in (1, -1):
                moved = [x.numpy() for x in points]
                moved[which][index] += sign * 1e-6
                values.append(defined_consistency(*moved))
            numeric = (values[0] - values[1]) / 2e-6
            assert float(gradient[index]) == pytest.approx(numeric, rel=1e-5, abs=1e-9)


def test_turned_and_stretched_embeddings_are_consistent():
    a, _ = pair_of_embeddings()
    turned = a @ ortho_group.rvs(3, random_state=0) * np.arange(1, 6)[:, None]
    assert float(similarity_consistency(a, turned)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("dtypes", [("float16", "float32"), ("bfloat16", "bfloat16")])
@pytest.mark.parametrize("length", [0.0, 1e-3, 6e4])
def test_consistency_is_finite_in_half_precision(dtypes, length):
    points = [
        tf.cast(np.sign(x) * length, dtype)
        for x, dtype in zip(pair_of_embeddings(), dtypes, strict=True)
    ]
    with tf.GradientTape() as tape:
        tape.watch(points)
        value = similarity_consistency(*points)
    assert value.dtype == tf.float32 and np.isfinite(value)
    for gradient in tape.gradient(value, points):
        assert np.isfinite(tf.cast(gradient, "float32")).all()


@pytest.mark.parametrize(("a", "b"), [((4, 3), (5, 3)), ((4,), (4, 3)), ((4, 3), (4, 2, 3))])
def test_embeddings_that_do_not_fit_are_refused(a, b):
    with pytest.raises(ValueError, match=r"takes embeddings \(B, D\) and \(B, D'\).*received"):
        similarity_consistency(np.ones(a), np.ones(b))
