import keras
import numpy as np
import pytest

from gsp_tf.losses import (
    PairLoss,
)


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
    np.testing.assert_array_equal(negatives, [[0, 0, 1], [1, not exclude_self, 0]])


@pytest.mark.parametrize("mask", [[[True, False, True]], [[False], [True]]])
def test_a_mask_broadcasts_to_the_pairs(mask):
    loss = Recorder(name="recorder")
    arguments = [1, 2], np.eye(2), [1, 1, 2], np.ones((3, 2))
    loss.pairwise(*arguments, mask=np.array(mask))
    _, positives, negatives = loss.seen
    np.testing.assert_array_equal(positives, mask * np.array([[1, 1, 0], [0, 0, 1]]))
    np.testing.assert_array_equal(negatives, mask * np.array([[0, 0, 1], [1, 1, 0]]))


@pytest.mark.parametrize("normalize", [False, True])
def test_normalization_is_optional(normalize):
    loss = Recorder(normalize=normalize, name="recorder")
    for call in (loss, lambda labels, x: loss.pairwise(labels, x, labels, x)):
        call([0, 0], np.array([[3.0, 0.0], [0.0, 4.0]]))
        assert loss.seen[0][0, 1] == pytest.approx(np.sqrt(2) if normalize else 5.0, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_arithmetic_type(dtype):
    loss, x = Recorder(name="recorder"), keras.ops.eye(2, dtype=dtype)
    expected = "float64" if dtype == "float64" else "float32"
    half = keras.ops.cast(x, "float16")
    for value in (loss([0, 1], x), loss.pairwise([0, 1], x, [0, 1], half)):
        assert keras.backend.standardize_dtype(value.dtype) == expected


@pytest.mark.parametrize("first", [2**24, 2**53, 2**60])
def test_labels_of_two_integer_types_are_compared_exactly(first):
    labels = first + np.arange(3)
    loss = Recorder(name="recorder")
    loss.pairwise(labels.astype("uint64"), np.eye(3), labels, np.eye(3))
    np.testing.assert_array_equal(loss.seen[1], np.eye(3))
