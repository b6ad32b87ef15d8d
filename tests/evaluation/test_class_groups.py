import numpy as np
import pytest
from clusters import around_centres

from gsp_tf.evaluation import grouped_recall, retrieval_metrics


def test_does_not_depend_on_the_number_of_classes():
    embeddings, labels = around_centres(90, 10, spread=0.8)
    plain, grouped = [], []
    for of in (labels < 30, labels >= 0):
        plain.append(retrieval_metrics(embeddings[of], labels[of])["recall_at_1"])
        found = grouped_recall(embeddings[of], labels[of], 10, num_resamples=20)
        grouped.append(found["grouped_recall_at_1"].value)
    assert plain[0] - plain[1] > 0.1 > 0.05 > abs(grouped[0] - grouped[1])


def test_is_the_mean_over_groups_with_positives():
    embeddings, labels = around_centres(4, 10, spread=0.8)
    found = grouped_recall(embeddings, labels, 4, recall_at=(1, 3), num_resamples=5)
    expected = retrieval_metrics(embeddings, labels, recall_at=(1, 3))
    assert [found[f"grouped_recall_at_{k}"].value for k in (1, 3)] == pytest.approx(
        [expected["recall_at_1"], expected["recall_at_3"]]
    )
    single = labels.copy()
    single[labels > 0] = np.arange(10, 40)  # one class of ten images, and 30 of one
    alone = grouped_recall(embeddings, single, 2, num_resamples=5)["grouped_recall_at_1"]
    assert alone.value == 1
