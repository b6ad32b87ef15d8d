"""Convex hulls of classes in the plane."""

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from gsp_tf.visual.style import CLASS_COLORS, CLASS_MARKERS, transparent_figure


def class_hulls(points, labels, features=None, feature_labels=None):
    """Draws points coloured by class with the convex hull of each class.

    Average pooling maps the images of a class into the convex hull of the class's local features;
    a linear map of these to the plane keeps that.

    Args:
        points: floats `(N, 2)`.
        labels: integers `(N,)`.
        features: floats `(M, 2)` whose hulls are drawn, such as the local features of which the
            points are averages; `None` for those of the points.
        feature_labels: integers `(M,)`, classes of the features.

    Returns:
        matplotlib Figure.

    Raises:
        ValueError: if points or features are not in the plane and finite, do not have one label
            each, or only one of features and feature_labels is given.

    Example:
        >>> figure = class_hulls([[0, 0], [2, 0], [0, 2], [0.5, 0.5], [3, 3]], [0, 0, 0, 0, 1])
        >>> hull, single = figure.axes[0].patches
        >>> hull.get_xy().tolist()
        [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 0.0]]
        >>> single.get_xy().tolist()
        [[3.0, 3.0], [3.0, 3.0]]
    """
    if (features is None) != (feature_labels is None):
        raise ValueError("features and feature_labels must be given together.")
    points, labels = _checked(points, labels, "points")
    corners, corner_labels = points, labels
    if features is not None:
        corners, corner_labels = _checked(features, feature_labels, "features")
    figure = transparent_figure(5.2, 5.2)
    axes = figure.add_axes((0, 0, 1, 1), aspect="equal")
    axes.set_axis_off()
    for position, label in enumerate(np.union1d(labels, corner_labels)):
        color = CLASS_COLORS[position % len(CLASS_COLORS)]
        marker = CLASS_MARKERS[position % len(CLASS_MARKERS)]
        if label in corner_labels:
            x, y = hull_vertices(corners[corner_labels == label]).T
            axes.fill(x, y, facecolor=(color, 0.1), edgecolor=color, linewidth=1.4, zorder=1)
        own = points[labels == label].T
        axes.scatter(*own, s=22, c=color, marker=marker, linewidths=0, zorder=2)
    axes.autoscale_view()
    return figure


def hull_vertices(points):
    """Corners of the convex hull of points in the plane, counter-clockwise.

    Args:
        points: floats `(N, 2)`.

    Returns:
        floats `(corners, 2)`; two ends for points on a line, twice the same for a single point.

    Example:
        >>> hull_vertices(np.array([[0.0, 0.0], [2.0, 2.0], [1.0, 1.0]])).tolist()
        [[0.0, 0.0], [2.0, 2.0]]
    """
    try:
        return points[ConvexHull(points).vertices]
    except QhullError:
        order = np.lexsort(points.T[::-1])
        return points[order[[0, -1]]]


def _checked(points, labels, name):
    points, labels = np.asarray(points, dtype=float), np.asarray(labels)
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        raise ValueError(f"{name} must be finite (N, 2); received shape {points.shape}.")
    if labels.shape != points.shape[:1]:
        raise ValueError(
            f"{name} must have one label each; received {len(points)} {name} and labels of shape "
            f"{labels.shape}."
        )
    return points, labels
