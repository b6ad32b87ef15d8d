"""Ensembles of models by concatenated embeddings, every choice of one model a fold."""

import functools
import itertools
import math

import faiss
import numpy as np

from gsp_tf.evaluation.checks import checked_embeddings
from gsp_tf.evaluation.retrieval import (
    RetrievalMeans,
    checked_recall_at,
    count_labels,
    retrieval_metrics,
)
from gsp_tf.evaluation.search import power_of_two_below

BLOCK_BYTES = 1 << 28
PART_ROWS = 64


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
    reference_folds = query_folds if among_themselves else _checked_folds(references, "references")
    if [len(fold) for fold in query_folds] != [len(fold) for fold in reference_folds]:
        raise ValueError("queries and references must be of the same models.")
    single = [
        [
            retrieval_metrics(
                model,
                query_labels,
                None if among_themselves else reference,
                reference_labels,
                recall_at,
            )
            for model, reference in zip(fold, reference_fold, strict=True)
        ]
        for fold, reference_fold in zip(query_folds, reference_folds, strict=True)
    ]
    query_labels = np.ravel(query_labels)
    reference_labels = query_labels if among_themselves else np.ravel(reference_labels)
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
        scale = max(np.abs(model).max() for fold in reference_folds for model in fold)
        scale = power_of_two_below(scale)
        self.folds = [
            [_factors(*pair, scale) for pair in zip(queries, references, strict=True)]
            for queries, references in zip(query_folds, reference_folds, strict=True)
        ]
        self.size = len(reference_folds[0][0])

    def metrics(self, query_labels, reference_labels, recall_at):
        """dict from metric to float for every choice of models, in the order of their product."""
        positives = count_labels(query_labels, reference_labels) - self.among_themselves
        used = np.flatnonzero(positives)
        used = used[np.argsort(positives[used], kind="stable")]
        num_choices = math.prod(len(fold) for fold in self.folds)
        means = [RetrievalMeans(recall_at) for _ in range(num_choices)]
        num_models = sum(len(fold) for fold in self.folds)
        block = max(1, BLOCK_BYTES // (4 * self.size * num_models))
        for start in range(0, len(used), block):
            rows = used[start : start + block]
            same = reference_labels == query_labels[rows, None]
            depth = np.maximum(positives[rows], max(recall_at, default=1))
            depth = np.minimum(depth, self.size - self.among_themselves)
            for part, left, distances in self._candidates(rows, depth):
                is_same = np.take_along_axis(same[part], left, axis=1)
                k = int(depth[part].max())
                for mean, total in zip(means, _sums(distances), strict=True):
                    _, nearest = faiss.kmin(total, k)
                    hits = np.take_along_axis(is_same, nearest, axis=1)
                    mean.add(hits, positives[rows[part]])
        return [mean.metrics() for mean in means]

    def _candidates(self, rows, depth):
        """References that can be among the `depth` nearest of some queries in some concatenation.

        Yields parts of the rows that have similarly many: their places in `rows` `(p,)`, the
        references `(p, w)`, and for each fold the models' squared distances to them, `(p, w)` and
        infinite where a row has fewer than w.
        """
        distances = [[self._squared(model, rows) for model in fold] for fold in self.folds]
        # Sums in the order of `_sums`, so that rounding keeps lower <= sum <= upper.
        lower = sum(functools.reduce(np.minimum, fold) for fold in distances)
        upper = sum(functools.reduce(np.maximum, fold) for fold in distances)
        nearest, _ = faiss.kmin(upper, int(depth.max()))
        is_left = lower <= np.take_along_axis(nearest, depth[:, None] - 1, axis=1)
        counts = np.count_nonzero(is_left, axis=1)
        num_parts = -(-len(rows) // PART_ROWS)
        for part in np.array_split(np.argsort(counts, kind="stable"), num_parts):
            row, reference = np.nonzero(is_left[part])
            width = max(counts[part].max(), depth[part].max())
            place = row, np.arange(len(row)) - np.searchsorted(row, np.arange(len(part)))[row]
            left = np.zeros((len(part), width), int)
            left[place] = reference
            padded = []
            for fold in distances:
                padded.append([np.full(left.shape, np.inf, np.float32) for _ in fold])
                for model, of_left in zip(fold, padded[-1], strict=True):
                    of_left[place] = model[part[row], reference]
            yield part, left, padded

    def _squared(self, model, rows):
        """Squared distances `(b, N)` of one model, infinite from a query to itself."""
        queries, references = model
        squared = queries[rows] @ references.T
        if self.among_themselves:
            squared[np.arange(len(rows)), rows] = np.inf
        return squared


def _sums(distances):
    """The sums of one of the arrays of each fold, in the order of `itertools.product`."""
    *others, last = distances
    for total in _sums(others) if others else [None]:
        yield from last if total is None else (total + model for model in last)


def _factors(queries, references, scale):
    """Arrays `(Q, D + 2)` and `(N, D + 2)` whose product is the squared distances.

    The first reference is the origin and `scale` the unit, as `ExactSearch` takes them; the unit is
    that of all models.
    """
    queries, references = ((x - references[0]) / scale for x in (queries, references))
    query_norms, norms = (np.einsum("nd,nd->n", x, x)[:, None] for x in (queries, references))
    left = np.hstack([-2 * queries, query_norms, np.ones_like(query_norms)])
    return left, np.hstack([references, np.ones_like(norms), norms])


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
