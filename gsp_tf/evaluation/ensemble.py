"""Ensembles of models by concatenated embeddings, every choice of one model a fold."""

import functools
import itertools

import numpy as np

from gsp_tf.evaluation.checks import checked_embeddings, checked_labels
from gsp_tf.evaluation.retrieval import (
    RetrievalMeans,
    checked_recall_at,
    count_labels,
    retrieval_metrics,
)

BLOCK_BYTES = 1 << 28


def ensemble_metrics(
    queries, query_labels, references=None, reference_labels=None, recall_at=(1, 2, 4, 8)
):
    """Retrieval metrics of the models of several folds, alone and with embeddings concatenated.

    With r models a fold there are r^F ways to choose one model of each of the F folds ("A Metric
    Learning Reality Check", Musgrave et al., ECCV 2020: F = 4). For each of them `separated` is the
    mean over its F models, `concatenated` the metrics of their embeddings side by side.

    The squared distance of a concatenation is the sum of those of its models. So each model's
    distances are computed once; with `lower` the sum over folds of the smallest distance among the
    fold's models, and `upper` that of the largest, a reference whose `lower` exceeds the k-th
    smallest `upper` of a query is among the k nearest of no concatenation. Only the others are
    ranked r^F times. Time: F r searches in D dimensions, plus r^F rankings of the references that
    are left, few where the models of a fold agree; memory: F r blocks of distances, 256 MiB in all.

    Args:
        queries: for each fold a list of the embeddings of its models, float arrays `(Q, D)`.
        query_labels: integer array `(Q,)`.
        references: as `queries`, arrays `(N, D)`; None searches the other queries.
        reference_labels: integer array `(N,)`.
        recall_at: the K of Recall@K.

    Returns:
        dict with, for `separated` and `concatenated`, a dict of two dicts from metric to float:
        `mean` and `std` (sample standard deviation, `None` for a single choice) over the choices;
        `choices`, their number; `num_queries` and `num_skipped`.

    Raises:
        ValueError: as `retrieval_metrics`, and if a fold has no model or shapes do not fit.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> folds = [[rng.normal(size=(8, 2)) for model in range(3)] for fold in range(4)]
        >>> metrics = ensemble_metrics(folds, np.arange(8) // 2)
        >>> metrics["choices"], sorted(metrics["concatenated"])
        (81, ['mean', 'std'])
    """
    recall_at = checked_recall_at(recall_at)
    among_themselves = references is None
    query_folds = _checked_folds(queries, "queries")
    query_labels = checked_labels(query_labels, len(query_folds[0][0]), "query_labels")
    if among_themselves:
        reference_folds, reference_labels = query_folds, query_labels
    else:
        reference_folds = _checked_folds(references, "references")
        size = len(reference_folds[0][0])
        reference_labels = checked_labels(reference_labels, size, "reference_labels")
    if [len(fold) for fold in query_folds] != [len(fold) for fold in reference_folds]:
        raise ValueError("queries and references must be of the same models.")
    single = [
        [
            retrieval_metrics(
                model,
                query_labels,
                None if among_themselves else reference,
                None if among_themselves else reference_labels,
                recall_at,
            )
            for model, reference in zip(fold, reference_fold, strict=True)
        ]
        for fold, reference_fold in zip(query_folds, reference_folds, strict=True)
    ]
    counts = {name: single[0][0].pop(name) for name in ("num_queries", "num_skipped")}
    separated = [
        {name: np.mean([metrics[name] for metrics in models]) for name in single[0][0]}
        for models in itertools.product(*single)
    ]
    concatenated = _Concatenations(query_folds, reference_folds, among_themselves).metrics(
        query_labels, reference_labels, recall_at
    )
    return {
        "separated": _over_choices(separated),
        "concatenated": _over_choices(concatenated),
        "choices": len(separated),
        **counts,
    }


class _Concatenations:
    """The concatenations of one model a fold, and what they retrieve."""

    def __init__(self, query_folds, reference_folds, among_themselves):
        self.among_themselves = among_themselves
        self.folds = [
            [_shifted(*pair) for pair in zip(queries, references, strict=True)]
            for queries, references in zip(query_folds, reference_folds, strict=True)
        ]
        self.choices = list(itertools.product(*(range(len(fold)) for fold in self.folds)))
        self.size = len(reference_folds[0][0])

    def metrics(self, query_labels, reference_labels, recall_at):
        """dict from metric to float for every choice of models."""
        positives = count_labels(query_labels, reference_labels) - self.among_themselves
        used = np.flatnonzero(positives)
        used = used[np.argsort(positives[used], kind="stable")]
        means = [RetrievalMeans(recall_at) for _ in self.choices]
        num_models = sum(len(fold) for fold in self.folds)
        block = max(1, BLOCK_BYTES // (4 * self.size * num_models))
        for start in range(0, len(used), block):
            rows = used[start : start + block]
            k = max(positives[rows].max(), max(recall_at, default=1))
            k = min(k, self.size - self.among_themselves)
            same = reference_labels == query_labels[rows, None]
            for mean, nearest in zip(means, self._nearest(rows, k), strict=True):
                mean.add(np.take_along_axis(same, nearest, axis=1), positives[rows])
        return [mean.metrics() for mean in means]

    def _nearest(self, rows, k):
        """The k nearest references `(b, k)` of some queries, for one choice after the other."""
        distances = [[self._squared(model, rows) for model in fold] for fold in self.folds]
        # Sums in the order of the choices below, so that rounding keeps lower <= sum <= upper.
        lower = sum(functools.reduce(np.minimum, fold) for fold in distances)
        upper = sum(functools.reduce(np.maximum, fold) for fold in distances)
        reach = np.partition(upper, k - 1, axis=1)[:, k - 1 : k]
        width = np.count_nonzero(lower <= reach, axis=1).max()
        left = np.sort(np.argpartition(lower, width - 1, axis=1)[:, :width], axis=1)
        distances = [
            [np.take_along_axis(model, left, axis=1) for model in fold] for fold in distances
        ]
        for choice in self.choices:
            total = sum(fold[model] for fold, model in zip(distances, choice, strict=True))
            order = np.argsort(total, axis=1, kind="stable")[:, :k]
            yield np.take_along_axis(left, order, axis=1)

    def _squared(self, model, rows):
        """Squared distances `(b, N)` of one model, infinite from a query to itself."""
        queries, references, squared_norms = model
        queries = queries[rows]
        squared = (-2 * queries) @ references.T
        squared += squared_norms
        squared += np.einsum("qd,qd->q", queries, queries)[:, None]
        if self.among_themselves:
            squared[np.arange(len(rows)), rows] = np.inf
        return squared


def _shifted(queries, references):
    """Both with the first reference as origin, as `ExactSearch` takes them, and squared norms."""
    queries, references = queries - references[0], references - references[0]
    return queries, references, np.einsum("nd,nd->n", references, references)


def _checked_folds(folds, name):
    folds = [
        [checked_embeddings(model, f"{name}[{f}][{r}]") for r, model in enumerate(fold)]
        for f, fold in enumerate(folds)
    ]
    if not folds or not all(folds):
        raise ValueError(
            f"{name} must hold the embeddings of at least one model for every fold; received "
            f"{[len(fold) for fold in folds]} models."
        )
    sizes = {len(model) for fold in folds for model in fold}
    if len(sizes) > 1:
        raise ValueError(
            f"{name} of all models must be of the same images; received {sorted(sizes)} rows."
        )
    return folds


def _over_choices(metrics):
    values = {name: [choice[name] for choice in metrics] for name in metrics[0]}
    return {
        "mean": {name: float(np.mean(of)) for name, of in values.items()},
        "std": {
            name: float(np.std(of, ddof=1)) if len(of) > 1 else None for name, of in values.items()
        },
    }
