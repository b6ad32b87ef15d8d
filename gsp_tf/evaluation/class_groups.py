"""Recall@K that does not depend on the number of classes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._integers import checked_seed
from gsp_tf.evaluation._positives import checked_depths
from gsp_tf.evaluation.estimates import Estimate, check_resampling
from gsp_tf.evaluation.ranking import RankingMetrics
from gsp_tf.evaluation.retrieval import retrieval_metrics
from gsp_tf.evaluation.search_space import Metric
from gsp_tf.evaluation.vectors import checked_embeddings, checked_labels


def grouped_recall(
    embeddings: ArrayLike,
    labels: ArrayLike,
    classes_per_group: int,
    recall_at: Sequence[int] = (1,),
    metric: Metric = "euclidean",
    num_resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Grouped Recall@K: Recall@K among random groups of equally many classes.

    Recall@K falls as the number of classes grows, so it cannot be compared between sets of
    different numbers of classes, such as validation and test. Grouped Recall@K (Zhdanov, Karpukhin,
    "Catching Image Retrieval Generalization", 2023, arXiv 2306.13357) searches within random groups
    of one size and takes the mean over the groups, which depends on the size of the groups and not
    on their number. The paper's abstract and introduction were read, its definition of the groups
    was not. Intervals resample the groups.

    Args:
        embeddings: floats `(N, D)`.
        labels: integers `(N,)` or `(N, 1)`.
        classes_per_group: number of classes in each group, at least 2; classes that fill no group
            are left out.
        recall_at: the values of K.
        metric: the distance.
        num_resamples: number of samples of the groups with replacement.
        confidence: share of the resampled means in the interval.
        seed: seed of the groups and of the samples.

    Returns:
        `grouped_recall_at_K` for each K.

    Raises:
        ValueError: if there are fewer classes than in one group, or an argument is out of range.
        TypeError: if labels are not integers.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(800) // 10
        >>> embeddings = rng.normal(size=(80, 8))[labels] + 0.9 * rng.normal(size=(800, 8))
        >>> print(grouped_recall(embeddings, labels, 10)["grouped_recall_at_1"])
        0.675 [0.6137, 0.74]
    """
    check_resampling(num_resamples, confidence)
    recall_at = checked_depths(recall_at, "recall_at")
    embeddings = checked_embeddings(embeddings, "embeddings")
    labels = checked_labels(labels, len(embeddings), "labels")
    rng = np.random.default_rng(checked_seed(seed))
    classes = rng.permutation(np.unique(labels))
    num_groups = len(classes) // classes_per_group if classes_per_group > 1 else 0
    if not num_groups:
        raise ValueError(
            f"classes_per_group must be at least 2 and at most {len(classes)}, all classes; "
            f"received {classes_per_group}."
        )
    found = {f"grouped_recall_at_{k}": np.full(num_groups, np.nan) for k in recall_at}
    groups = classes[: num_groups * classes_per_group].reshape(num_groups, -1)
    for number, group in enumerate(groups):
        rows = np.isin(labels, group)
        if np.unique(labels[rows], return_counts=True)[1].max() == 1:
            continue  # no query has a positive
        searched = embeddings[rows], labels[rows]
        means = retrieval_metrics(*searched, recall_at=recall_at, metric=metric)
        for name, values in found.items():
            values[number] = means[name.removeprefix("grouped_")]
    return RankingMetrics(found, np.arange(num_groups)).means(num_resamples, confidence, seed)
