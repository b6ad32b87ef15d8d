"""What the prototypes of generalised sum pooling stand for: by class, and by place."""

import textwrap

import numpy as np

from gsp_tf.visual.images import rgb
from gsp_tf.visual.overlay import LUMINANCE, OPACITY
from gsp_tf.visual.style import INK, prototype_colors, transparent_figure

PANEL_INCHES = 1.5
NAME_WIDTH = 20


def attribute_histograms(attributes, labels, class_names, classes=None, count=6, figure=None):
    """Draws the histogram of prototypes of several classes: the mean attributes, with their spread.

    The attributes are z of eq. 4.3 of Gürbüz, Şener, Alatan, "Generalized Sum Pooling for Metric
    Learning", ICCV 2023 (Fig. 5): how much of an image's pooled feature came by way of each
    prototype. A bar is the mean over the images of a class, the line on it one standard deviation
    to both sides. Prototypes have the colours of `dominant_prototypes`.

    Args:
        attributes: floats `(N, m)`, each row a histogram; or a dict of them from the name of a
            model, which are drawn one below the other.
        labels: integers `(N,)`.
        class_names: the names of all classes by label.
        classes: the labels to draw; `None` for the `count` lowest.
        count: how many of these.
        figure: matplotlib Figure or SubFigure to draw into; a new one by default.

    Returns:
        matplotlib Figure, a column for each class.

    Raises:
        ValueError: if the attributes are not `(N, m)` with one label each, or a class has no image.

    Example:
        >>> attributes = np.array([[0.5, 0.5], [0.7, 0.3], [0.0, 1.0]])
        >>> figure = attribute_histograms(attributes, [0, 0, 1], ["a", "b"])
        >>> [axes.get_title() for axes in figure.axes]
        ['a', 'b']
        >>> [round(float(bar.get_height()), 3) for bar in figure.axes[0].patches]
        [0.6, 0.4]
    """
    rows = attributes if isinstance(attributes, dict) else {"": attributes}
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
        figure = transparent_figure(PANEL_INCHES * len(classes), PANEL_INCHES * len(rows) + 0.3)
        figure.set_layout_engine("constrained")
    panels = figure.subplots(len(rows), len(classes), sharex=True, sharey="row", squeeze=False)
    for (name, row), line in zip(rows.items(), panels, strict=True):
        line[0].set_ylabel(name, color=INK, fontsize=8)
        for label, axes in zip(classes, line, strict=True):
            of_class = row[labels == label]
            axes.bar(
                np.arange(row.shape[1]),
                of_class.mean(axis=0),
                yerr=of_class.std(axis=0),
                color=prototype_colors(np.arange(row.shape[1])) / 255,
                error_kw={"ecolor": INK, "elinewidth": 0.8},
            )
            axes.set_facecolor("none")
            axes.tick_params(colors=INK, labelsize=7, bottom=False, labelbottom=False)
            axes.spines[:].set_color(INK)
            axes.spines[["top", "right"]].set_visible(False)
        line[0].set_ylim(bottom=0)
    for label, axes in zip(classes, panels[0], strict=True):
        axes.set_title(_folded(class_names[label]), color=INK, fontsize=7)
    return figure


def dominant_prototypes(images, attribute_maps):
    """Colours each place of images by the prototype that takes most of it.

    After Fig. 5 of Gürbüz, Şener, Alatan, "Generalized Sum Pooling for Metric Learning", ICCV 2023.
    A prototype has the colour it has in `partition_maps`. A place that is pooled with the
    weight of average pooling or more has the full colour, one with less a fainter one; what is left
    out stays grey.

    Args:
        images: uint8 `(N, H, W, 1)` or `(N, H, W, 3)`; their luminance is shown.
        attribute_maps: non-negative floats `(N, h, w, m)`, such as
            `GeneralizedSumPooling.attribute_maps`.

    Returns:
        uint8 `(N, H, W, 3)`.

    Raises:
        ValueError: for another kind of image, or maps that are not finite, non-negative
            `(N, h, w, m)` with positive sums.

    Example:
        >>> image = np.full((1, 4, 4, 1), 100, np.uint8)
        >>> maps = np.zeros((1, 2, 2, 3))
        >>> maps[0, 0, 0, 1] = 1.0
        >>> picture = dominant_prototypes(image, maps)[0]
        >>> picture[0, 0].tolist(), picture[3, 3].tolist()
        ([206, 132, 57], [100, 100, 100])
    """
    maps = np.asarray(attribute_maps, dtype=np.float64)
    if maps.ndim != 4 or len(maps) != len(images):
        raise ValueError(
            f"attribute_maps must be (N, h, w, m) of the {len(images)} images; received shape "
            f"{maps.shape}."
        )
    weights = maps.sum(axis=-1)
    average = weights.mean(axis=(1, 2), keepdims=True)
    if not np.isfinite(maps).all() or (maps < 0).any() or not (average > 0).all():
        raise ValueError("attribute_maps must be finite and not negative, with positive sums.")
    tints = prototype_colors(maps.argmax(axis=-1))
    opacities = OPACITY * (weights / average).clip(max=1)
    pictures = []
    for image, tint, opacity in zip(images, tints, opacities, strict=True):
        grey = (rgb(image) @ LUMINANCE)[..., None]
        rows, columns = (
            np.arange(pixels) * places // pixels
            for pixels, places in zip(grey.shape, opacity.shape, strict=False)
        )
        places = np.ix_(rows, columns)
        share = opacity[places][..., None]
        pictures.append((1 - share) * grey + share * tint[places])
    return np.rint(pictures).astype(np.uint8)


def _folded(name):
    """A class name in lines that fit a panel."""
    return "\n".join(textwrap.fill(line, NAME_WIDTH) for line in str(name).split("\n"))
