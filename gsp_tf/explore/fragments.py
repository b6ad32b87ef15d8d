"""The page and its parts as HTML, with all pictures in them."""

from markupsafe import Markup

from gsp_tf._names import names_with
from gsp_tf.visual import (
    attribute_histograms,
    color_scale,
    dominant_prototypes,
    enlarged,
    inline_svg,
    overlay_weights,
    page_template,
    png_uri,
    prototype_colors,
    thumbnail,
    transparent_figure,
)

PIXELS = 320
_LARGEST = 6


def page(view, collection, examples, max_bytes):
    """The page before anything is asked.

    Args:
        view: `ModelView`.
        collection: what `open_collection` gives.
        examples: list of `(Tile, label)`, images to click; a label may be `None`.
        max_bytes: size of the largest file that is taken.

    Returns:
        str, an HTML document.
    """
    return _rendered(
        "explore.html",
        title=view.model.recipe.name,
        recipe=view.model.recipe,
        view=view,
        collection=collection,
        examples=examples,
        max_bytes=max_bytes,
        too_large=too_large(max_bytes),
        no_prototypes=no_prototypes(view.pooling_name),
    )


def too_large(max_bytes):
    """What is said of a file of too many bytes.

    Args:
        max_bytes: size of the largest file that is taken.

    Returns:
        str.

    Example:
        >>> too_large(10_000_000)
        'The file is too large: files of at most 10 MB are taken.'
    """
    return f"The file is too large: files of at most {max_bytes / 1e6:g} MB are taken."


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
        f"pooling.name={names_with('pooling', 'attribute_maps')}."
    )


def found(name, view, pooling_name, neighbours, collection):
    """An image with what the model makes of its places, and its nearest neighbours.

    Args:
        name: what the image is called.
        view: `View` of it.
        pooling_name: of its `ModelView`.
        neighbours: list of `Found`.
        collection: what was searched.

    Returns:
        str, HTML elements.
    """
    picture = enlarged(view.image, PIXELS)
    maps = [] if view.weights is None else view.weights.transpose(2, 0, 1)
    return _rendered(
        "found.html",
        name=name,
        image=png_uri(picture),
        overlays=[png_uri(overlay_weights(picture, weights)) for weights in maps],
        prototypes=None if view.attributes is None else _prototypes(picture, view.attributes),
        pooling=pooling_name,
        no_prototypes=no_prototypes(pooling_name),
        scale=color_scale(),
        neighbours=neighbours,
        collection=collection,
    )


def progress(done, total):
    """How many images were looked at.

    Args:
        done: how many.
        total: of how many; 0 before the first.

    Returns:
        str, an HTML element.

    Example:
        >>> progress(16, 24).count('value="16" max="24"')
        1
    """
    return _rendered("progress.html", done=done, total=total)


def prototypes(browser):
    """All prototypes to choose from, and the patches of the one with the largest share.

    Args:
        browser: `PrototypeBrowser`.

    Returns:
        str, HTML elements.
    """
    order = (-browser.means).argsort(kind="stable").tolist()
    choices = [(number, 100 * browser.means[number]) for number in order]
    first = Markup(patches(browser, order[0]))
    return _rendered("prototypes.html", choices=choices, first=first)


def patches(browser, prototype):
    """The strongest patches for a prototype.

    Args:
        browser: `PrototypeBrowser`.
        prototype: its number.

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
        for patch in browser.patches(prototype)
    ]
    return _rendered(
        "patches.html", prototype=prototype, patches=shown, num_images=browser.num_images
    )


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
