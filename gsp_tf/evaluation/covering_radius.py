"""Covering radius: how well a few points represent all points."""

import operator

import numpy as np
from keras import ops
from numpy.typing import ArrayLike

from gsp_tf.evaluation.vectors import checked_embeddings
from gsp_tf.ops import greedy_k_center


def covering_radius_curve(points: ArrayLike, num_centers: int) -> np.ndarray:
    """Covering radius of 1, 2, ..., `num_centers` greedily chosen centres.

    The radius of centres C is `max_i min_{c in C} ||x_i - c||`. The centres are those of
    `gsp_tf.ops.greedy_k_center` (Gürbüz, thesis 2022, Algorithm 2): the first point, then
    repeatedly the point farthest from all centres so far; ties go to the lower index. The radius is
    at most twice the best possible with the same number of centres (Gonzalez 1985).

    Args:
        points: finite floats `(N, D)`.
        num_centers: 1 to N.

    Returns:
        floats `(num_centers,)` that never increase; 0 once every point is a centre.

    Raises:
        ValueError: if points are not finite or not `(N, D)`, or num_centers is out of range.
        TypeError: if points are not real numbers, or num_centers is not an integer.

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
    centers = ops.convert_to_numpy(greedy_k_center(points, points[:0], num_centers))
    distances = np.full(len(points), np.inf)
    radii = np.empty(num_centers)
    for step, center in enumerate(centers):
        distances = np.minimum(distances, np.linalg.norm(points - points[center], axis=1))
        radii[step] = distances.max()
    return radii
