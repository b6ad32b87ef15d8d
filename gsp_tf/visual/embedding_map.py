"""Embeddings on a plane."""

import numpy as np
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from gsp_tf.visual.images import thumbnail
from gsp_tf.visual.style import CLASS_COLORS, CLASS_MARKERS, transparent_figure

FEWEST_FOR_TSNE = 16
PERPLEXITY = 30
THUMBNAIL_PIXELS = 64
THUMBNAIL_SHARE = 0.065


def project(embeddings, seed=0):
    """Projects embeddings to two dimensions by t-SNE that starts from PCA.

    van der Maaten and Hinton, Visualizing Data using t-SNE, JMLR 2008, started as advised by Kobak
    and Berens, Nature Communications 2019. Fewer than 16 or coincident embeddings get PCA alone.

    Args:
        embeddings: finite floats `(N, D)`.
        seed: integer seed.

    Returns:
        float32 `(N, 2)`, the same for the same input and seed.

    Example:
        >>> project([[0.0, 0.0, 0.0], [3.0, 0.0, 4.0]]).shape
        (2, 2)
    """
    embeddings = np.asarray(embeddings, dtype=np.float32)
    start = _principal_plane(embeddings)
    spread = start[:, 0].std()
    if len(embeddings) < FEWEST_FOR_TSNE or not spread > 0:
        return start
    tsne = TSNE(
        perplexity=min(PERPLEXITY, (len(embeddings) - 1) / 3),
        init=start / spread * 1e-4,
        random_state=seed,
    )
    # The order in which threads add up changes the last bits, which t-SNE amplifies.
    with threadpool_limits(limits=1):
        return tsne.fit_transform(embeddings)


def embedding_map(points, labels, images):
    """Draws points coloured by class, with the most central image of each class.

    Colours and markers follow the sorted labels, 12 before they repeat. A class whose picture
    would cover that of another is shown by its points alone.

    Args:
        points: floats `(N, 2)`.
        labels: integers `(N,)`.
        images: the uint8 images `(H, W, 1)` or `(H, W, 3)` by index, such as an array of N.

    Returns:
        matplotlib Figure.

    Example:
        >>> images = np.zeros((2, 8, 8, 1), np.uint8)
        >>> embedding_map([[0.0, 0.0], [1.0, 1.0]], [4, 9], images).axes[0].get_aspect()
        1.0
    """
    points, labels = np.asarray(points), np.asarray(labels)
    figure = transparent_figure(6.4, 5.2)
    axes = figure.add_axes((0, 0, 1, 1), aspect="equal")
    axes.set_axis_off()
    side = THUMBNAIL_SHARE * (np.ptp(points, axis=0).max() or 1)
    placed = []
    for position, label in enumerate(np.unique(labels)):
        style = _style(position)
        members = np.flatnonzero(labels == label)
        axes.plot(*points[members].T, **style, markersize=4.7, alpha=0.85, zorder=1)
        centre = np.median(points[members], axis=0)
        medoid = members[np.linalg.norm(points[members] - centre, axis=1).argmin()]
        if all(np.abs(points[medoid] - other).max() > 1.1 * side for other in placed):
            placed.append(points[medoid])
            _picture(
                axes,
                points[medoid],
                side,
                thumbnail(images[medoid], THUMBNAIL_PIXELS),
                style["color"],
            )
    low, high = points.min(axis=0) - side, points.max(axis=0) + side
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    return figure


def class_marker(position):
    """Draws the marker of a class in the map, for a legend.

    Args:
        position: of its label among the sorted labels.

    Returns:
        matplotlib Figure.

    Example:
        >>> len(class_marker(1).axes[0].lines)
        1
    """
    figure = transparent_figure(0.2, 0.2)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.plot(0, 0, **_style(position), markersize=9)
    return figure


def _style(position):
    return {
        "color": CLASS_COLORS[position % len(CLASS_COLORS)],
        "marker": CLASS_MARKERS[position % len(CLASS_MARKERS)],
        "linestyle": "none",
        "markeredgewidth": 0,
    }


def _principal_plane(embeddings):
    centred = embeddings - embeddings.mean(axis=0)
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    plane = left[:, :2] * scale[:2]
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))


def _picture(axes, centre, side, image, color):
    height, width = np.array(image.shape[:2]) / max(image.shape[:2]) * side / 2
    x, y = centre
    extent = (x - width, x + width, y - height, y + height)
    axes.imshow(image, extent=extent, interpolation="none", zorder=2)
    axes.plot(
        [extent[i] for i in (0, 1, 1, 0, 0)],
        [extent[i] for i in (2, 2, 3, 3, 2)],
        color=color,
        linewidth=2,
        solid_joinstyle="miter",
        zorder=3,
    )
