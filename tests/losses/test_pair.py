import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.losses.pair import PairLoss
from gsp_tf.losses.reductions import mean_of_nonzero


class Recorder(PairLoss):
    """Gives the sum over the pairs that it is shown, and keeps them."""

    def pairs_loss(self, pairs):
        self.seen = [np.asarray(x) for x in (pairs.distances, pairs.positives, pairs.negatives)]
        return keras.ops.sum(pairs.distances)


@pytest.mark.parametrize("column", [False, True])
def test_pairs_of_a_batch(column):
    loss = Recorder(name="recorder")
    labels = np.array([4, 9, 4])
    loss(labels[:, None] if column else labels, np.eye(3, dtype="float32"))
    distances, positives, negatives = loss.seen
    np.testing.assert_allclose(distances, np.sqrt(2) * (1 - np.eye(3)), rtol=1e-6)
    np.testing.assert_array_equal(positives, [[0, 0, 1], [0, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(negatives, [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


@pytest.mark.parametrize("exclude_self", [False, True])
def test_pairs_with_references(exclude_self):
    loss = Recorder(name="recorder")
    loss.pairwise([1, 2], np.eye(2), [[1], [1], [2]], np.ones((3, 2)), exclude_self=exclude_self)
    distances, positives, negatives = loss.seen
    assert distances.shape == (2, 3)
    np.testing.assert_array_equal(positives, [[not exclude_self, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(negatives, [[0, 0, 1], [1, 1, 0]])


@pytest.mark.parametrize("normalize", [False, True])
def test_normalization_is_optional(normalize):
    loss = Recorder(normalize=normalize, name="recorder")
    loss([0, 0], np.array([[3.0, 0.0], [0.0, 4.0]]))
    assert loss.seen[0][0, 1] == pytest.approx(np.sqrt(2) if normalize else 5.0, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_arithmetic_type(dtype):
    value = Recorder(name="recorder")([0, 1], tf.cast(np.eye(2), dtype))
    assert value.dtype == ("float64" if dtype == "float64" else "float32")


def test_labels_of_two_integer_types_are_compared_exactly():
    labels = 2**60 + np.arange(3)
    loss = Recorder(name="recorder")
    loss.pairwise(labels.astype("uint64"), np.eye(3), labels, np.eye(3))
    np.testing.assert_array_equal(loss.seen[1], np.eye(3))


def test_refuses_sample_weight():
    with pytest.raises(ValueError, match="Recorder is a loss over pairs and takes no sample_weig"):
        Recorder(name="recorder")([0, 1], np.eye(2), sample_weight=np.ones(2))


def test_mean_of_nonzero():
    terms = tf.constant([[2.0, 0.0], [4.0, 8.0]])
    mask = np.array([[True, True], [True, False]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(terms)
        mean = mean_of_nonzero(terms, mask)
        empty = mean_of_nonzero(terms, np.zeros_like(mask))
    assert mean == 3.0
    np.testing.assert_array_equal(tape.gradient(mean, terms), [[0.5, 0], [0.5, 0]])
    assert empty == 0.0
    np.testing.assert_array_equal(tape.gradient(empty, terms), np.zeros((2, 2)))


@pytest.mark.parametrize("jit_compile", [None, False, True])
def test_mean_of_nonzero_does_not_hide_nan(jit_compile):
    mean = mean_of_nonzero
    if jit_compile is not None:
        # A graph optimiser may turn a comparison around, and NaN fails both ways.
        mean = tf.function(mean_of_nonzero, jit_compile=jit_compile)
    terms = np.array([1.0, np.nan, 0.0], "float32")
    assert np.isnan(mean(terms, np.array([True, True, True])))
    assert mean(terms, np.array([True, False, True])) == 1.0
