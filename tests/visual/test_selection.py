import numpy as np

from gsp_tf.data import class_by_class
from gsp_tf.visual._report_page import _few_classes, _telling_queries

LABELS = np.random.default_rng(0).integers(0, 40, 500)


def test_class_by_class_shows_every_class_before_repeating():
    order = class_by_class(LABELS)
    assert sorted(order) == list(range(500))
    assert len(set(LABELS[order[:40]])) == 40
    assert np.array_equal(order, class_by_class(LABELS))


def test_few_classes_bounds_classes_and_points():
    chosen = _few_classes(np.repeat(np.arange(40), 100))
    counts = np.unique(chosen // 100, return_counts=True)[1]
    assert len(chosen) == 600 and counts.tolist() == [50] * 12
    assert np.array_equal(_few_classes([1, 1, 2, 2]), [0, 1, 2, 3])


def test_telling_queries_hold_hits_and_misses():
    hits = np.ones((2, 100), bool)
    hits[:, 50] = False
    hits[0, 70] = False
    assert _telling_queries(hits, 4).tolist() == [70, 0, 50, 1]
    assert len(_telling_queries(hits[:, :2], 8)) == 2
