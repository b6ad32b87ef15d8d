"""Rows of pictures: nearest neighbours of queries, and images with the strongest group maps."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from gsp_tf.visual._pages import thumbnail
from gsp_tf.visual._style import HIT, INK, MISS, blank_axes, draw_fitted
from gsp_tf.visual.overlays import overlay_groups

_CELL_INCHES = 0.85
_PIXELS = 112
_DASHES = (0, (2.5, 1.2))


def neighbour_gallery(
    images: Sequence[np.ndarray] | np.ndarray,
    labels: ArrayLike,
    queries: ArrayLike,
    neighbours: ArrayLike,
    distances: ArrayLike,
) -> Figure:
    """Draws each query to the left of its nearest neighbours.

    Neighbours of the query's class have a solid green frame and a tick, the others a dashed red
    frame and a cross. The distance is below each neighbour.

    Args:
        images: uint8 `(N, H, W, 1)` or `(N, H, W, 3)`.
        labels: integers `(N,)`.
        queries: indices `(Q,)` into the images.
        neighbours: indices `(Q, k)` into the images, nearest first.
        distances: floats `(Q, k)`.

    Returns:
        Figure of Q rows.

    Example:
        >>> images = np.zeros((3, 8, 8, 1), np.uint8)
        >>> figure = neighbour_gallery(images, [0, 0, 1], [0], [[1, 2]], [[0.5, 0.7]])
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['query', '✓ 0.50', '✗ 0.70']
    """
    margin, first_column, pitch, row_pitch = 0.03, 1.3, 1.1, 1.3
    neighbours, distances = np.asarray(neighbours), np.asarray(distances)
    rows, columns = neighbours.shape
    width, height = first_column + columns * pitch, rows * row_pitch
    figure, axes = blank_axes(width * _CELL_INCHES, height * _CELL_INCHES)
    for row, query in enumerate(queries):
        top = margin + row * row_pitch
        _draw_framed(axes, margin, top, images[query], "query", INK, "solid", 0.8)
        for column, (found, distance) in enumerate(
            zip(neighbours[row], distances[row], strict=True)
        ):
            hit = labels[found] == labels[query]
            style = (HIT, "solid") if hit else (MISS, _DASHES)
            caption = f"{'✓' if hit else '✗'} {distance:.2f}"
            left = first_column + column * pitch
            _draw_framed(axes, left, top, images[found], caption, *style, 2.5)
    axes.set(xlim=(0, width), ylim=(height, 0))
    return figure


def view_gallery(images: np.ndarray, views: np.ndarray) -> Figure:
    """Draws each image to the left of views of it, as training sees them.

    Args:
        images: uint8 `(N, H, W, 1)` or `(N, H, W, 3)`.
        views: uint8 `(N * V, H, W, channels)`, V views of the first image, then of the second, and
            so on.

    Returns:
        Figure of N rows.

    Example:
        >>> images = np.zeros((2, 8, 8, 1), np.uint8)
        >>> figure = view_gallery(images, np.repeat(images, 3, axis=0))
        >>> len(figure.axes[0].images)
        8
    """
    count, rest = divmod(len(views), max(1, len(images)))
    if rest or not count or not len(images):
        raise ValueError(
            f"there must be as many views of each of the {len(images)} images; received "
            f"{len(views)} views."
        )
    margin, first_column, pitch, row_pitch = 0.03, 1.3, 1.05, 1.05
    width, height = first_column + count * pitch, 0.25 + len(images) * row_pitch
    figure, axes = blank_axes(width * _CELL_INCHES, height * _CELL_INCHES)
    figure.set_facecolor("white")
    for left, title in ((margin, "image"), (first_column, "what training sees")):
        axes.text(left, 0.2, title, color=INK, fontsize=8, ha="left", va="bottom")
    for row, image in enumerate(images):
        top = 0.25 + row * row_pitch
        of_row = views[row * count : (row + 1) * count]
        lefts = [margin, *(first_column + column * pitch for column in range(count))]
        for left, shown in zip(lefts, (image, *of_row), strict=True):
            draw_fitted(axes, left, top, thumbnail(shown, _PIXELS), interpolation="none")
    axes.set(xlim=(0, width), ylim=(height, 0))
    return figure


def _draw_framed(axes, left, top, image, caption, color, line, width):
    """Fits an image into the unit square at (left, top), with a frame and a caption below it."""
    picture = thumbnail(image, _PIXELS)
    x, y, breadth, height = draw_fitted(axes, left, top, picture, interpolation="none")
    frame = {"fill": False, "color": color, "linestyle": line, "linewidth": width}
    axes.add_patch(Rectangle((x, y), breadth, height, **frame))
    axes.text(left + 0.5, top + 1.06, caption, color=INK, fontsize=8, ha="center", va="top")


def strongest_images(maps: ArrayLike, count: int = 12) -> np.ndarray:
    """Chooses the images with the strongest attention of each group to one place.

    "Towards Improved and Interpretable Deep Metric Learning via Attentive Grouping" (Xu et al.),
    section 4.4, picks the 12 attention maps "containing the top attentive weights" of each group.

    Args:
        maps: floats `(N, h, w, groups)`, such as `AttentiveGrouping.attention_maps` of N images.
        count: images per group; all images if there are fewer.

    Returns:
        Image indices, integers `(groups, count)`, sorted by the largest value of their map, highest
        first.

    Example:
        >>> maps = np.array([[[0.5, 0.1]], [[0.2, 0.9]], [[0.3, 0.0]]])[:, None]
        >>> strongest_images(maps, count=2).tolist()
        [[0, 2], [1, 0]]
    """
    maps = np.asarray(maps)
    if maps.ndim != 4:
        raise ValueError(f"maps must be (N, h, w, groups); received shape {maps.shape}.")
    return np.argsort(-maps.max(axis=(1, 2)), axis=0, kind="stable")[:count].T


def group_gallery(images: np.ndarray, maps: ArrayLike, count: int = 12) -> Figure:
    """Draws the `strongest_images` of each group, with the group's map below each image.

    "Towards Improved and Interpretable Deep Metric Learning via Attentive Grouping" (Xu et al.),
    Figs. 3 and 4. Maps have the colours of `overlay_groups`.

    Args:
        images: uint8 `(N, H, W, 1)` or `(N, H, W, 3)`.
        maps: non-negative floats `(N, h, w, groups)`, such as `attention_maps` or `channel_maps` of
            a grouping layer.
        count: images per group.

    Returns:
        Figure with two rows of pictures per group.

    Example:
        >>> images = np.zeros((3, 8, 8, 1), np.uint8)
        >>> maps = np.random.default_rng(0).dirichlet(np.ones(4), (3, 2)).transpose(0, 2, 1)
        >>> figure = group_gallery(images, maps.reshape(3, 2, 2, 2), count=2)
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['group 1', 'group 2']
    """
    pitch, group_pitch, first_column = 1.05, 2.3, 0.9
    maps = np.asarray(maps)
    chosen = strongest_images(maps, count)
    if len(maps) != len(images):
        raise ValueError(f"maps must be of the {len(images)} images; received {len(maps)} maps.")
    side = images.shape[1] / images.shape[2]
    width, height = first_column + chosen.shape[1] * pitch, len(chosen) * group_pitch * side
    figure, axes = blank_axes(width * _CELL_INCHES, height * _CELL_INCHES)
    for group, indices in enumerate(chosen):
        top = group * group_pitch * side
        label = f"group {group + 1}"
        axes.text(0.05, top + pitch * side, label, color=INK, fontsize=8, va="center")
        for column, index in enumerate(indices):
            picture = thumbnail(images[index], _PIXELS)
            (overlay,) = overlay_groups(picture, maps[index, ..., group, None])
            left = first_column + column * pitch
            for row, shown in enumerate((picture, overlay)):
                y = top + row * pitch * side
                extent = left, left + 1, y + side, y
                axes.imshow(shown, extent=extent, aspect="auto", interpolation="none")
    axes.set(xlim=(0, width), ylim=(height, 0))
    return figure
