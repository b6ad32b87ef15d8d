"""Figures of prototypes: histograms by class, partitions of images, and correlations."""

import textwrap
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure, SubFigure
from numpy.typing import ArrayLike
from PIL import Image

from gsp_tf.visual._pages import enlarged, rgb
from gsp_tf.visual._style import INK, blank_axes, draw_fitted, prototype_colors, transparent_figure
from gsp_tf.visual.overlays import COLOR_MAP, luminance, resized, tinted

_PIXELS = 224
_GAP = 0.06
_BAR = 0.12
_CAPTION = {"color": INK, "fontsize": 8, "va": "center"}


def attribute_histograms(
    attributes: ArrayLike | Mapping[str, ArrayLike],
    labels: ArrayLike,
    class_names: Sequence[str],
    classes: Sequence[int] | None = None,
    count: int = 6,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Draws the prototype histograms of several classes: mean attributes and their spread.

    The attributes are z of eq. 4.3 of Gürbüz, Şener, Alatan, "Generalized Sum Pooling for Metric
    Learning", ICCV 2023 (Fig. 5): the share of each prototype in an image's pooled feature. A bar
    is the mean over the images of a class; the line on it spans one standard deviation to each
    side. Prototypes have the colours of `dominant_prototypes`.

    Args:
        attributes: floats `(N, m)`, each row a histogram; or a dict of these by model name, drawn
            one below the other.
        labels: integers `(N,)`.
        class_names: names of all classes by label.
        classes: labels to draw, each of an image; `None` for the `count` lowest.
        count: number of classes if `classes` is `None`.
        figure: figure to draw in; `None` makes a new one.

    Returns:
        The figure, with one column per class.

    Example:
        >>> attributes = np.array([[0.5, 0.5], [0.7, 0.3], [0.0, 1.0]])
        >>> figure = attribute_histograms(attributes, [0, 0, 1], ["a", "b"])
        >>> [axes.get_title() for axes in figure.axes]
        ['a', 'b']
        >>> [round(float(bar.get_height()), 3) for bar in figure.axes[0].patches]
        [0.6, 0.4]
    """
    panel_inches = 1.5
    rows = attributes if isinstance(attributes, Mapping) else {"": attributes}
    rows = {name: np.asarray(row, dtype=np.float64) for name, row in rows.items()}
    labels = np.asarray(labels)
    for row in rows.values():
        if row.ndim != 2 or len(row) != len(labels):
            raise ValueError(
                f"attributes must be (N, m) with one label each; received shape {row.shape} and "
                f"{len(labels)} labels."
            )
    classes = np.unique(labels)[:count] if classes is None else np.asarray(classes)
    missing = sorted(set(classes.tolist()) - set(labels.tolist()))
    if missing:
        raise ValueError(f"classes must have images; received {missing} without any.")
    if figure is None:
        figure = transparent_figure(panel_inches * len(classes), panel_inches * len(rows) + 0.3)
        figure.set_layout_engine("constrained")
    panels = figure.subplots(len(rows), len(classes), sharex=True, sharey="row", squeeze=False)
    for (name, row), line in zip(rows.items(), panels, strict=True):
        line[0].set_ylabel(name, color=INK, fontsize=8, parse_math=False)
        for label, axes in zip(classes, line, strict=True):
            members = row[labels == label]
            axes.bar(
                np.arange(row.shape[1]),
                members.mean(axis=0),
                yerr=members.std(axis=0),
                color=prototype_colors(np.arange(row.shape[1])) / 255,
                error_kw={"ecolor": INK, "elinewidth": 0.8},
            )
            axes.set_facecolor("none")
            axes.tick_params(colors=INK, labelsize=7, bottom=False, labelbottom=False)
            axes.spines[:].set_color(INK)
            axes.spines[["top", "right"]].set_visible(False)
        line[0].set_ylim(bottom=0)
    for label, axes in zip(classes, panels[0], strict=True):
        axes.set_title(_folded(class_names[label]), color=INK, fontsize=7, parse_math=False)
    return figure


def _folded(name):
    """A class name broken into lines that fit a panel."""
    return "\n".join(textwrap.fill(line, 20) for line in str(name).split("\n"))


def partition_maps(images: np.ndarray, assignments: ArrayLike) -> Figure:
    """Draws images, their places coloured by prototype, and the shares of the prototypes.

    The partition assigns each local feature to its nearest prototype; average pooling keeps only
    the shares (Gürbüz, thesis 2022, section 4.2). Below each image are its partition and a bar with
    the histogram of its prototypes. A prototype has the same colour in every image and figure.

    Args:
        images: uint8 `(N, H, W, 1)` or `(N, H, W, 3)`; their luminance is shown.
        assignments: non-negative integers `(N, h, w)`, the prototype of each place, such as the
            result of `gsp_tf.evaluation.prototype_partition`.

    Returns:
        Figure of N columns.

    Example:
        >>> images = np.zeros((2, 8, 8, 1), np.uint8)
        >>> figure = partition_maps(images, np.array([[[0, 3]], [[3, 3]]]))
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['0', '3']
    """
    cell_inches, entry, footer, opacity = 1.1, 0.6, 0.35, 0.7
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
    width = len(images) * (1 + _GAP) - _GAP
    per_row = max(1, int(width / entry))
    rows = -(-len(shown) // per_row)
    side = images.shape[1] / images.shape[2]
    bars = 2 * (side + _GAP)
    height = bars + _BAR + footer * rows
    figure, axes = blank_axes(width * cell_inches, height * cell_inches)
    for column, (image, prototypes) in enumerate(zip(images, assignments, strict=True)):
        left = column * (1 + _GAP)
        grey = _stretched(np.rint(luminance(image)).astype(np.uint8), side)
        colors = _stretched(prototype_colors(prototypes), side)
        mixed = (1 - opacity) * grey[..., None] + opacity * colors
        axes.imshow(rgb(grey[..., None]), extent=(left, left + 1, side, 0), aspect="auto")
        extent = left, left + 1, 2 * side + _GAP, side + _GAP
        axes.imshow(np.rint(mixed).astype(np.uint8), extent=extent, aspect="auto")
        _draw_histogram(axes, left, bars, prototypes)
    for position, prototype in enumerate(shown):
        row, column = divmod(position, per_row)
        y = bars + _BAR + footer * (row + 0.5)
        color = prototype_colors(prototype) / 255
        axes.plot(column * entry + 0.12, y, "s", color=color, markersize=8)
        axes.text(column * entry + 0.22, y, str(prototype), **_CAPTION)
    axes.set(xlim=(0, width), ylim=(height, 0))
    return figure


def _stretched(picture, side):
    """Repeats or drops pixels to give a picture a fixed width and `side` times that height."""
    size = _PIXELS, round(_PIXELS * side)
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.NEAREST))


def _draw_histogram(axes, left, top, prototypes):
    """Draws a bar as wide as the image, divided by the shares of the prototypes."""
    shown, counts = np.unique(prototypes, return_counts=True)
    shares = counts / prototypes.size
    starts = left + np.cumsum(shares) - shares
    axes.barh(top, shares, _BAR, starts, align="edge", color=prototype_colors(shown) / 255)


def correlation_maps(
    images: Sequence[np.ndarray] | np.ndarray,
    correlations: ArrayLike,
    prototypes: Sequence[int] | None = None,
    count: int = 5,
) -> Figure:
    """Draws each image next to the heat maps of its correlations with some prototypes.

    The heat maps are those of the coded residual transform (Kan et al., NeurIPS 2022, fig. 2). The
    colour shows the correlation coefficient: red is positive, blue is negative, 0 is untinted. The
    whole figure has one scale, up to its largest correlation.

    Args:
        images: uint8 `(N, H, W, 1)` or `(N, H, W, 3)`.
        correlations: finite floats `(N, h, w, K)`, such as
            `CodedResidualTransform.correlation_maps`.
        prototypes: indices of the prototypes to draw; `None` for those with the largest variation
            between places.
        count: number of prototypes if `prototypes` is `None`.

    Returns:
        Figure of N rows.

    Example:
        >>> images = np.zeros((2, 8, 8, 1), np.uint8)
        >>> correlations = np.zeros((2, 4, 4, 3))
        >>> correlations[:, 0, 0, 2] = 0.5
        >>> figure = correlation_maps(images, correlations, count=1)
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['prototype 2', '-0.50', '0', '0.50']
    """
    header, footer, pitch = 0.3, 0.5, 1 + _GAP
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
    width = (1 + len(prototypes)) * pitch
    height = header + len(images) * pitch + footer
    figure, axes = blank_axes(width, height)
    for column, prototype in enumerate(prototypes, start=1):
        text = f"prototype {prototype}"
        axes.text(column * pitch + 0.5, header / 2, text, ha="center", **_CAPTION)
    for row, (image, maps) in enumerate(zip(images, correlations, strict=True)):
        picture = enlarged(image, _PIXELS)
        heat_maps = [
            tinted(picture, resized(values / largest, picture))
            for values in np.moveaxis(maps, -1, 0)
        ]
        for column, shown in enumerate([picture, *heat_maps]):
            draw_fitted(axes, column * pitch, header + row * pitch, shown)
    _draw_scale(axes, pitch, width - _GAP, height - footer + _GAP, largest)
    axes.set(xlim=(0, width), ylim=(height, 0))
    return figure


def _draw_scale(axes, left, right, top, largest):
    """Draws the colour scale from minus to plus the largest correlation."""
    colors = matplotlib.colormaps[COLOR_MAP](np.linspace(0, 1, 256))[None]
    axes.imshow(colors, extent=(left, right, top + _BAR, top), aspect="auto")
    for x, text, alignment in (
        (left, f"{-largest:.2f}", "left"),
        ((left + right) / 2, "0", "center"),
        (right, f"{largest:.2f}", "right"),
    ):
        axes.text(x, top + _BAR + 0.12, text, ha=alignment, **_CAPTION)
