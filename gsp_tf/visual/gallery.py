"""Nearest neighbours of queries as rows of pictures."""

import numpy as np
from matplotlib.patches import Rectangle

from gsp_tf.visual.images import thumbnail
from gsp_tf.visual.style import HIT, INK, MISS, transparent_figure

CELL_INCHES = 0.85
MARGIN = 0.03
FIRST_COLUMN = 1.3
PITCH = 1.1
ROW_PITCH = 1.3
DASHES = (0, (2.5, 1.2))
THUMBNAIL_PIXELS = 112


def neighbour_gallery(images, labels, queries, neighbours, distances):
    """Draws each query at the left of its nearest neighbours.

    Neighbours of the query's class have a solid green frame and a tick, the others a dashed red
    frame and a cross; below each stands its distance.

    Args:
        images: uint8 `(N, H, W, 1)` or `(N, H, W, 3)`.
        labels: integers `(N,)`.
        queries: indices `(Q,)` into the images.
        neighbours: indices `(Q, k)` into the images, nearest first.
        distances: floats `(Q, k)`.

    Returns:
        matplotlib Figure of Q rows.

    Example:
        >>> images = np.zeros((3, 8, 8, 1), np.uint8)
        >>> figure = neighbour_gallery(images, [0, 0, 1], [0], [[1, 2]], [[0.5, 0.7]])
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['query', '✓ 0.50', '✗ 0.70']
    """
    neighbours, distances = np.asarray(neighbours), np.asarray(distances)
    rows, columns = neighbours.shape
    width, height = FIRST_COLUMN + columns * PITCH, rows * ROW_PITCH
    figure = transparent_figure(width * CELL_INCHES, height * CELL_INCHES)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    for row, query in enumerate(queries):
        top = MARGIN + row * ROW_PITCH
        _draw(axes, MARGIN, top, images[query], "query", INK, "solid", 0.8)
        for column, (found, distance) in enumerate(
            zip(neighbours[row], distances[row], strict=True)
        ):
            left = FIRST_COLUMN + column * PITCH
            if labels[found] == labels[query]:
                _draw(axes, left, top, images[found], f"✓ {distance:.2f}", HIT, "solid", 2.5)
            else:
                _draw(axes, left, top, images[found], f"✗ {distance:.2f}", MISS, DASHES, 2.5)
    axes.set(xlim=(0, width), ylim=(height, 0))
    return figure


def _draw(axes, left, top, image, caption, color, line, width):
    """Fits an image into the unit square at (left, top), with a frame and a caption below."""
    picture = thumbnail(image, THUMBNAIL_PIXELS)
    height, breadth = np.array(picture.shape[:2]) / max(picture.shape[:2])
    x, y = left + (1 - breadth) / 2, top + (1 - height) / 2
    axes.imshow(
        picture,
        extent=(x, x + breadth, y + height, y),
        aspect="auto",
        interpolation="none",
    )
    frame = Rectangle(
        (x, y), breadth, height, fill=False, color=color, linestyle=line, linewidth=width
    )
    axes.add_patch(frame)
    axes.text(left + 0.5, top + 1.06, caption, color=INK, fontsize=8, ha="center", va="top")
