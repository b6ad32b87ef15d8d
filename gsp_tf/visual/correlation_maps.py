"""Correlations of local features with prototypes, drawn over the images."""

import matplotlib
import numpy as np

from gsp_tf.visual.images import enlarged
from gsp_tf.visual.overlay import COLOR_MAP, resized, tinted
from gsp_tf.visual.style import INK, transparent_figure

CELL_INCHES = 1.0
GAP = 0.06
HEADER = 0.3
BAR = 0.12
FOOTER = 0.5
PIXELS = 224


def correlation_maps(images, correlations, prototypes=None, count=5):
    """Draws each image beside the heat maps of its correlations with some prototypes.

    The heat maps of the coded residual transform (Kan et al., NeurIPS 2022, fig. 2). The colour
    stands for the correlation coefficient: red is positive, blue is negative, 0 leaves the image
    untinted. One scale holds for the whole figure, up to the largest correlation in it.

    Args:
        images: uint8 `(N, H, W, 1)` or `(N, H, W, 3)`.
        correlations: floats `(N, h, w, K)`, such as `CodedResidualTransform.correlation_maps`.
        prototypes: indices of the prototypes to draw; `None` for those whose correlation varies
            most from place to place.
        count: how many of these.

    Returns:
        matplotlib Figure of N rows.

    Raises:
        ValueError: if the correlations are not finite, or are not `(N, h, w, K)` for N images.

    Example:
        >>> images = np.zeros((2, 8, 8, 1), np.uint8)
        >>> correlations = np.zeros((2, 4, 4, 3))
        >>> correlations[:, 0, 0, 2] = 0.5
        >>> figure = correlation_maps(images, correlations, count=1)
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['prototype 2', '-0.50', '0', '0.50']
    """
    correlations = np.asarray(correlations, dtype=np.float32)
    fits = correlations.ndim == 4 and len(correlations) == len(images) and correlations.size
    if not fits or not np.isfinite(correlations).all():
        raise ValueError(
            f"correlations must be finite (N, h, w, K) of the {len(images)} images; "
            f"received shape {correlations.shape}."
        )
    if prototypes is None:
        spread = correlations.std(axis=(1, 2)).mean(axis=0)
        prototypes = np.argsort(-spread, kind="stable")[:count]
    correlations = correlations[..., prototypes]
    largest = max(float(np.abs(correlations).max()), np.finfo("float32").tiny)
    columns = 1 + len(prototypes)
    width, height = columns * (1 + GAP), HEADER + len(images) * (1 + GAP) + FOOTER
    figure = transparent_figure(width * CELL_INCHES, height * CELL_INCHES)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    for column, prototype in enumerate(prototypes, start=1):
        axes.text(column * (1 + GAP) + 0.5, HEADER / 2, f"prototype {prototype}", **_CAPTION)
    for row, (image, maps) in enumerate(zip(images, correlations, strict=True)):
        picture = enlarged(image, PIXELS)
        pictures = [picture]
        for values in np.moveaxis(maps, -1, 0):
            pictures.append(tinted(picture, resized(values / largest, picture)))
        for column, picture in enumerate(pictures):
            _draw(axes, column * (1 + GAP), HEADER + row * (1 + GAP), picture)
    _draw_scale(axes, 1 + GAP, columns * (1 + GAP) - GAP, height - FOOTER + GAP, largest)
    axes.set(xlim=(0, width), ylim=(height, 0))
    return figure


_CAPTION = {"color": INK, "fontsize": 8, "ha": "center", "va": "center"}


def _draw(axes, left, top, picture):
    """Fits a picture into the unit square at (left, top)."""
    height, width = np.array(picture.shape[:2]) / max(picture.shape[:2])
    x, y = left + (1 - width) / 2, top + (1 - height) / 2
    axes.imshow(picture, extent=(x, x + width, y + height, y), aspect="auto")


def _draw_scale(axes, left, right, top, largest):
    """The colours from minus to plus the largest correlation."""
    colors = matplotlib.colormaps[COLOR_MAP](np.linspace(0, 1, 256))[None]
    axes.imshow(colors, extent=(left, right, top + BAR, top), aspect="auto")
    for x, text in (
        (left, f"{-largest:.2f}"),
        ((left + right) / 2, "0"),
        (right, f"{largest:.2f}"),
    ):
        alignment = {left: "left", right: "right"}.get(x, "center")
        axes.text(x, top + BAR + 0.12, text, **{**_CAPTION, "ha": alignment})
