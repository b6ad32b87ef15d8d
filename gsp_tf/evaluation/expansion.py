"""Query expansion, database augmentation and whitening of embeddings."""

import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf.evaluation._vectors import (
    blocks,
    checked_count,
    checked_embeddings,
    checked_labels,
    rows_by_class,
    unit_vectors,
)
from gsp_tf.evaluation.exact_search import ExactSearch

_BLOCK = 1 << 12


def expand_queries(
    queries: ArrayLike,
    references: ArrayLike | None = None,
    neighbours: int = 10,
    alpha: float = 3.0,
) -> np.ndarray:
    """Replaces each query by the weighted sum of itself and its nearest references.

    Alpha query expansion (Radenović, Tolias, Chum, "Fine-tuning CNN Image Retrieval with No Human
    Annotation", TPAMI 2019): with vectors x of length 1, a neighbour has the weight `(qᵀx)^α` and
    the query 1, and the sum is scaled to length 1. α of 0 is the average of "Total Recall" (Chum et
    al., ICCV 2007). A neighbour with a negative similarity has the weight 0.

    Args:
        queries: floats `(Q, D)`.
        references: floats `(N, D)`; None takes neighbours among the other queries.
        neighbours: number of neighbours n, at most the number of references.
        alpha: power α >= 0 of the similarities.

    Returns:
        float32 `(Q, D)`, of length 1.

    Example:
        >>> expand_queries([[1.0, 0.0]], [[0.6, 0.8], [-1.0, 0.0]], neighbours=1).round(2)
        array([[0.99, 0.15]], dtype=float32)
    """
    if not 0 <= alpha < np.inf:
        raise ValueError(f"alpha must be at least 0 and finite; received {alpha}.")
    among_themselves = references is None
    queries = _units(queries, "queries")
    references = queries if among_themselves else _units(references, "references")
    search = ExactSearch(references, "cosine")
    n = checked_count("neighbours", neighbours, search.size - among_themselves)
    expanded = np.empty_like(queries)
    for block in blocks(len(queries), _BLOCK):
        exclude = np.arange(len(queries))[block] if among_themselves else None
        indices, _ = search(queries[block], n, exclude)
        sums = queries[block].astype(np.float64)
        for column in indices.T:
            near = references[column]
            similarity = np.einsum("nd,nd->n", queries[block], near)
            weights = np.where(similarity > 0, np.maximum(similarity, 0) ** alpha, 0)
            sums += weights[:, None] * near
        expanded[block] = unit_vectors(sums)
    return expanded


def augment_database(references: ArrayLike, neighbours: int = 10, alpha: float = 3.0) -> np.ndarray:
    """Replaces each reference by the weighted sum of itself and its nearest other references.

    Database-side feature augmentation (Arandjelović, Zisserman, "Three things everyone should know
    to improve object retrieval", CVPR 2012), with the weights of `expand_queries`. It is done once
    per database, so that a search costs the same as before.

    Args:
        references: floats `(N, D)`.
        neighbours: number of neighbours, at most N - 1.
        alpha: power of the similarities, at least 0.

    Returns:
        float32 `(N, D)`, of length 1.

    Example:
        >>> augment_database([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]], neighbours=1).round(2)
        array([[ 0.99,  0.15],
               [ 0.71,  0.7 ],
               [-1.  ,  0.  ]], dtype=float32)
    """
    return expand_queries(references, None, neighbours, alpha)


class PCAWhitening:
    """Projects embeddings on principal components and scales these to the same variance.

    "Negative evidences and co-occurrences in image retrieval: the benefit of PCA and whitening"
    (Jégou, Chum, ECCV 2012): `y = Λ^(-1/2) Uᵀ (x - mean)`, scaled to length 1, with the largest
    eigenvalues Λ of the covariance first. No labels are needed. Components without variance, below
    a millionth of the first one, are left out.

    Args:
        embeddings: floats `(N, D)` to take the mean and covariance from.

    Attributes:
        dim: number of components with variance.
        variances: float64 `(dim,)`, the eigenvalues, in descending order.

    Raises:
        ValueError: if the embeddings are all the same.

    Example:
        >>> whitening = PCAWhitening([[3.0, 0.1], [-3.0, 0.1], [3.0, -0.1], [-3.0, -0.1]])
        >>> whitening([[3.0, 0.1]]).round(2)
        array([[0.71, 0.71]], dtype=float32)
        >>> whitening([[3.0, 0.1]], dim=1)
        array([[1.]], dtype=float32)
    """

    def __init__(self, embeddings: ArrayLike):
        embeddings = checked_embeddings(embeddings, "embeddings")
        self._mean = embeddings.mean(axis=0, dtype=np.float64)
        covariance = np.zeros((embeddings.shape[1],) * 2)
        for rows in blocks(len(embeddings), _BLOCK):
            centred = embeddings[rows] - self._mean
            covariance += centred.T @ centred
        values, vectors = np.linalg.eigh(covariance / len(embeddings))
        values, vectors = values[::-1], vectors[:, ::-1]
        kept = values > 1e-6 * max(values[0], 0)
        if not kept.any():
            raise ValueError(f"The {len(embeddings)} embeddings are all the same.")
        self.variances = values[kept]
        self.dim = len(self.variances)
        self._projection = vectors[:, kept] / np.sqrt(self.variances)

    def __call__(self, embeddings: ArrayLike, dim: int | None = None) -> np.ndarray:
        """Whitens embeddings.

        Args:
            embeddings: floats `(n, D)`.
            dim: number of components to keep; None keeps all.

        Returns:
            float32 `(n, dim)`, of length 1.
        """
        embeddings = checked_embeddings(embeddings, "embeddings")
        if embeddings.shape[1] != len(self._mean):
            raise ValueError(
                f"embeddings must have dimension {len(self._mean)}; received {embeddings.shape[1]}."
            )
        dim = self.dim if dim is None else dim
        dim = checked_count("dim", dim, self.dim, ", the components with variance")
        projection = self._projection[:, :dim]
        projected = np.empty((len(embeddings), dim), np.float32)
        for rows in blocks(len(embeddings), _BLOCK):
            projected[rows] = unit_vectors((embeddings[rows] - self._mean) @ projection)
        return projected

    def sweep(self, dims: Sequence[int] | None = None) -> list[int]:
        """The dimensions to try: those given, else all components and halves of them down to 8.

        Args:
            dims: dimensions; those above `dim` are left out.

        Returns:
            dimensions in descending order, without repetition.
        """
        if dims is None:
            dims = [self.dim]
            while dims[-1] >= 16:
                dims.append(dims[-1] // 2)
        return sorted({dim for dim in map(operator.index, dims) if dim <= self.dim}, reverse=True)


class LearnedWhitening(PCAWhitening):
    """Projects embeddings so that differences of matched pairs have the unit covariance.

    Whitening learned from matched pairs (Mikolajczyk, Matas, "Improving Descriptors for Fast Tree
    Matching by Optimal Linear Projection", ICCV 2007; Radenović, Tolias, Chum, TPAMI 2019): with
    the covariance C_S of the differences of two embeddings of one class and C_D of two classes,
    `y = Uᵀ C_S^(-1/2) (x - mean)`, scaled to length 1. U are the eigenvectors of
    `C_S^(-1/2) C_D C_S^(-1/2)`, with the largest eigenvalues first.

    Args:
        embeddings: floats `(N, D)`.
        labels: integers `(N,)` or `(N, 1)`, the classes; two embeddings of one class are matched.

    Attributes:
        dim: D, the number of components.
        variances: float64 `(D,)`, the eigenvalues, in descending order: how much farther pairs of
            two classes differ than matched ones, squared.

    Raises:
        ValueError: if there is a single class, or the differences of matched pairs do not span
            all D dimensions.

    Example:
        >>> points = [[0.0, 1.0], [0.0, -1.0], [1.0, 1.0], [1.0, -1.0], [1.1, 1.0], [0.1, 1.0]]
        >>> whiten = LearnedWhitening(points, [0, 0, 1, 1, 1, 0])
        >>> left, right = whiten([[0.1, 1.0], [0.9, -1.0]], dim=1)
        >>> left * right
        array([-1.], dtype=float32)
    """

    def __init__(self, embeddings: ArrayLike, labels: ArrayLike):
        embeddings = checked_embeddings(embeddings, "embeddings")
        labels = checked_labels(labels, len(embeddings), "labels")
        classes = rows_by_class(labels)
        if len(classes) < 2:
            raise ValueError(f"Labels of two classes or more are needed; received {len(classes)}.")
        self._mean = embeddings.mean(axis=0, dtype=np.float64)
        # The differences of all pairs of n vectors have n times the scatter about their mean.
        scatters = np.zeros((2, embeddings.shape[1], embeddings.shape[1]))
        for rows in classes:
            centred = embeddings[rows] - self._mean
            scatters[0] += len(embeddings) * (centred.T @ centred)
            centred -= centred.mean(axis=0)
            scatters[1] += len(rows) * (centred.T @ centred)
        matched = sum(len(rows) * (len(rows) - 1) // 2 for rows in classes)
        different = len(embeddings) * (len(embeddings) - 1) // 2 - matched
        values, vectors = np.linalg.eigh(scatters[1] / max(matched, 1))
        if values[0] <= 1e-9 * values[-1]:
            raise ValueError(
                f"The differences of {matched:,} matched pairs do not span the "
                f"{embeddings.shape[1]} dimensions; more embeddings of the same classes are needed."
            )
        whitening = vectors / np.sqrt(values) @ vectors.T
        between = (scatters[0] - scatters[1]) / different
        values, vectors = np.linalg.eigh(whitening @ between @ whitening)
        self.variances = values[::-1]
        self.dim = len(values)
        self._projection = whitening @ vectors[:, ::-1]


def _units(embeddings, name):
    """Checked embeddings of length 1, float32."""
    return unit_vectors(checked_embeddings(embeddings, name)).astype(np.float32)
