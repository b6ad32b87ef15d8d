"""Retrieval metrics: P@1, R-precision, MAP@R and Recall@K, by query, class, group and gallery."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._arguments import checked_seed
from gsp_tf._typing import Relation
from gsp_tf.evaluation._positives import (
    Nearest,
    Positives,
    RelatedPositives,
    checked_depths,
    positives_of,
)
from gsp_tf.evaluation._vectors import checked_embeddings, checked_images, checked_labels
from gsp_tf.evaluation.estimates import Estimate, check_resampling, class_copies, estimate
from gsp_tf.evaluation.exact_search import exact_ranking
from gsp_tf.evaluation.search_space import Metric

_BLOCK_ENTRIES = 1 << 22


class RankingMetrics:
    """Metrics of each query, for means with intervals and for tables.

    Args:
        values: floats `(Q,)` by name of the metric, NaN for a query without a positive.
        labels: integers `(Q,)`, the classes of the queries, which are resampled.

    Attributes:
        is_used: bools `(Q,)`, whether a query has a positive.
        num_queries: number of queries with a positive.

    Raises:
        ValueError: if there is no query with a positive.

    Example:
        >>> metrics = RankingMetrics({"recall_at_1": np.array([1.0, 0.0, 1.0])}, np.arange(3))
        >>> print(metrics.means()["recall_at_1"])
        0.6667 [0, 1]
        >>> metrics.by(["a", "b", "b"])["b"].means()["recall_at_1"].value
        0.5
    """

    def __init__(self, values: dict[str, np.ndarray], labels: np.ndarray):
        self.values, self.labels = values, labels
        self.is_used = np.isfinite(np.stack(list(values.values()))).all(axis=0)
        self.num_queries = int(np.count_nonzero(self.is_used))
        if not self.num_queries:
            raise ValueError(f"None of the {len(labels)} queries has a positive.")

    @classmethod
    def of(
        cls,
        nearest: Nearest,
        query_labels: ArrayLike,
        reference_labels: ArrayLike | None = None,
        at: Sequence[int] = (1, 5, 10),
        query_sources: ArrayLike | None = None,
        reference_sources: ArrayLike | None = None,
        relation: Relation = "equal",
        relation_threshold: float = 0.0,
    ) -> "RankingMetrics":
        """The metrics of `ranking_metrics` for any ranking, such as one that was re-ranked.

        Args:
            nearest: function from rows of queries, integers `(q,)`, and a depth k to the first k
                references of each, integers `(q, k)` with the best one first, and their distances,
                which are not used. `KReciprocalSearch` is one. It is called for blocks of queries.
            query_labels: integers `(Q,)` or `(Q, 1)`, or label vectors `(Q, C)`.
            reference_labels: integers `(N,)` or `(N, 1)`, or label vectors `(N, C)`; `None` if the
                queries search each other, and then no query may be among its own results.
            at: the values of K.
            query_sources, reference_sources, relation, relation_threshold: as in `ranking_metrics`.

        Example:
            >>> ranked = np.array([[1, 2], [0, 2], [1, 0]])
            >>> found = RankingMetrics.of(lambda rows, k: (ranked[rows, :k], None), [0, 0, 1])
            >>> found.means()["precision_at_1"].value, found.num_queries
            (1.0, 2)
        """
        labels = query_labels, reference_labels, relation, relation_threshold
        return _measured(nearest, positives_of(*labels, query_sources, reference_sources), at)

    def means(
        self, num_resamples: int = 1000, confidence: float = 0.95, seed: int = 0
    ) -> dict[str, Estimate]:
        """The mean of each metric over the queries, with an interval.

        Args:
            num_resamples: number of samples of the classes with replacement. A single class has no
                interval, and its ends are NaN.
            confidence: share of the resampled means in the interval.
            seed: seed of the samples.
        """
        check_resampling(num_resamples, confidence)
        used = np.stack([values[self.is_used] for values in self.values.values()])
        _, numbers = np.unique(self.labels[self.is_used], return_inverse=True)
        sizes = np.bincount(numbers)
        sums = np.stack([np.bincount(numbers, weights=values) for values in used], axis=1)
        count, block = len(sizes), max(1, _BLOCK_ENTRIES // len(sizes))
        resamples = class_copies(count, num_resamples if count > 1 else 0, seed, block)
        resampled = [copies @ sums / (copies @ sizes)[:, None] for copies in resamples]
        drawn = np.concatenate([np.empty((0, len(used))), *resampled])
        triples = zip(self.values, used.mean(axis=1), drawn.T, strict=True)
        return {name: estimate(mean, of, confidence) for name, mean, of in triples}

    def minus(self, other: "RankingMetrics") -> "RankingMetrics":
        """The difference to other metrics of the same queries, query by query.

        Its means have the intervals of a paired comparison: both sides take the same classes in
        each sample, so that what makes a class hard for both cancels out.

        Args:
            other: metrics of the same queries by another model or ranking.

        Example:
            >>> ours = RankingMetrics({"map_at_r": np.array([0.5, 0.7, 0.9])}, np.arange(3))
            >>> theirs = RankingMetrics({"map_at_r": np.array([0.4, 0.6, 0.8])}, np.arange(3))
            >>> print(ours.minus(theirs).means()["map_at_r"])
            0.1 [0.1, 0.1]
        """
        same_queries = np.array_equal(self.labels, other.labels)
        if not same_queries or self.values.keys() != other.values.keys():
            raise ValueError(
                "A paired comparison needs the same queries and metrics; received "
                f"{', '.join(self.values)} of {len(self.labels)} queries and "
                f"{', '.join(other.values)} of {len(other.labels)}, or their labels differ."
            )
        values = {name: found - other.values[name] for name, found in self.values.items()}
        return RankingMetrics(values, self.labels)

    def by(self, groups: ArrayLike | None = None) -> "dict[Any, RankingMetrics]":
        """The metrics of each group of queries, or of each class.

        Args:
            groups: `(Q,)`, the group of each query, such as its camera; `None` means its class.

        Returns:
            `RankingMetrics` by group, without groups that have no query with a positive.
        """
        groups = self.labels if groups is None else np.asarray(groups)
        if groups.shape != self.labels.shape:
            raise ValueError(
                f"groups must be one per query, {self.labels.shape}; received {groups.shape}."
            )
        rows = np.flatnonzero(self.is_used)
        rows = rows[np.argsort(groups[rows], kind="stable")]
        names, starts = np.unique(groups[rows], return_index=True)
        parts = np.split(rows, starts[1:])
        return {
            name: RankingMetrics(
                {metric: values[part] for metric, values in self.values.items()}, self.labels[part]
            )
            for name, part in zip(names.tolist(), parts, strict=True)
        }

    def class_means(self) -> "RankingMetrics":
        """The means of each class as one query, so that every class weighs the same.

        Their mean of `map_at_r` is that of `class_wise_map`.
        """
        classes, numbers = np.unique(self.labels[self.is_used], return_inverse=True)
        sizes = np.bincount(numbers)
        values = {
            name: np.bincount(numbers, weights=values[self.is_used]) / sizes
            for name, values in self.values.items()
        }
        return RankingMetrics(values, classes)


def ranking_metrics(
    queries: ArrayLike,
    query_labels: ArrayLike,
    references: ArrayLike | None = None,
    reference_labels: ArrayLike | None = None,
    at: Sequence[int] = (1, 5, 10),
    metric: Metric = "euclidean",
    query_sources: ArrayLike | None = None,
    reference_sources: ArrayLike | None = None,
    relation: Relation = "equal",
    relation_threshold: float = 0.0,
) -> RankingMetrics:
    """P@K, MAP@K, MRR@K, NDCG@K, Recall@K, R-precision and MAP@R of each query.

    With rel_i = 1 if the i-th nearest reference is a positive, R positives and the precision P(i)
    among the i nearest, P@K is P(K), MAP@K is the mean of `Σ_{i <= K} P(i) rel_i / min(K, R)`,
    MRR@K is 1 / rank of the first positive or 0 if it is not among the K nearest, and NDCG@K is
    `Σ_{i <= K} rel_i / log2(i + 1)` over its value with all positives first. Recall@K is 1 if any
    of the K nearest is a positive, as in `retrieval_metrics`. These are the definitions of
    sentence-transformers. Open Metric Learning divides P@K by min(K, R), and MAP@K by the number of
    positives among the K nearest.

    Re-identification leaves out references of the query's class from the same camera (Zheng et al.,
    "Scalable Person Re-identification: A Benchmark", ICCV 2015) or sequence: give the sources.

    With label vectors, such as multi-hot tags, a reference is a positive if its relation r to the
    query is above a threshold t, and NDCG@K has the gains rel_i = r_i of the positives (Järvelin
    and Kekäläinen 2002): `Σ_{i <= K} rel_i / log2(i + 1)` over its value for the references in
    falling order of r. The other metrics count positives. The samples of the intervals are drawn
    from the different label vectors.

    Args:
        queries, query_labels, references, reference_labels, metric: as in `retrieval_metrics`.
        at: the values of K.
        query_sources: integers `(Q,)`, the camera or sequence of each query; a query ignores
            references with its label and its source.
        reference_sources: integers `(N,)`; with references, given if and only if `query_sources`
            is.
        relation, relation_threshold: as in `retrieval_metrics`.

    Returns:
        `RankingMetrics`.

    Example:
        >>> embeddings = [[0.0], [1.0], [1.5], [9.0], [9.5], [4.0]]
        >>> found = ranking_metrics(embeddings, [0, 0, 1, 1, 1, 2], at=(2,))
        >>> found.values["mrr_at_2"]
        array([1. , 0.5, 0. , 1. , 1. , nan])
    """
    queries, query_labels, references, reference_labels = checked_images(
        queries, query_labels, references, reference_labels, relation
    )
    nearest = exact_ranking(queries, references, metric)
    labels, sources = (query_labels, reference_labels), (query_sources, reference_sources)
    return RankingMetrics.of(nearest, *labels, at, *sources, relation, relation_threshold)


def _measured(
    nearest: Nearest, positives: Positives | RelatedPositives, at: Sequence[int]
) -> RankingMetrics:
    """The metrics of a ranking at the given K."""
    at = checked_depths(at, "at")
    values: dict[str, np.ndarray] = {}
    for rows, hits in positives.hits(nearest, max(at, default=1)):
        best = positives.best(rows, max([*at, 1]))
        for name, found in _measures(hits, best, positives.counts[rows], at).items():
            values.setdefault(name, np.full(len(positives.labels), np.nan))[rows] = found
    return RankingMetrics(values, positives.labels)


def _measures(gains, best, positives, at):
    """All metrics `(b,)` of queries with positives, from gains `(b, k)` in order of distance."""
    hits = gains > 0
    found = query_metrics(hits, positives, at)
    ranks = np.arange(1, hits.shape[1] + 1)
    correct = np.cumsum(hits, axis=1)
    precisions = np.cumsum(hits * (correct / ranks), axis=1)
    gains, best = (_discounted(x) for x in (gains, best))
    first = np.where(hits.any(axis=1), 1 + hits.argmax(axis=1), np.inf)
    for k in at:
        last = min(k, hits.shape[1]) - 1
        most = np.minimum(k, positives)
        found[f"precision_at_{k}"] = correct[:, last] / k
        found[f"map_at_{k}"] = precisions[:, last] / most
        found[f"mrr_at_{k}"] = np.where(first <= k, 1 / first, 0.0)
        found[f"ndcg_at_{k}"] = gains[:, last] / best[:, min(k, best.shape[1]) - 1]
    return found


def _discounted(gains):
    """Sums `(b, k)` of the gains up to each rank, each over the logarithm of its rank."""
    return np.cumsum(gains / np.log2(np.arange(2, 2 + gains.shape[1])), axis=1)


def retrieval_metrics(
    queries: ArrayLike,
    query_labels: ArrayLike,
    references: ArrayLike | None = None,
    reference_labels: ArrayLike | None = None,
    recall_at: Sequence[int] = (1, 2, 4, 8),
    metric: Metric = "euclidean",
    relation: Relation = "equal",
    relation_threshold: float = 0.0,
) -> dict[str, float | int]:
    """Precision@1, R-precision, MAP@R and Recall@K of nearest-neighbour retrieval.

    For a query with R positives among the references, P(i) is the precision among its i nearest
    references. R-precision is P(R). MAP@R is the mean over i = 1..R of P(i) where the i-th is
    correct and 0 where it is not (Musgrave et al., A Metric Learning Reality Check, ECCV 2020, eq.
    3; Gürbüz, thesis 2022, section 1.2, where P(i) is misprinted as P(R)). Recall@K is the share of
    queries with a positive among their K nearest. The search is exact and runs over blocks of
    queries, so its memory does not grow with their number.

    With label vectors, such as multi-hot tags, a reference is a positive if its relation to the
    query is above a threshold, such as one shared tag.

    Args:
        queries: floats `(Q, D)`.
        query_labels: integers `(Q,)` or `(Q, 1)`; label vectors `(Q, C)` in [0, 1] for another
            relation than "equal".
        references: floats `(N, D)`; None searches the other queries, where each query is excluded
            by index from its own results.
        reference_labels: integers `(N,)` or `(N, 1)`, or label vectors `(N, C)`; None if and only
            if `references` is None.
        recall_at: the values of K. If there are fewer than K references, all are retrieved.
        metric: the distance of the search.
        relation: "any", "jaccard", "cosine", or a function, as in `gsp_tf.ops.label_relation`.
        relation_threshold: t in [0, 1): positives have a relation above t.

    Returns:
        `precision_at_1`, `r_precision`, `map_at_r` and `recall_at_K` for each K, floats in [0, 1]
        averaged over queries; `num_queries`, the number of queries averaged over; `num_skipped`,
        the number left out because no reference is a positive.

    Raises:
        ValueError: if no query has a positive, or all references are of one class, for then every
            order of them is right.

    Example:
        >>> embeddings = [[0.0], [1.0], [1.5], [9.0], [9.5], [4.0]]
        >>> metrics = retrieval_metrics(embeddings, [0, 0, 1, 1, 1, 2], recall_at=(1, 2))
        >>> {name: round(value, 3) for name, value in metrics.items()}
        {'precision_at_1': 0.6, 'r_precision': 0.4, 'map_at_r': 0.4, 'recall_at_1': 0.6,
         'recall_at_2': 0.8, 'num_queries': 5, 'num_skipped': 1}
    """
    recall_at = checked_depths(recall_at, "recall_at")
    queries, query_labels, references, reference_labels = checked_images(
        queries, query_labels, references, reference_labels, relation
    )
    nearest = exact_ranking(queries, references, metric)
    positives = positives_of(query_labels, reference_labels, relation, relation_threshold)
    sums: dict[str, float] = {}
    for rows, hits in positives.hits(nearest, max(recall_at, default=1)):
        for name, values in query_metrics(hits > 0, positives.counts[rows], recall_at).items():
            sums[name] = sums.get(name, 0.0) + values.sum()
    num_queries = int(np.count_nonzero(positives.counts))
    means = {name: float(total / num_queries) for name, total in sums.items()}
    num_skipped = len(positives.labels) - num_queries
    return means | {"num_queries": num_queries, "num_skipped": num_skipped}


def class_wise_map(
    queries: ArrayLike,
    query_labels: ArrayLike,
    references: ArrayLike | None = None,
    reference_labels: ArrayLike | None = None,
    metric: Metric = "euclidean",
) -> np.ndarray:
    """MAP@R of each class of queries; the mean over classes weighs all classes equally.

    MAP@R (Musgrave et al., A Metric Learning Reality Check, ECCV 2020, eq. 3) is averaged over the
    queries of one class at a time. `retrieval_metrics` averages over all queries instead, so that
    large classes weigh more.

    Args:
        queries: floats `(Q, D)`; all arguments are those of `retrieval_metrics`.

    Returns:
        floats `(classes,)` in [0, 1], in the order of `numpy.unique(query_labels)`. It is NaN for a
        class without a positive among the references, which `numpy.nanmean` leaves out.

    Example:
        >>> embeddings = [[0.0], [1.0], [1.5], [9.0], [9.5], [4.0]]
        >>> by_class = class_wise_map(embeddings, [0, 0, 1, 1, 1, 2])
        >>> by_class.round(3).tolist()
        [0.5, 0.333, nan]
        >>> np.nanmean(by_class).item()
        0.417
    """
    searched = queries, query_labels, references, reference_labels
    found = ranking_metrics(*searched, at=(), metric=metric)
    _, classes = np.unique(found.labels, return_inverse=True)
    return np.bincount(classes, weights=found.values["map_at_r"]) / np.bincount(classes)


def query_metrics(
    hits: np.ndarray, positives: np.ndarray, recall_at: Sequence[int]
) -> dict[str, np.ndarray]:
    """Metrics `(b,)` of queries with 1 to k positives, from hits `(b, k)` in order of distance."""
    ranks = np.arange(1, positives.max() + 1)
    within_r = hits[:, : len(ranks)] & (ranks <= positives[:, None])
    correct = np.cumsum(within_r, axis=1, dtype=np.int32)
    precision_at_hits = np.where(within_r, correct / ranks, 0.0)
    return {
        "precision_at_1": hits[:, 0],
        "r_precision": correct[:, -1] / positives,
        "map_at_r": precision_at_hits.sum(axis=1) / positives,
        **{f"recall_at_{depth}": hits[:, :depth].any(axis=1) for depth in recall_at},
    }


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
        num_resamples, confidence: as in `RankingMetrics.means`.
        seed: seed of the groups and of the samples.

    Returns:
        `grouped_recall_at_K` for each K.

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


def gallery_metrics(
    queries: ArrayLike,
    query_labels: ArrayLike,
    galleries: ArrayLike,
    references: ArrayLike | None = None,
    reference_labels: ArrayLike | None = None,
    at: Sequence[int] = (1, 5, 10),
    metric: Metric = "euclidean",
    query_sources: ArrayLike | None = None,
    reference_sources: ArrayLike | None = None,
) -> dict[Any, RankingMetrics]:
    """The metrics of `ranking_metrics` for the same queries in each of several galleries.

    A query that has no positive in a gallery is left out there, so the galleries can differ in
    their queries; `RankingMetrics.num_queries` counts them.

    Args:
        queries, query_labels, references, reference_labels: as in `retrieval_metrics`.
        galleries: `(N,)`, the gallery of each reference, such as its camera, shop or year.
        at, metric, query_sources, reference_sources: as in `ranking_metrics`.

    Returns:
        `RankingMetrics` by gallery, without galleries in which no query has a positive or all
        references are of one class.

    Example:
        >>> references, labels = [[0.1], [0.9], [0.4], [1.2]], [0, 1, 1, 0]
        >>> shops = ["left", "left", "right", "right"]
        >>> found = gallery_metrics([[0.0], [1.0]], [0, 1], shops, references, labels, at=(1,))
        >>> {name: of.means()["recall_at_1"].value for name, of in found.items()}
        {'left': 1.0, 'right': 0.0}
    """
    queries, query_labels, references, reference_labels = checked_images(
        queries, query_labels, references, reference_labels
    )
    if references is None:
        references, reference_labels = queries, query_labels
        if query_sources is None:
            query_sources = np.arange(len(queries))  # a query ignores itself alone
        reference_sources = query_sources
    galleries = np.asarray(galleries)
    if galleries.shape != (len(references),):
        raise ValueError(
            f"galleries must be one per reference, {(len(references),)}; received "
            f"{galleries.shape}."
        )
    if reference_sources is not None:
        reference_sources = checked_labels(reference_sources, len(references), "reference_sources")
    found, refused = {}, None
    names, numbers = np.unique(galleries, return_inverse=True)
    for number, gallery in enumerate(names.tolist()):
        rows = np.flatnonzero(numbers == number)
        sources = None if reference_sources is None else reference_sources[rows]
        try:
            positives = Positives(query_labels, reference_labels[rows], query_sources, sources)
        except ValueError as error:
            refused = error
            continue
        found[gallery] = _measured(exact_ranking(queries, references[rows], metric), positives, at)
    if not found:
        raise refused
    return found
