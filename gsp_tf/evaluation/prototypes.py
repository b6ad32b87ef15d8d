"""What a pooling looks at: its weight on the foreground, and average pooling as prototypes."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf.evaluation._vectors import blocks, checked_embeddings

_BLOCK_NUMBERS = 2**22


class _PrototypePartition(NamedTuple):
    assignments: np.ndarray
    distances: np.ndarray
    histograms: np.ndarray


def prototype_partition(features: ArrayLike, prototypes: ArrayLike) -> _PrototypePartition:
    """Assigns every local feature of images to its nearest prototype.

    Feature f_j belongs to the prototype `argmin_i ||f_j - ω_i||`; ties, up to rounding, go to the
    lowest index. The largest distance is the covering radius δ of the prototypes. The histograms
    solve the transport problem of Gürbüz, thesis 2022, eq. 4.2.5, and the assignments are its
    solution, eq. 4.2.6. Distances are computed in blocks of images to save memory.

    Args:
        features: floats, local features `(B, H, W, C)` or a set of them `(B, n, C)`.
        prototypes: floats `(m, C)`.

    Returns:
        `assignments`, integers `(B, H, W)` or `(B, n)`, the prototype of each feature; `distances`,
        float64 of the same shape, to that prototype; and `histograms`, float64 `(B, m)`, the share
        of an image's features per prototype.

    Example:
        >>> partition = prototype_partition([[[0.0], [1.0], [5.0], [9.0]]], [[0.0], [8.0]])
        >>> partition.assignments.tolist(), partition.distances.tolist()
        ([[0, 0, 1, 1]], [[0.0, 1.0, 3.0, 1.0]])
        >>> partition.histograms.tolist()
        [[0.5, 0.5]]
    """
    from sklearn.metrics import pairwise_distances_argmin

    features, prototypes = _checked(features, prototypes)
    sets = features.reshape(len(features), -1, features.shape[-1])
    assignments = np.empty(sets.shape[:2], int)
    distances = np.empty(sets.shape[:2])
    for part in blocks(len(sets), max(1, _BLOCK_NUMBERS // math.prod(sets.shape[1:]))):
        points = sets[part].reshape(-1, sets.shape[-1]).astype(np.float64)
        nearest = pairwise_distances_argmin(points, prototypes)
        assignments[part] = nearest.reshape(-1, sets.shape[1])
        lengths = np.linalg.norm(points - prototypes[nearest], axis=1)
        distances[part] = lengths.reshape(-1, sets.shape[1])
    counts = [np.bincount(row, minlength=len(prototypes)) for row in assignments]
    shape = features.shape[:-1]
    return _PrototypePartition(
        assignments.reshape(shape), distances.reshape(shape), np.array(counts) / sets.shape[1]
    )


def average_pooling_error(
    features: ArrayLike, prototypes: ArrayLike, histograms: ArrayLike
) -> np.ndarray:
    """Distance of global average pooling from a convex combination of prototypes.

    `||(1/n) Σ_j f_j - Σ_i p_i ω_i||` for each image. With the histograms p of
    `prototype_partition`, both sums run over the same n features. The error is then at most the
    mean of the image's distances, and so at most the covering radius δ (Gürbüz, thesis 2022, Prop.
    4.2.1).

    Args:
        features: floats, local features `(B, H, W, C)` or a set of them `(B, n, C)`.
        prototypes: floats ω `(m, C)`.
        histograms: floats p `(B, m)`, weights of the prototypes for each image.

    Returns:
        float64 `(B,)`.

    Example:
        >>> average_pooling_error([[[0.0], [1.0], [5.0], [9.0]]], [[0.0], [8.0]], [[0.5, 0.5]])
        array([0.25])
    """
    features, prototypes = _checked(features, prototypes)
    histograms = np.asarray(histograms, np.float64)
    expected = len(features), len(prototypes)
    if histograms.shape != expected or not np.isfinite(histograms).all():
        raise ValueError(
            f"histograms must be finite and have shape {expected}, one weight for each image and "
            f"prototype; received shape {histograms.shape}."
        )
    pooled = features.mean(axis=tuple(range(1, features.ndim - 1)), dtype=np.float64)
    return np.linalg.norm(pooled - histograms @ prototypes, axis=1)


def _checked(features, prototypes):
    """Features as float32 in their shape, prototypes as float64."""
    features = np.asarray(features)
    if features.ndim not in (3, 4) or 0 in features.shape:
        raise ValueError(
            "features must be a non-empty (B, H, W, C) or (B, n, C) array; "
            f"received {features.shape}."
        )
    prototypes = checked_embeddings(prototypes, "prototypes")
    if features.shape[-1] != prototypes.shape[1]:
        raise ValueError(
            f"features and prototypes must have as many channels; received {features.shape[-1]} "
            f"and {prototypes.shape[1]}."
        )
    flat = checked_embeddings(features.reshape(-1, features.shape[-1]), "features")
    return flat.reshape(features.shape), prototypes.astype(np.float64)


def foreground_share(weights: ArrayLike, masks: ArrayLike) -> np.ndarray:
    """Share of each image's pooling weight that falls on its foreground.

    `Σ_j w_j a_j / Σ_j w_j`, where a_j is the share of the area of place j that is foreground. It
    puts a number on Fig. 3b of Gürbüz, Şener, Alatan, "Generalized Sum Pooling for Metric
    Learning", ICCV 2023. Average pooling gives the foreground's share of the image area. A pooling
    that uses the foreground alone gives 1.

    Args:
        weights: non-negative floats `(B, H, W)`, such as `GeneralizedSumPooling.pooling_weights`;
            normalised to sum 1 per image.
        masks: foreground, bools or floats in [0, 1] `(B, H', W')` of any resolution, such as
            `CollageImages.foreground_masks`; resized to `(H, W)` by area.

    Returns:
        float64 `(B,)`, in [0, 1].

    Raises:
        ValueError: if the weights of an image sum to 0.

    Example:
        >>> weights = np.array([[[0.5, 0.0], [0.25, 0.25]]])
        >>> foreground_share(weights, np.array([[[True, False], [False, False]]]))
        array([0.5])
        >>> foreground_share(weights, np.array([[[0.0], [1.0], [1.0]]]))
        array([0.667])
    """
    weights = np.asarray(weights, dtype=np.float64)
    masks = np.asarray(masks, dtype=np.float64)
    if weights.ndim != 3 or masks.ndim != 3 or len(weights) != len(masks) or not masks.size:
        raise ValueError(
            "weights and masks must be (B, H, W) and (B, H', W') of the same images; received "
            f"{weights.shape} and {masks.shape}."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("weights must be finite and not negative.")
    if not ((masks >= 0) & (masks <= 1)).all():
        raise ValueError(
            f"masks must lie in [0, 1]; received values from {masks.min()} to {masks.max()}."
        )
    totals = weights.sum(axis=(1, 2))
    if not (totals > 0).all():
        raise ValueError(
            f"weights must have a positive sum; those of {np.sum(totals <= 0)} images have none."
        )
    down = _area_shares(weights.shape[1], masks.shape[1])
    across = _area_shares(weights.shape[2], masks.shape[2])
    areas = down @ masks @ across.T
    return (weights * areas).sum(axis=(1, 2)) / totals


def _area_shares(coarse, fine):
    """Shares `(coarse, fine)` of each of `coarse` equal parts covered by each of `fine` parts."""
    ends, fine_ends = np.linspace(0, 1, coarse + 1)[:, None], np.linspace(0, 1, fine + 1)
    overlaps = np.minimum(ends[1:], fine_ends[1:]) - np.maximum(ends[:-1], fine_ends[:-1])
    return coarse * overlaps.clip(min=0)
