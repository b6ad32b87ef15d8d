"""Covering radius: how well few points stand for all."""

import operator

import numpy as np

import gsp_tf
from gsp_tf.evaluation.checks import checked_embeddings


def covering_radius_curve(points, num_centers):
    """Covering radius of 1, 2, ..., `num_centers` greedily chosen centres.

    The radius of centres C is `max_i min_{c in C} ||x_i - c||`. The centres are the first point and
    those that `gsp_tf.ops.greedy_k_center` (Gürbüz, thesis 2022, Algorithm 2) chooses after it. The
    radius is at most twice the best possible with as many centres (Gonzalez 1985).

    Args:
        points: float array-like `(N, D)`.
        num_centers: number of centres, 1 to N.

    Returns:
        float array `(num_centers,)` that never increases; 0 once every point is a centre.

    Raises:
        ValueError: for points that are not finite and `(N, D)`, or num_centers out of range.
        TypeError: for points that are not real numbers, or num_centers that is not an integer.

    Example:
        >>> covering_radius_curve([[0.0], [1.0], [5.0], [9.0]], 4)
        array([9., 4., 1., 0.])
    """
    points = checked_embeddings(points, "points").astype(np.float64)
    num_centers = operator.index(num_centers)
    if not 1 <= num_centers <= len(points):
        raise ValueError(
            f"num_centers must be between 1 and {len(points)}, the number of points; "
            f"received {num_centers}."
        )
    # By its full name, so that only this function needs TensorFlow.
    centers = gsp_tf.ops.greedy_k_center(points, points[:0], num_centers).numpy()
    distances = np.full(len(points), np.inf)
    radii = np.empty(num_centers)
    for step, center in enumerate(centers):
        distances = np.minimum(distances, np.linalg.norm(points - points[center], axis=1))
        radii[step] = distances.max()
    return radii
