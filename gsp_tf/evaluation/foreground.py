"""Share of the pooling weight of an image that falls on its foreground."""

import numpy as np
from numpy.typing import ArrayLike


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
        ValueError: if the shapes do not match, weights are negative, not finite or sum to 0, or
            mask values lie outside [0, 1].

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
