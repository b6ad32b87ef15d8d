"""Re-ranking by the partial transport between the local features of two images."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._arguments import check_share, check_sizes
from gsp_tf._console import show_progress
from gsp_tf.evaluation._vectors import blocks, checked_count, unit_vectors

_BLOCK_PAIRS = 2048
_LARGEST = 127, 255  # of a component and of a weight


class TokenSets(NamedTuple):
    """The k local features of each image that weigh most, in bytes.

    Attributes:
        tokens: int8 `(N, k, D)`, directions of the features; the largest component is 127 or -127.
        weights: uint8 `(N, k)`, their weights in units of 1/255 of the largest of an image; 0 where
            an image has fewer features.
        places: uint16 `(N, k)`, their positions in the map, row by row.

    Example:
        >>> sets = TokenSets.pack([[[0.6, 0.8], [2.0, 0.0]]], [[0.1, 0.3]], k=1)
        >>> sets.tokens.tolist(), sets.weights.tolist(), sets.places.tolist()
        ([[[127, 0]]], [[255]], [[1]])
    """

    tokens: np.ndarray
    weights: np.ndarray
    places: np.ndarray

    @classmethod
    def pack(cls, features: ArrayLike, weights: ArrayLike, k: int) -> "TokenSets":
        """The k features of each image with the largest weights.

        Args:
            features: floats `(N, n, D)`.
            weights: non-negative floats `(N, n)`, such as the pooling weights of GSP.
            k: number of features to keep, at most n.
        """
        features, weights = np.asarray(features, np.float32), np.asarray(weights, np.float32)
        if features.ndim != 3 or weights.shape != features.shape[:2]:
            raise ValueError(
                "features must be (N, n, D) and weights (N, n); received "
                f"{features.shape} and {weights.shape}."
            )
        if not (np.isfinite(features).all() and np.isfinite(weights).all() and weights.min() >= 0):
            raise ValueError("features and weights must be finite, and weights not negative.")
        k = checked_count("k", k, features.shape[1], ", the local features of an image")
        places = np.argsort(-weights, axis=1, kind="stable")[:, :k]
        kept = np.take_along_axis(features, places[..., None], axis=1)
        kept_weights = np.take_along_axis(weights, places, axis=1)
        largest = np.abs(kept).max(axis=2, keepdims=True)
        tokens = kept / np.where(largest > 0, largest, 1) * _LARGEST[0]
        heaviest = kept_weights[:, :1]
        shares = kept_weights / np.where(heaviest > 0, heaviest, 1) * _LARGEST[1]
        return cls(
            np.rint(tokens).astype(np.int8),
            np.rint(shares).astype(np.uint8),
            places.astype(np.uint16),
        )

    @classmethod
    def join(cls, parts: "Sequence[TokenSets]") -> "TokenSets":
        """The token sets of several parts, one after the other."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def take(self, rows: ArrayLike) -> "TokenSets":
        """The token sets of some images."""
        return TokenSets(*(values[rows] for values in self))

    @property
    def bytes_per_image(self) -> int:
        """Bytes that the tokens, weights and places of an image take."""
        return sum(values[:1].nbytes for values in self)


def match_tokens(
    queries: TokenSets,
    references: TokenSets,
    transport_ratio: float = 0.5,
    entropy_smoothing: float = 10.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Matches the tokens of pairs of images by partial transport.

    The cost of two tokens is `1 - cosine`, and `gsp_tf.ops.partial_set_transport` moves the share μ
    of the mass, the weights of both images scaled to sum 1. Tokens without a partner, such as those
    of different backgrounds, keep their mass.

    Args:
        queries: token sets of P images.
        references: token sets of the P images to compare them with.
        transport_ratio: μ in (0, 1].
        entropy_smoothing: ε > 0.

    Returns:
        distances float32 `(P,)` in [0, 2], the mean cost of the moved mass, `Σ c_ij π_ij / μ`; and
        plans float32 `(P, k, l)` with sum μ.

    Example:
        >>> query = TokenSets.pack([[[1.0, 0.0], [0.0, 1.0]]], [[0.5, 0.5]], k=2)
        >>> other = TokenSets.pack([[[0.0, 1.0], [-1.0, 0.0]]], [[0.5, 0.5]], k=2)
        >>> distances, plans = match_tokens(query, other, 0.5, 50.0)
        >>> distances.round(2), plans.round(2).tolist()
        (array([0.], dtype=float32), [[[0.0, 0.0], [0.5, 0.0]]])
    """
    from keras import ops  # the rest needs no backend of Keras

    from gsp_tf.ops import partial_set_transport

    dims = queries.tokens.shape[-1], references.tokens.shape[-1]
    if dims[0] != dims[1]:
        raise ValueError(f"Tokens must have the same dimension; received {dims[0]} and {dims[1]}.")
    if len(queries.tokens) != len(references.tokens):
        raise ValueError(
            f"queries and references must be pairs; received {len(queries.tokens)} and "
            f"{len(references.tokens)} images."
        )
    count = len(queries.tokens)
    distances = np.empty(count, np.float32)
    plans = np.empty((*queries.weights.shape, references.weights.shape[1]), np.float32)
    for block in blocks(count, _BLOCK_PAIRS):
        (tokens, weights), (others, other_weights) = (
            _directions(sets.take(block)) for sets in (queries, references)
        )
        cost = 1.0 - tokens @ others.swapaxes(1, 2)
        settings = float(transport_ratio), float(entropy_smoothing)
        plan = ops.convert_to_numpy(
            partial_set_transport(cost, *settings, weights, other_weights)[0]
        )
        plans[block], distances[block] = plan, (cost * plan).sum(axis=(1, 2)) / transport_ratio
    return distances, plans


def rerank_by_transport(
    indices: ArrayLike,
    queries: TokenSets,
    references: TokenSets | None = None,
    depth: int = 100,
    transport_ratio: float = 0.5,
    entropy_smoothing: float = 10.0,
    distances: ArrayLike | None = None,
    weight: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Re-orders the first results of each query by the partial transport between token sets.

    Args:
        indices: integers `(Q, K)`, references of each query, nearest first.
        queries: token sets of the Q queries.
        references: token sets of the references; None for those of the queries.
        depth: number of results to re-order; those after them keep their places.
        transport_ratio, entropy_smoothing: μ and ε of `match_tokens`.
        distances: floats `(Q, K)` of the first search, needed if `weight` is positive.
        weight: share in [0, 1] of the distance of the first search in the new one.

    Returns:
        indices `(Q, K)` and the new distances float32 `(Q, depth)` of the first ones,
        `(1 - weight) T + weight d` with the distance T of `match_tokens`.

    Example:
        >>> sets = TokenSets.pack([[[1.0, 0.0]], [[0.0, 1.0]], [[0.9, 0.1]]], np.ones((3, 1)), k=1)
        >>> indices, distances = rerank_by_transport([[1, 2]], sets.take([0]), sets)
        >>> indices, distances.round(2)
        (array([[2, 1]]), array([[0.01, 1.  ]], dtype=float32))
    """
    indices = np.array(indices)
    references = queries if references is None else references
    if indices.ndim != 2 or len(indices) != len(queries.tokens):
        raise ValueError(
            f"indices must be (Q, K) for {len(queries.tokens)} queries; received {indices.shape}."
        )
    check_share(weight=weight)
    check_sizes(depth=depth)
    if weight and np.shape(distances) != indices.shape:
        raise ValueError(
            f"A weight of {weight} needs distances of shape {indices.shape}; received "
            f"{np.shape(distances)}."
        )
    depth = min(depth, indices.shape[1])
    found = np.empty((len(indices), depth), np.float32)
    parts, every = blocks(len(indices), max(1, _BLOCK_PAIRS // depth)), np.arange(len(indices))
    for rows in show_progress(parts, "Matching local features", len(parts)):
        others = indices[rows, :depth].ravel()
        pairs = queries.take(np.repeat(every[rows], depth)), references.take(others)
        matched, _ = match_tokens(*pairs, transport_ratio, entropy_smoothing)
        found[rows] = matched.reshape(-1, depth)
    if weight:
        found = (1 - weight) * found + weight * np.asarray(distances, np.float32)[:, :depth]
    order = np.argsort(found, axis=1, kind="stable")
    indices[:, :depth] = np.take_along_axis(indices[:, :depth], order, axis=1)
    return indices, np.take_along_axis(found, order, axis=1)


def _directions(sets):
    """Tokens as float32 of length 1, and weights of sum 1."""
    shape = sets.tokens.shape
    tokens = unit_vectors(sets.tokens.reshape(-1, shape[-1]).astype(np.float32))
    weights = sets.weights.astype(np.float32)
    total = weights.sum(axis=1, keepdims=True)
    return tokens.astype(np.float32).reshape(shape), weights / np.where(total > 0, total, 1)
