import numpy as np
import pytest

from gsp_tf.evaluation import conformal_threshold


def classes_of(rng, count, size=4):
    """Embeddings of classes of different spreads around random centres, and labels."""
    labels = np.arange(count * size) // size
    spread = rng.uniform(0.1, 1.0, count)[labels, None]
    return rng.normal(size=(count, 5))[labels] + spread * rng.normal(size=(len(labels), 5)), labels


def test_is_the_order_statistic_of_one_image_of_each_class():
    embeddings, labels = [[0.0], [1.0], [5.0], [8.0], [20.0], [30.0], [99.0]], [0, 0, 1, 1, 2, 2, 3]
    for coverage, expected in ((0.25, 1.0), (0.5, 3.0), (0.75, 10.0)):
        assert conformal_threshold(embeddings, labels, coverage) == expected
    cosine = conformal_threshold([[1, 0], [0, 2], [1, 1], [2, 2]], [0, 0, 1, 1], 0.6, "cosine")
    assert cosine == pytest.approx(1)


def test_sets_hold_the_class_of_a_new_query_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = []
    for _ in range(300):
        embeddings, labels = classes_of(rng, 31)
        known = labels < 30
        threshold = conformal_threshold(embeddings[known], labels[known], 0.8)
        query, *others = embeddings[~known]
        held.append(np.linalg.norm(others - query, axis=1).min() <= threshold)
    assert 0.74 < np.mean(held) < 0.88  # the coverage lies between 0.8 and 0.8 + 1 / 31
