"""Local features of images, coloured by the prototype they belong to."""

import numpy as np
from PIL import Image

from gsp_tf.visual.images import rgb
from gsp_tf.visual.overlay import LUMINANCE
from gsp_tf.visual.style import INK, prototype_colors, transparent_figure

CELL_INCHES = 1.1
GAP = 0.06
BAR = 0.12
ENTRY = 0.6
FOOTER = 0.35
PIXELS = 224
OPACITY = 0.7


def partition_maps(images, assignments):
    """Draws images, their places coloured by prototype, and the shares of the prototypes.

    The partition of local features by nearest prototype, of which average pooling keeps only the
    shares (Gürbüz, thesis 2022, section 4.2). Each image stands over its partition and a bar with
    the histogram of its prototypes. A prototype has the same colour in every image and figure.

    Args:
        images: uint8 `(N, H, W, 1)` or `(N, H, W, 3)`; the luminance is shown.
        assignments: non-negative integers `(N, h, w)`, the prototype of each place, such as
            `gsp_tf.evaluation.prototype_partition` gives.

    Returns:
        matplotlib Figure of N columns.

    Raises:
        ValueError: if the assignments are not `(N, h, w)` for N images, or one is negative.
        TypeError: if they are not integers.

    Example:
        >>> images = np.zeros((2, 8, 8, 1), np.uint8)
        >>> figure = partition_maps(images, np.array([[[0, 3]], [[3, 3]]]))
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['0', '3']
    """
    images, assignments = np.asarray(images), np.asarray(assignments)
    if assignments.dtype.kind not in "iu":
        raise TypeError(f"assignments must be integers; received dtype {assignments.dtype}.")
    fits = assignments.ndim == 3 and len(assignments) == len(images) and assignments.size
    if not fits or assignments.min() < 0:
        raise ValueError(
            f"assignments must be non-negative (N, h, w) of the {len(images)} images; "
            f"received shape {assignments.shape}."
        )
    shown = np.unique(assignments)
    width = len(images) * (1 + GAP) - GAP
    per_row = max(1, int(width / ENTRY))
    rows = -(-len(shown) // per_row)
    side = images.shape[1] / images.shape[2]
    bars = 2 * (side + GAP)
    height = bars + BAR + FOOTER * rows
    figure = transparent_figure(width * CELL_INCHES, height * CELL_INCHES)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    for column, (image, prototypes) in enumerate(zip(images, assignments, strict=True)):
        left = column * (1 + GAP)
        grey = _enlarged(np.rint(rgb(image) @ LUMINANCE).astype(np.uint8), side)
        colors = _enlarged(prototype_colors(prototypes), side)
        tinted = (1 - OPACITY) * grey[..., None] + OPACITY * colors
        axes.imshow(rgb(grey[..., None]), extent=(left, left + 1, side, 0), aspect="auto")
        extent = left, left + 1, 2 * side + GAP, side + GAP
        axes.imshow(np.rint(tinted).astype(np.uint8), extent=extent, aspect="auto")
        _draw_histogram(axes, left, bars, prototypes)
    for position, prototype in enumerate(shown):
        row, column = divmod(position, per_row)
        y = bars + BAR + FOOTER * (row + 0.5)
        color = prototype_colors(prototype) / 255
        axes.plot(column * ENTRY + 0.12, y, "s", color=color, markersize=8)
        axes.text(column * ENTRY + 0.22, y, str(prototype), color=INK, fontsize=8, va="center")
    axes.set(xlim=(0, width), ylim=(height, 0))
    return figure


def _enlarged(picture, side):
    """Repeats or drops pixels until a picture is PIXELS wide and `side` times as high."""
    size = PIXELS, round(PIXELS * side)
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.NEAREST))


def _draw_histogram(axes, left, top, prototypes):
    """A bar as long as the image, divided by the shares of the prototypes."""
    shown, counts = np.unique(prototypes, return_counts=True)
    shares = counts / prototypes.size
    starts = left + np.cumsum(shares) - shares
    axes.barh(top, shares, BAR, starts, align="edge", color=prototype_colors(shown) / 255)
