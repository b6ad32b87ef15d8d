"""Ensembles that concatenate the embeddings of one model per fold."""

import functools
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import faiss
import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from gsp_tf.evaluation._positives import Positives, checked_depths
from gsp_tf.evaluation._vectors import (
    blocks,
    check_labelled,
    checked_embeddings,
    checked_labels,
    warn_of_own_images,
)
from gsp_tf.evaluation.retrieval import query_metrics
from gsp_tf.evaluation.search_space import correct_squares, power_of_two_below

_GROUPS = 1024


def _smallest_columns(values: np.ndarray, k: int) -> np.ndarray:
    """Columns `(b, k or more)` that hold the k smallest of each row of float32 `(b, w)` >= 0."""
    # Column c is in group c mod `_GROUPS`, and `_GROUPS` divides w. The k smallest values lie in
    # the k groups with the smallest minima; of equal minima, those of lower columns count.
    rows, width = values.shape
    if k >= _GROUPS:
        return np.broadcast_to(np.arange(width), values.shape)
    grouped, low = values.reshape(rows, -1, _GROUPS), np.arange(_GROUPS)
    minima = grouped.min(axis=1)
    last = np.partition(minima, k - 1, axis=1)[:, k - 1 : k]
    if np.count_nonzero(minima <= last) > rows * k:
        low = grouped.argmin(axis=1) * _GROUPS + low
    keys = _keys(minima, low)
    groups = np.partition(keys, k - 1, axis=1)[:, :k] % _GROUPS
    return (groups[:, None] + np.arange(0, width, _GROUPS)[:, None]).reshape(rows, -1)


def _ranked_flags(
    distances: np.ndarray, columns: np.ndarray, flags: np.ndarray, k: int
) -> np.ndarray:
    """Flags of the k smallest float32 distances >= 0 in order; ties go to the lower column."""
    keys = _keys(distances, columns << 1 | flags)
    if k < keys.shape[-1]:
        keys = np.partition(keys, k - 1, axis=-1)[..., :k]
    return (np.sort(keys, axis=-1) & 1).astype(bool)


def _keys(distances, low):
    """Integers that sort by distance, and by `low` where distances are equal."""
    # The bits of a non-negative float, read as an integer, sort like the float.
    keys = np.left_shift(distances.view(np.int32), 32, dtype=np.int64)
    keys |= low
    return keys


_BLOCK_BYTES = 1 << 29
_PIECE_ENTRIES = 1 << 16
_PART_ROWS = 64
_SEEDS_PER_NEIGHBOUR = 4


class _EnsembleRanking:
    """Ranks references by every model of several folds and by every choice of one per fold."""

    # The squared distance of a concatenation is the sum of those of its models. For each reference,
    # `lower` is the sum over folds of the smallest distance among the fold's models. A reference is
    # not among the k nearest of any concatenation if its `lower` exceeds the k-th smallest distance
    # of each. That distance is at most the k-th smallest among a subset of the references; the
    # subset holds those with the smallest `lower`. Concatenations rank only the other references.

    def __init__(self, query_folds, query_labels, reference_folds, reference_labels, recall_at):
        self._among_themselves = reference_folds is None
        folds = query_folds if self._among_themselves else reference_folds
        queries, references = (
            list(itertools.chain.from_iterable(models)) for models in (query_folds, folds)
        )
        self._size = len(references[0])
        self._width = (self._size // _GROUPS + 1) * _GROUPS  # with a column of padding or more
        self._query_labels = query_labels
        self._labels = np.append(reference_labels, np.zeros(self._width - self._size, int))
        self._recall_at = recall_at
        ends = np.cumsum([0, *map(len, query_folds)])
        self._folds = [slice(*pair) for pair in itertools.pairwise(ends)]
        units = np.array([power_of_two_below(np.abs(model).max()) for model in references])
        self._to_common_unit = np.maximum(np.square(units / units.max()), np.finfo(np.float32).tiny)
        self._factors = [
            _factors(*model, self._width) for model in zip(queries, references, units, strict=True)
        ]

    def metrics(self, positives: np.ndarray) -> tuple[list[dict], list[dict]]:
        """Mean metrics of each model, and of each choice in the order of `itertools.product`."""
        used = np.flatnonzero(positives)
        used = used[np.argsort(positives[used], kind="stable")]
        num_models = len(self._factors)
        num_rows = min(len(used), max(1, _BLOCK_BYTES // (4 * self._width * num_models)))
        block = np.empty((num_models, num_rows, self._width), np.float32)
        num_threads = faiss.omp_get_max_threads()
        sums = []
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(num_threads) as pool:
            for start in range(0, len(used), num_rows):
                rows = used[start : start + num_rows]
                distances = block[:, : len(rows)]
                measure = functools.partial(self._measure, rows)
                list(pool.map(measure, self._factors, distances))
                num_parts = num_threads * -(-len(rows) // (num_threads * _PART_ROWS))
                parts = blocks(len(rows), -(-len(rows) // num_parts))[::-1]  # the longest first
                sums += pool.map(
                    self._sums,
                    [distances[:, part] for part in parts],
                    [rows[part] for part in parts],
                    [positives[rows[part]] for part in parts],
                )
        names = sums[0].keys()
        means = np.array([sum(part[name] for part in sums) for name in names]) / len(used)
        every = [dict(zip(names, values, strict=True)) for values in means.T.tolist()]
        return every[:num_models], every[num_models:]

    def _measure(self, rows, factors, out):
        """Write squared distances of queries, infinite to the query itself and to the padding."""
        queries, references = factors
        np.matmul(queries[rows], references, out=out)
        if self._among_themselves:
            out[np.arange(len(rows)), rows] = np.inf
        correct_squares(out, queries[rows, :-2] / -2, references[:-2].T)

    def _sums(self, distances, rows, positives):
        """Sums over queries of each metric; converts distances `(models, b, width)` to one unit."""
        depth = max(positives.max(), *self._recall_at, 1)
        depth = min(depth, self._size - self._among_themselves)
        labels = self._query_labels[rows, None]
        single = []
        for model, unit in zip(distances, self._to_common_unit, strict=True):
            columns = _smallest_columns(model, depth)
            is_same = self._labels[columns] == labels
            near = np.take_along_axis(model, columns, axis=1)
            hits = _ranked_flags(near, columns, is_same, depth)
            single.append(self._metric_sums(hits[None], positives))
            if unit != 1:
                model *= unit
        concatenated = []
        for places, columns in self._candidates(distances, depth):
            is_same = self._labels[columns] == labels[places]
            left = [model[places[:, None], columns] for model in distances]
            per_choice = [
                self._metric_sums(_ranked_flags(total, columns, is_same, depth), positives[places])
                for total in self._totals(np.stack(left))
            ]
            concatenated.append(_joined(per_choice, np.concatenate))
        concatenated = _joined(concatenated, lambda parts: np.sum(parts, axis=0))
        return _joined([*single, concatenated], np.concatenate)

    def _candidates(self, distances, depth):
        """Rows `(p,)` of queries, and padded `(p, w)` references that can be nearest to them."""
        lower = np.empty(distances.shape[1:], np.float32)
        for rows in blocks(len(lower), max(1, _PIECE_ENTRIES // self._width)):
            # Summation in the order of `_totals` keeps rounding from making these sums larger.
            smallest = [distances[fold, rows].min(axis=0) for fold in self._folds]
            lower[rows] = functools.reduce(np.add, smallest)
        limits = np.empty(len(lower), np.float32)
        seeds = _smallest(lower, min(_SEEDS_PER_NEIGHBOUR * depth, self._size))
        for rows in _pieces(np.arange(len(lower)), seeds.shape[1]):
            seed_distances = np.stack([model[rows[:, None], seeds[rows]] for model in distances])
            limits[rows] = functools.reduce(
                np.maximum,
                (
                    np.partition(total, depth - 1, axis=-1)[..., depth - 1].max(axis=0)
                    for total in self._totals(seed_distances)
                ),
            )
        is_left = lower <= limits[:, None]
        counts = np.count_nonzero(is_left, axis=1)
        columns = np.split(np.flatnonzero(is_left) % self._width, np.cumsum(counts)[:-1])
        for rows in _pieces(np.argsort(counts, kind="stable"), counts.max()):
            left = np.full((len(rows), counts[rows].max()), self._size)
            is_filled = np.arange(left.shape[1]) < counts[rows, None]
            left[is_filled] = np.concatenate([columns[row] for row in rows])
            yield rows, left

    def _totals(self, distances):
        """Distances `(r, b, w)` of r concatenations at a time, from those of models `(m, b, w)`."""
        *folds, last = (distances[fold] for fold in self._folds)
        for choice in itertools.product(*folds):
            yield functools.reduce(np.add, choice) + last if choice else last

    def _metric_sums(self, hits, positives):
        """Sums `(c,)` over queries of each metric, from hits `(c, b, k)`."""
        num_rankings, num_rows, depth = hits.shape
        values = query_metrics(
            hits.reshape(-1, depth), np.tile(positives, num_rankings), self._recall_at
        )
        return {
            name: by_query.reshape(num_rankings, num_rows).sum(axis=1)
            for name, by_query in values.items()
        }


def _factors(queries, references, unit, width):
    """Factors `(Q, D + 2)` and `(D + 2, width)` of the matrix of squared distances."""
    # The first reference is the origin and `unit` is the unit of length, as in `ExactSearch`.
    # Columns after the last reference are infinitely far from everything.
    queries, references = ((x / unit - references[0] / unit) for x in (queries, references))
    query_norms, norms = (np.einsum("nd,nd->n", x, x)[:, None] for x in (queries, references))
    if not np.isfinite(4 * (query_norms.max() + norms.max())):
        raise ValueError("queries lie too far from the references for float32 distances.")
    left = np.hstack([-2 * queries, query_norms, np.ones_like(query_norms)])
    right = np.zeros((width, left.shape[1]), np.float32)
    right[: len(references)] = np.hstack([references, np.ones_like(norms), norms])
    right[len(references) :, -1] = np.inf
    return left, right.T


def _smallest(values, k):
    """Columns of the k smallest values of each row `(b, k)`, in no order."""
    columns = _smallest_columns(values, k)
    least = np.argpartition(np.take_along_axis(values, columns, axis=1), k - 1, axis=1)[:, :k]
    return np.take_along_axis(columns, least, axis=1)


def _pieces(rows, width):
    """The rows, split into pieces of about `_PIECE_ENTRIES` entries."""
    return np.array_split(rows, min(len(rows), -(-len(rows) * width // _PIECE_ENTRIES)))


def _joined(parts, join):
    """The arrays of several dicts, joined by name."""
    return {name: join([part[name] for part in parts]) for name in parts[0]}


def ensemble_metrics(
    queries: Sequence[Sequence[ArrayLike]],
    query_labels: ArrayLike,
    references: Sequence[Sequence[ArrayLike]] | None = None,
    reference_labels: ArrayLike | None = None,
    recall_at: Sequence[int] = (1, 2, 4, 8),
) -> dict:
    """Retrieval metrics of models of several folds, alone and with embeddings concatenated.

    With r models per fold there are r^F ways to choose one model from each of the F folds ("A
    Metric Learning Reality Check", Musgrave et al., ECCV 2020: F = 4). Without references, the
    metrics of a choice are by definition

        separated = mean(retrieval_metrics(model, labels) for model in choice)
        concatenated = retrieval_metrics(np.concatenate(choice, axis=1), labels)

    with choice in `itertools.product(*queries)`. This function finds the same numbers in a fraction
    of the time. It computes the distances of every model once, and a concatenation ranks only the
    references that can be near in it. These are few if the models of a fold agree. Memory: half a
    GiB of distances. Distances equal in float32 rank in the order of the references.

    Args:
        queries: embeddings of the models of each fold, floats `(Q, D)`.
        query_labels: integers `(Q,)`.
        references: like `queries`, floats `(N, D)`; None searches the other queries.
        reference_labels: integers `(N,)`.
        recall_at: the K of Recall@K.

    Returns:
        dict. `separated` and `concatenated` each hold two dicts from metric to float: `mean` and
        `std` over the choices (sample standard deviation, `None` for a single choice). `choices` is
        the number of choices. `num_queries` and `num_skipped` are those of `retrieval_metrics`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> folds = [[rng.normal(size=(8, 2)) for model in range(3)] for fold in range(4)]
        >>> metrics = ensemble_metrics(folds, np.arange(8) // 2)
        >>> metrics["choices"], sorted(metrics["concatenated"])
        (81, ['mean', 'std'])
    """
    recall_at = checked_depths(recall_at, "recall_at")
    check_labelled(references, reference_labels)
    folds = _checked_folds(queries, "queries")
    query_labels = checked_labels(query_labels, len(folds[0][0]), "query_labels")
    if references is None:
        reference_folds, reference_labels = None, query_labels
    else:
        reference_folds = _checked_folds(references, "references")
        size = len(reference_folds[0][0])
        reference_labels = checked_labels(reference_labels, size, "reference_labels")
        dims = [[[x.shape[1] for x in fold] for fold in part] for part in (folds, reference_folds)]
        if dims[0] != dims[1]:
            raise ValueError(
                "queries and references must be of the same models; received models of "
                f"{dims[0]} and {dims[1]} dimensions."
            )
        warn_of_own_images(folds[0][0], reference_folds[0][0])
    gallery_labels = None if references is None else reference_labels
    positives = Positives(query_labels, gallery_labels).counts
    single, concatenated = _EnsembleRanking(
        folds, query_labels, reference_folds, reference_labels, recall_at
    ).metrics(positives)
    remaining = iter(single)
    by_fold = [list(itertools.islice(remaining, len(fold))) for fold in folds]
    separated = [
        {name: np.mean([metrics[name] for metrics in models]) for name in single[0]}
        for models in itertools.product(*by_fold)
    ]
    num_queries = int(np.count_nonzero(positives))
    return {
        "separated": _over_choices(separated),
        "concatenated": _over_choices(concatenated),
        "choices": len(concatenated),
        "num_queries": num_queries,
        "num_skipped": len(positives) - num_queries,
    }


def _checked_folds(folds, name):
    """Embeddings of each fold's models as arrays with equal numbers of rows."""
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
    """Mean and sample standard deviation of each metric."""
    values = {name: [choice[name] for choice in metrics] for name in metrics[0]}
    return {
        "mean": {name: float(np.mean(v)) for name, v in values.items()},
        "std": {
            name: float(np.std(v, ddof=1)) if len(v) > 1 else None for name, v in values.items()
        },
    }
