"""Embeddings on a plane, coloured by class."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull, QhullError
from threadpoolctl import threadpool_limits

from gsp_tf._arguments import checked_seed
from gsp_tf.evaluation import checked_embeddings
from gsp_tf.visual._pages import thumbnail
from gsp_tf.visual._style import blank_axes, class_style

FEWEST_FOR_TSNE = 16
_PERPLEXITY = 30
_ITERATIONS = 1000
_PIXELS = 64
_THUMBNAIL_SHARE = 0.065


def project(embeddings: ArrayLike, seed: int = 0) -> np.ndarray:
    """Projects embeddings to two dimensions by t-SNE that starts from PCA.

    van der Maaten and Hinton, Visualizing Data using t-SNE, JMLR 2008, with the initialisation of
    Kobak and Berens, Nature Communications 2019. Fewer than 16 or coincident embeddings are
    projected by PCA alone.

    Args:
        embeddings: finite floats `(N, D)`.
        seed: seed of t-SNE.

    Returns:
        float32 `(N, 2)`, the same for the same input and seed.

    Example:
        >>> project([[0.0, 0.0, 0.0], [3.0, 0.0, 4.0]]).shape
        (2, 2)
    """
    from sklearn.manifold import TSNE

    checked_seed(seed)
    embeddings = checked_embeddings(embeddings, "embeddings")
    # The order in which threads sum changes the last bits, which t-SNE amplifies.
    with threadpool_limits(limits=1):
        start = _principal_plane(embeddings)
        spread = start[:, 0].std()
        if len(embeddings) < FEWEST_FOR_TSNE or not spread > 0:
            return start
        tsne = TSNE(
            perplexity=min(_PERPLEXITY, (len(embeddings) - 1) / 3),
            init=start / spread * 1e-4,
            max_iter=_ITERATIONS,
            random_state=seed,
        )
        return tsne.fit_transform(embeddings)


def _principal_plane(embeddings):
    """The first two principal components `(N, 2)`."""
    centred = embeddings - embeddings.mean(axis=0)
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    plane = left[:, :2] * scale[:2]
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


def embedding_map(
    points: ArrayLike, labels: ArrayLike, images: Sequence[np.ndarray] | np.ndarray
) -> Figure:
    """Draws points coloured by class, with the most central image of each class.

    Colours follow the sorted labels and repeat after 12, with other markers. A class is shown only
    by its points if its picture would cover that of another.

    Args:
        points: floats `(N, 2)`.
        labels: integers `(N,)`.
        images: N uint8 images `(H, W, 1)` or `(H, W, 3)`.

    Example:
        >>> images = np.zeros((2, 8, 8, 1), np.uint8)
        >>> embedding_map([[0.0, 0.0], [1.0, 1.0]], [4, 9], images).axes[0].get_aspect()
        1.0
    """
    points, labels = np.asarray(points), np.asarray(labels)
    figure, axes = blank_axes(6.4, 5.2, aspect="equal")
    side = _THUMBNAIL_SHARE * (np.ptp(points, axis=0).max() or 1)
    placed = []
    for position, label in enumerate(np.unique(labels)):
        style = _marker_style(position)
        members = np.flatnonzero(labels == label)
        axes.plot(*points[members].T, **style, markersize=4.7, alpha=0.85, zorder=1)
        centre = np.median(points[members], axis=0)
        medoid = members[np.linalg.norm(points[members] - centre, axis=1).argmin()]
        if all(np.abs(points[medoid] - other).max() > 1.1 * side for other in placed):
            placed.append(points[medoid])
            picture = thumbnail(images[medoid], _PIXELS)
            _draw_framed(axes, points[medoid], side, picture, style["color"])
    low, high = points.min(axis=0) - side, points.max(axis=0) + side
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    return figure


def _draw_framed(axes, centre, side, picture, color):
    """Fits a picture into a square around a point."""
    height, width = side / 2 * np.array(picture.shape[:2]) / max(picture.shape[:2])
    x, y = centre
    low, high, bottom, top = extent = (x - width, x + width, y - height, y + height)
    axes.imshow(picture, extent=extent, interpolation="none", zorder=2)
    frame = {"color": color, "linewidth": 2, "solid_joinstyle": "miter", "zorder": 3}
    axes.plot([low, high, high, low, low], [bottom, bottom, top, top, bottom], **frame)


def class_marker(position: int) -> Figure:
    """The map's marker for the class at `position` among the sorted labels, for a legend."""
    figure, axes = blank_axes(0.2, 0.2)
    axes.plot(0, 0, **_marker_style(position), markersize=9)
    return figure


def _marker_style(position):
    color, marker = class_style(position)
    return {"color": color, "marker": marker, "linestyle": "none", "markeredgewidth": 0}


def class_hulls(
    points: ArrayLike,
    labels: ArrayLike,
    features: ArrayLike | None = None,
    feature_labels: ArrayLike | None = None,
) -> Figure:
    """Draws points coloured by class with the convex hull of each class.

    Average pooling maps the images of a class into the convex hull of the class's local features. A
    linear map to the plane preserves this.

    Args:
        points: finite floats `(N, 2)`.
        labels: integers `(N,)`.
        features: finite floats `(M, 2)` to draw the hulls of, such as the local features that the
            points are averages of; `None` draws the hulls of the points.
        feature_labels: integers `(M,)`, classes of the features.

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
    figure, axes = blank_axes(5.2, 5.2, aspect="equal")
    for position, label in enumerate(np.union1d(labels, corner_labels)):
        color, marker = class_style(position)
        if label in corner_labels:
            x, y = _hull_vertices(corners[corner_labels == label]).T
            axes.fill(x, y, facecolor=(color, 0.1), edgecolor=color, linewidth=1.4, zorder=1)
        own = points[labels == label].T
        axes.scatter(*own, s=22, c=color, marker=marker, linewidths=0, zorder=2)
    axes.autoscale_view()
    return figure


def _hull_vertices(points):
    """Corners of a convex hull, counter-clockwise; for points on a line, the two ends."""
    try:
        return points[ConvexHull(points).vertices]
    except QhullError:
        order = np.lexsort(points.T[::-1])
        return points[order[[0, -1]]]


def _checked(points, labels, name):
    """Points of the plane and their labels as arrays."""
    points, labels = np.asarray(points, dtype=float), np.asarray(labels)
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        raise ValueError(f"{name} must be finite (N, 2); received shape {points.shape}.")
    if labels.shape != points.shape[:1]:
        raise ValueError(
            f"{name} must have one label each; received {len(points)} {name} and labels of shape "
            f"{labels.shape}."
        )
    return points, labels
