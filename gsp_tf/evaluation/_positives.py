"""Which references are positives of which queries, and where a ranking puts them."""

import operator
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._typing import Relation
from gsp_tf.evaluation._vectors import blocks, checked_label_vectors, checked_labels

Nearest = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]
"""Function from rows `(b,)` of queries and k to indices and distances `(b, k)`, nearest first."""

_BLOCK_ENTRIES = 1 << 20
_RELATED_ENTRIES = 1 << 22


class Positives:
    """The references with the label of each query, without those that a query ignores."""

    # `labels` are the classes of the queries, `counts` the numbers of their positives. A query
    # ignores the references with its label and its source. Without reference labels the queries
    # search each other, and rankings leave out the query itself.

    def __init__(
        self,
        query_labels: ArrayLike,
        reference_labels: ArrayLike | None = None,
        query_sources: ArrayLike | None = None,
        reference_sources: ArrayLike | None = None,
    ):
        self.labels = checked_labels(query_labels, np.size(query_labels), "query_labels")
        among_themselves = reference_labels is None
        if among_themselves and reference_sources is not None:
            raise ValueError(
                "reference_sources are those of references; received none. Without references, the "
                "queries search each other by query_sources."
            )
        if among_themselves:
            reference_labels, reference_sources = self.labels, query_sources
        size = np.size(reference_labels)
        self._of_references = checked_labels(reference_labels, size, "reference_labels")
        self._available = size - among_themselves
        self.counts = _count(self.labels, self._of_references) - among_themselves
        self._ignored = np.zeros_like(self.counts)
        if (query_sources is None) != (reference_sources is None):
            raise ValueError("query_sources and reference_sources go together; received only one.")
        self._sources = None
        if query_sources is not None:
            sources = checked_labels(query_sources, len(self.labels), "query_sources")
            of_references = checked_labels(reference_sources, size, "reference_sources")
            self._sources = sources, of_references
            both = (self.labels, sources), (self._of_references, of_references)
            self._ignored = _count(*_numbered(*both)) - among_themselves
        self.counts -= self._ignored
        if not self.counts.any():
            missing = "; at least one label must occur in both"
            if query_sources is not None:
                missing = ", without those of its own source"
            raise ValueError(
                f"None of the {len(self.counts)} queries has a positive among the references, so "
                f"there is nothing to average{missing}."
            )
        if (self._of_references == self._of_references[0]).all():
            raise ValueError(
                f"All {size} references are of class {self._of_references[0]}, so every order of "
                "them is right; references of at least two classes are needed."
            )

    def hits(self, nearest: Nearest, depth: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows `(b,)` of queries with positives, and which of their results `(b, k)` are any."""
        # k is `depth` or the largest number of positives, but at most that of references.
        depth = max(depth, self.counts.max())
        k = int(min(self._available, depth + self._ignored.max()))
        for rows, indices in _ranked(nearest, self.counts, k, max(1, _BLOCK_ENTRIES // k)):
            yield rows, self._are_positive(rows, indices)[:, :depth]

    def best(self, rows: np.ndarray, depth: int) -> np.ndarray:
        """What `hits` gives at the first ranks `(b, depth)` of the best ranking."""
        return np.arange(depth) < self.counts[rows, None]

    def _are_positive(self, rows, indices):
        """Whether results are positives, with ignored ones moved to the end."""
        hits = self._of_references[indices] == self.labels[rows, None]
        if self._sources is None:
            return hits
        sources, of_references = self._sources
        ignored = hits & (of_references[indices] == sources[rows, None])
        order = np.argsort(ignored, axis=1, kind="stable")
        return np.take_along_axis(hits & ~ignored, order, axis=1)


class RelatedPositives:
    """The references that are related to each query, and how much; as `Positives`."""

    # `labels` are numbers of the label vectors of the queries, and what `hits` gives is the
    # relation of a positive, which is not 0, or 0.

    def __init__(
        self,
        query_labels: np.ndarray,
        reference_labels: np.ndarray | None,
        relation: Relation,
        relation_threshold: float,
    ):
        if not 0 <= relation_threshold < 1:
            raise ValueError(
                f"relation_threshold must be at least 0 and below 1; received {relation_threshold}."
            )
        self._of_queries = query_labels
        self._among_themselves = reference_labels is None
        self._of_references = query_labels if reference_labels is None else reference_labels
        self._relation, self._threshold = relation, relation_threshold
        _, numbers = np.unique(query_labels, axis=0, return_inverse=True)
        self.labels = numbers.reshape(-1)
        self._block = max(1, _RELATED_ENTRIES // len(self._of_references))
        rows = np.arange(len(query_labels))
        gains = (self._gains(rows[part]) for part in blocks(len(rows), self._block))
        self.counts = np.concatenate([np.count_nonzero(x, axis=1) for x in gains])
        if not self.counts.any():
            raise ValueError(
                f"None of the {len(self.counts)} queries has a related reference, so there is "
                f"nothing to average (relation={relation!r} above {relation_threshold})."
            )

    def hits(self, nearest: Nearest, depth: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows `(b,)` of queries with positives, and the relations of their results `(b, k)`."""
        available = len(self._of_references) - self._among_themselves
        k = int(min(available, max(depth, self.counts.max())))
        for rows, indices in _ranked(nearest, self.counts, k, self._block):
            yield rows, np.take_along_axis(self._gains(rows), indices, axis=1)

    def best(self, rows: np.ndarray, depth: int) -> np.ndarray:
        """What `hits` gives at the first ranks `(b, depth)` of the best ranking."""
        return -np.sort(-self._gains(rows), axis=1)[:, :depth]

    def _gains(self, rows):
        """The relations of queries to all references `(b, N)`, 0 for negatives."""
        from keras import ops

        from gsp_tf.ops import label_relation

        related = label_relation(self._of_queries[rows], self._of_references, self._relation)
        related = ops.convert_to_numpy(related)
        related = np.where(related > self._threshold, related, 0.0)
        if self._among_themselves:
            related[np.arange(len(rows)), rows] = 0.0
        return related


def positives_of(
    query_labels: ArrayLike,
    reference_labels: ArrayLike | None,
    relation: Relation,
    relation_threshold: float,
    query_sources: ArrayLike | None = None,
    reference_sources: ArrayLike | None = None,
) -> Positives | RelatedPositives:
    """The positives of queries whose labels are classes, or label vectors for other relations."""
    if relation == "equal":
        return Positives(query_labels, reference_labels, query_sources, reference_sources)
    if query_sources is not None or reference_sources is not None:
        raise ValueError(
            f"Sources belong to relation='equal'; received them with relation={relation!r}."
        )
    query_labels, reference_labels = (
        None if labels is None else checked_label_vectors(labels, len(labels), name, relation)
        for labels, name in ((query_labels, "query_labels"), (reference_labels, "reference_labels"))
    )
    return RelatedPositives(query_labels, reference_labels, relation, relation_threshold)


def _ranked(nearest, counts, k, size):
    """Rows of queries with positives, in blocks of a size, and their first k results."""
    used = np.flatnonzero(counts)
    for part in blocks(len(used), size):
        rows = used[part]
        indices = np.asarray(nearest(rows, k)[0])
        if indices.shape != (len(rows), k) or indices.dtype.kind not in "iu":
            raise ValueError(
                f"A ranking must give {(len(rows), k)} integers, the references of the first "
                f"{k} ranks; received {indices.dtype} {indices.shape}."
            )
        yield rows, indices


def checked_depths(depths: Sequence[int], name: str) -> tuple[int, ...]:
    """The values of K as integers; `ValueError` if one is below 1."""
    depths = tuple(operator.index(depth) for depth in depths)
    if any(depth < 1 for depth in depths):
        raise ValueError(f"{name} must hold integers of at least 1; received {depths}.")
    return depths


def _count(query_labels, reference_labels):
    """Number of references `(Q,)` with the label of each query."""
    classes, counts = np.unique(reference_labels, return_counts=True)
    position = np.minimum(np.searchsorted(classes, query_labels), len(classes) - 1)
    return np.where(classes[position] == query_labels, counts[position], 0)


def _numbered(queries, references):
    """Pairs of label and source of queries and of references as numbers."""
    pairs = [np.stack(pair, axis=1) for pair in (queries, references)]
    _, numbers = np.unique(np.concatenate(pairs), axis=0, return_inverse=True)
    return np.split(numbers.ravel(), [len(pairs[0])])
