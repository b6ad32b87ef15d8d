import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.training import ProxyPool

LABELS = np.array([2, 0, 1, 1, 0, 2, 2, 0, 0])
POINTS = np.stack([np.arange(9.0), LABELS], axis=1).astype("float32")


def load(indices):
    return tf.data.Dataset.from_tensor_slices((POINTS[indices], LABELS[indices])).batch(4)


@pytest.mark.parametrize("count", [1, 3, 9])
def test_every_class_gives_that_many_of_its_own_images_and_repeats_none_without_need(count):
    embeddings, indices = ProxyPool(LABELS, load).draw(lambda x: 2 * x, count)
    assert embeddings.shape == (3, count, 2) and indices.shape == (3, count)
    assert (LABELS[indices] == np.arange(3)[:, None]).all()
    np.testing.assert_array_equal(embeddings, 2 * POINTS[indices])
    sizes = np.bincount(LABELS)
    assert [len(set(row)) for row in indices] == np.minimum(count, sizes).tolist()


def test_draws_differ_and_the_seed_repeats_them():
    pools = [ProxyPool(LABELS, load, seed=4) for _ in range(2)]
    draws = [[pool.draw(tf.identity, 3)[1].tolist() for _ in range(4)] for pool in pools]
    assert draws[0] == draws[1]
    assert len({str(draw) for draw in draws[0]}) > 1


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0, 2, 2], ValueError, "labels must be 0 to C - 1, .* received 2 classes, 0, 2"),
        ([], ValueError, "received 0 classes"),
        ([0.0, 1.0], TypeError, "labels must be integers; received dtype float64"),
    ],
)
def test_refuses_labels_that_are_no_classes(labels, error, message):
    with pytest.raises(error, match=message):
        ProxyPool(labels, load)
