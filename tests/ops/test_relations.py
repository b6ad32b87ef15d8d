import keras
import numpy as np
import pytest

from gsp_tf.ops import label_relation

TAGS = [{0, 1}, {1}, {2, 3, 4}, set(), {0, 1}, {1, 2}]
MULTI_HOT = np.array([[column in tags for column in range(5)] for tags in TAGS], "int32")
DEFINITIONS = {
    "any": lambda x, y: float(bool(x & y)),
    "jaccard": lambda x, y: len(x & y) / len(x | y) if x | y else 0.0,
    "cosine": lambda x, y: len(x & y) / np.sqrt(len(x) * len(y)) if x and y else 0.0,
}


@pytest.mark.parametrize("relation", DEFINITIONS)
def test_tags_are_sets(relation):
    expected = [[DEFINITIONS[relation](x, y) for y in TAGS[:4]] for x in TAGS]
    found = label_relation(MULTI_HOT, MULTI_HOT[:4], relation)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)
    # Equal sets have a relation of exactly 1, so that 1 - r is 0.
    assert np.asarray(found)[[0, 1, 2, 4], [0, 1, 2, 0]].tolist() == [1.0] * 4


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_graded_label_vectors(dtype):
    rng = np.random.default_rng(0)
    x, y = rng.random((40, 30)).astype(dtype), rng.random((7, 30)).astype(dtype)
    y[:3], y[3], y[6] = x[:3], 0.5 * x[3], 0.0
    inner, squares = x @ y.T, (x**2).sum(1)[:, None] + (y**2).sum(1)
    expected = {
        "jaccard": inner / (squares - inner),
        "cosine": [[u @ v / (np.sqrt(u @ u * v @ v) or 1) for v in y] for u in x],
        "any": inner > 0,
    }
    for relation, values in expected.items():
        found = np.asarray(label_relation(x, y, relation))
        np.testing.assert_allclose(found, values, rtol=1e-5)
        assert found[[0, 1, 2], [0, 1, 2]].tolist() == [1.0] * 3  # however sums were rounded
        assert found.min() >= 0 and found.max() == 1 and not found[:, 6].any()


def test_classes_and_functions():
    labels = np.array([3, 1, 3])
    same = label_relation(labels, labels[:2], "equal")
    assert np.asarray(same).tolist() == [[1, 0], [0, 1], [1, 0]]
    nearness = np.array([[1.0, 0.7, 0.2], [0.7, 1.0, 0.2], [0.2, 0.2, 1.0]], "float32")

    def near(x, y):
        return keras.ops.take(keras.ops.take(nearness, x, axis=0), y, axis=1)

    found = np.asarray(label_relation([0, 2], [0, 1, 2], near))
    np.testing.assert_array_equal(found, nearness[[0, 2]])
