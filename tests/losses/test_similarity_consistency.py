import numpy as np
import pytest
import tensorflow as tf
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group

from gsp_tf.losses import similarity_consistency


def pair_of_embeddings(rows=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 3)), rng.normal(size=(rows, 4))


def defined_consistency(a, b):
    return np.mean(np.abs(cdist(a, a, "cosine") - cdist(b, b, "cosine")))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_equals_the_definition_for_any_batch_size(jit_compile):
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


def test_gradients_equal_finite_differences():
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
def test_finite_in_half_precision(dtypes, length):
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


@pytest.mark.parametrize(
    ("a", "b"), [((4, 3), (5, 3)), ((4,), (4, 3)), ((4, 3), (4,)), ((4, 2, 3), (4, 3))]
)
def test_shapes_that_do_not_fit_are_refused(a, b):
    with pytest.raises(ValueError, match=r"takes embeddings \(B, D\) and \(B, D'\).*received"):
        similarity_consistency(np.ones(a), np.ones(b))
