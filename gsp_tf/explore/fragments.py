"""The parts of the page as HTML, with all pictures in them."""

from markupsafe import Markup

from gsp_tf.experiment.poolings import ATTRIBUTED
from gsp_tf.visual.images import enlarged, inline_svg, png_uri, thumbnail
from gsp_tf.visual.overlay import color_scale, overlay_weights
from gsp_tf.visual.prototypes import attribute_histograms, dominant_prototypes
from gsp_tf.visual.style import prototype_colors, transparent_figure
from gsp_tf.visual.templates import page_template

PIXELS = 320
_LARGEST = 6


def notice(text):
    """A message.

    Args:
        text: what it says.

    Returns:
        str, an HTML element.

    Example:
        >>> print(notice("a < b"))
        <p class="notice" role="status">a &lt; b</p>
    """
    return _rendered("notice.html", text=text)


def image_places(name, view, pooling_name):
    """An image with what the model makes of its places.

    Args:
        name: what the image is called.
        view: `View` of it.
        pooling_name: of its `ModelView`.

    Returns:
        str, an HTML element.
    """
    picture = enlarged(view.image, PIXELS)
    maps = [] if view.weights is None else view.weights.transpose(2, 0, 1)
    return _rendered(
        "image.html",
        name=name,
        image=png_uri(picture),
        overlays=[png_uri(overlay_weights(picture, weights)) for weights in maps],
        prototypes=None if view.attributes is None else _prototypes(picture, view.attributes),
        pooling=pooling_name,
        no_prototypes=no_prototypes(pooling_name),
        scale=color_scale(),
    )


def no_prototypes(pooling_name):
    """Why there are no prototypes to show.

    Args:
        pooling_name: name of the class of the pooling.

    Returns:
        str.

    Example:
        >>> no_prototypes("CrowPooling")[:66]
        'CrowPooling, the pooling of this run, has no attributes of prototy'
    """
    return (
        f"{pooling_name}, the pooling of this run, has no attributes of prototypes; these have: "
        f"pooling.name={', '.join(ATTRIBUTED)}."
    )


def neighbours(found, collection):
    """The nearest neighbours of an image.

    Args:
        found: list of `Found`.
        collection: `IndexedImages` or `TestImages` that was searched.

    Returns:
        str, an HTML element.
    """
    return _rendered("neighbours.html", found=found, collection=collection)


def strongest_patches(prototype, patches, num_images):
    """The strongest patches for a prototype.

    Args:
        prototype: its number.
        patches: list of `Patch`.
        num_images: how many images were looked at.

    Returns:
        str, an HTML element.
    """
    shown = [
        {
            "crop": png_uri(enlarged(_cut(patch.image, patch.window), PIXELS)),
            "whole": png_uri(thumbnail(patch.image, PIXELS)),
            "cell": patch.cell,
            "inner": _within(patch.cell, patch.window),
            "share": patch.share,
            "name": patch.name,
            "label": patch.label,
        }
        for patch in patches
    ]
    return _rendered("patches.html", prototype=prototype, patches=shown, num_images=num_images)


def _prototypes(picture, attributes):
    histogram = attributes.sum(axis=(0, 1))
    colors = prototype_colors(range(len(histogram))).tolist()
    largest = (-histogram).argsort(kind="stable")[:_LARGEST].tolist()
    return {
        "map": png_uri(dominant_prototypes(picture[None], attributes[None])[0]),
        "histogram": Markup(inline_svg(_bars(histogram))),
        "largest": [(number, float(histogram[number]), colors[number]) for number in largest],
        "count": len(histogram),
    }


def _bars(histogram):
    figure = transparent_figure(4.6, 1.4)
    figure.set_layout_engine("constrained")
    return attribute_histograms(histogram[None], [0], [""], figure=figure)


def _cut(image, window):
    """The part of an image in a window of shares, whole pixels of it."""
    size = image.shape[0]
    top, left = (round(size * start) for start in window[:2])
    side = max(1, round(size * window[2]))
    return image[top : top + side, left : left + side]


def _within(cell, window):
    """A cell as shares of a window around it."""
    return (
        (cell[0] - window[0]) / window[2],
        (cell[1] - window[1]) / window[3],
        cell[2] / window[2],
        cell[3] / window[3],
    )


def _rendered(template, **values):
    return page_template(template, "explore").render(**values)
