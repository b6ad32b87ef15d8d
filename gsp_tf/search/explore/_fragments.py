"""The page and its parts as HTML with embedded pictures."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from gsp_tf.search.explore._model_view import ModelView, PrototypeBrowser, View
from gsp_tf.search.explore._searched import Searched
from gsp_tf.search.index.neighbours import Neighbour
from gsp_tf.visual import (
    Tile,
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

_PIXELS = 320
_LARGEST = 6


def page(
    view: ModelView, searched: Searched, examples: list[tuple[Tile, str | None]], max_bytes: int
) -> str:
    """The initial page, with example images to click and the upload limit."""
    return _rendered(
        "explore.html",
        title=view.model.recipe.name,
        recipe=view.model.recipe,
        view=view,
        searched=searched,
        examples=examples,
        max_bytes=max_bytes,
        too_large=too_large(max_bytes),
        no_prototypes=_no_prototypes(view.pooling_name),
    )


def too_large(max_bytes: int) -> str:
    """The answer to a file above the upload limit."""
    return f"The file is too large; the page takes files of at most {max_bytes / 1e6:g} MB."


def _no_prototypes(pooling_name):
    return (
        f"{pooling_name}, the pooling of this run, has no attributes of prototypes; those of "
        "generalized sum pooling have them, such as pooling.name=gsp."
    )


def found(
    name: str,
    view: View,
    pooling_name: str,
    neighbours: list[Neighbour],
    searched: Searched,
    pairs: Sequence[tuple[str, np.ndarray]] = (),
    where: str | None = None,
) -> str:
    """An image with the weights of its places, and its neighbours that meet a condition."""
    picture = enlarged(view.image, _PIXELS)
    maps = [] if view.weights is None else view.weights.transpose(2, 0, 1)
    return _rendered(
        "found.html",
        name=name,
        image=png_uri(picture),
        overlays=[png_uri(overlay_weights(picture, weights)) for weights in maps],
        prototypes=None if view.attributes is None else _prototypes(picture, view.attributes),
        pooling=pooling_name,
        no_prototypes=_no_prototypes(pooling_name),
        scale=color_scale(),
        neighbours=neighbours,
        results=[(one, searched.tile(one)) for one in neighbours],
        searched=searched,
        pairs=[(name, png_uri(picture)) for name, picture in pairs],
        where=where,
    )


def progress(done: int, total: int) -> str:
    """Progress in images; the total is 0 before the first image."""
    return _rendered("progress.html", done=done, total=total)


def prototypes(browser: PrototypeBrowser) -> str:
    """The choice of prototypes, and the patches of the one with the largest share."""
    order = (-browser.means).argsort(kind="stable").tolist()
    choices = [(number, 100 * browser.means[number]) for number in order]
    first = Markup(patches(browser, order[0]))
    return _rendered("prototypes.html", choices=choices, first=first)


def patches(browser: PrototypeBrowser, prototype: int) -> str:
    shown = [
        {
            "crop": png_uri(enlarged(_cut(patch.image, patch.window), _PIXELS)),
            "whole": png_uri(thumbnail(patch.image, _PIXELS)),
            "inner": _within(patch.cell, patch.window),
            "patch": patch,
        }
        for patch in browser.patches(prototype)
    ]
    return _rendered(
        "patches.html", prototype=prototype, patches=shown, num_images=browser.num_images
    )


def _prototypes(picture, attributes):
    """The prototypes of an image: map, histogram, and those with the largest shares."""
    histogram = attributes.sum(axis=(0, 1))
    figure = transparent_figure(4.6, 1.4)
    figure.set_layout_engine("constrained")
    attribute_histograms(histogram[None], [0], [""], figure=figure)
    colors = prototype_colors(range(len(histogram))).tolist()
    largest = (-histogram).argsort(kind="stable")[:_LARGEST].tolist()
    return {
        "map": png_uri(dominant_prototypes(picture[None], attributes[None])[0]),
        "histogram": Markup(inline_svg(figure)),
        "largest": [(number, float(histogram[number]), colors[number]) for number in largest],
        "count": len(histogram),
    }


def _cut(image, window):
    """The part of a square image in a window, in whole pixels."""
    size = image.shape[0]
    top, left = (round(size * start) for start in window[:2])
    side = max(1, round(size * window[2]))
    return image[top : top + side, left : left + side]


def _within(cell, window):
    """A cell in fractions of the window around it."""
    (corner, size), (origin, side) = np.reshape(cell, (2, 2)), np.reshape(window, (2, 2))
    return (*((corner - origin) / side), *(size / side))


def _rendered(template, **values):
    return page_template(template, "search/explore").render(**values)
