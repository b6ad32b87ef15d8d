"""Pages of images: galleries, what a search found, and why the model finds two similar."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gsp_tf._console import show_progress
from gsp_tf._typing import PathLike, Tensor
from gsp_tf.data import UnreadableImageError, read_image
from gsp_tf.evaluation import match_tokens
from gsp_tf.search.embedder import CheckedImages, RunModel
from gsp_tf.search.index.image_index import Index
from gsp_tf.search.index.neighbours import Neighbour
from gsp_tf.search.thresholds import Thresholds
from gsp_tf.visual import TILE_PIXELS, Tile, array_tile, draw_matches, jpeg_uri, write_page

if TYPE_CHECKING:
    from gsp_tf.runs import TokenModel

TOKENS = 32
"""Local features of an image that are matched with those of another."""
_MOST, _EXPLAINED = 500, 6  # neighbours on a page, and those with pictures of pairs


def image_tile(path: PathLike) -> Tile:
    """The thumbnail of an image file, or the reason why there is none."""
    path = str(path)
    try:
        image = read_image(path, min_side=2 * TILE_PIXELS)
    except UnreadableImageError as error:
        return Tile(path, Path(path).name, None, error.reason)
    return array_tile(image, path)._replace(link=Path(path).absolute().as_uri())


def write_gallery_page(
    path: PathLike,
    title: str,
    summary: str,
    sections: Iterable[tuple[str, str, Iterable[tuple[str, str, str, bool]]]],
    total: int,
) -> Path:
    """Writes one HTML page with sections of pictures; it loads nothing from elsewhere.

    A section is a heading, a hint and pictures: an image file, a caption, a line below it, and
    whether the picture has a frame. Pictures are made and written one at a time. The number of
    sections, `total`, is for the progress bar. Returns the path of the page.
    """

    def shown():
        for heading, hint, pictures in show_progress(sections, "Writing the page", total):
            yield heading, hint, ((image_tile(file), *texts) for file, *texts in pictures)

    return write_page(path, "gallery.html", title=title, summary=summary, sections=shown())


def as_pixels(images: np.ndarray) -> np.ndarray:
    """Prepared float images as uint8."""
    return np.clip(np.rint(images), 0, 255).astype(np.uint8)


def pair_pictures(tokens: "TokenModel", images: Tensor) -> list[np.ndarray]:
    """Draws what the first image has in common with each of the others.

    The local features of prepared images `(B, S, S, channels)` that weigh most are matched by
    partial transport (`match_tokens`), and lines join the strongest pairs. There are no pictures
    for tokens without a place in a map.
    """
    images = np.asarray(images)
    count = len(images) - 1
    if count < 1 or tokens.grid is None:
        return []
    sets = tokens(images)
    query, others = sets.take([0]), sets.take(range(1, count + 1))
    _, plans = match_tokens(sets.take([0] * count), others)
    pixels = as_pixels(images)
    return [
        draw_matches(pixels[0], other, plan, query.places[0], places, tokens.grid)
        for other, plan, places in zip(pixels[1:], plans, others.places, strict=True)
    ]


def _explained(
    model: RunModel, image: PathLike, others: Sequence[PathLike]
) -> list[np.ndarray | None]:
    """The `pair_pictures` of an image file and others; `None` for one that cannot be read."""
    from gsp_tf.runs import TokenModel, evaluation_batches  # with Keras, which thumbnails need not

    tokens = TokenModel(model.embedder, TOKENS)
    files = [str(file) for file in (image, *others)]
    checked = CheckedImages(files, model.embedder.input_shape[-1])
    batches = [np.asarray(images) for images, _ in evaluation_batches(model.recipe, checked)]
    readable = [not problem for problem in checked.problems]
    if not readable[0]:
        raise UnreadableImageError(files[0], checked.problems[0])
    pictures = iter(pair_pictures(tokens, np.concatenate(batches)[readable]))
    return [next(pictures, None) if found else None for found in readable[1:]]


def write_neighbours(
    path: PathLike,
    image: PathLike | Sequence[PathLike],
    neighbours: list[Neighbour] | list[list[Neighbour]],
    index: Index,
    why: RunModel | None = None,
    thresholds: Thresholds | None = None,
) -> Path:
    """Writes an HTML page with pictures of the images that `search` found, the nearest 500 of each.

    Args:
        path: HTML file to write.
        image: Image file passed to `search`, or a list of image files.
        neighbours: Result of `search`.
        index: The searched index.
        why: Model of the search, to show which places of the query and of its first neighbours it
            matches; its pooling must have weights. `None` shows none.
        thresholds: Thresholds that decided about the neighbours, to explain on the page.

    Raises:
        ValueError: If `why` is given and the query cannot be read, or the pooling has no weights.

    Example:
        >>> write_neighbours("search.html", "query.jpg", [], Index("no/such/index"))
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/index is not an index: it has no index.json. ...
    """
    if not isinstance(image, list | tuple):
        image, neighbours = [image], [neighbours]
    metadata = index.metadata
    by = "" if metadata.model is None else f", by the model of the run {metadata.model.recipe}"
    summary = f"The {len(neighbours[0])} nearest of {len(index):,} images{by}."
    distance = f"{index.distance_name} from the query"
    if any(found.cost is not None for of_query in neighbours for found in of_query):
        distance = f"cost, which gives the order, and {distance}"
    hint = f"Rank, label and {distance}."
    if thresholds is not None:
        hint += f" {thresholds.summary()}"
    if metadata.kind != "exact":
        hint += f" The index is not exact ({metadata.kind}); {metadata.recall}."
    searches = [(file, of[:_MOST], len(of)) for file, of in zip(image, neighbours, strict=True)]
    files = [file for query, of, _ in searches for file in (query, *(one.path for one in of))]
    tiles = map(image_tile, show_progress(files, "Writing the page", len(files)))

    def pairs(query, first):
        pictures = _explained(why, query, [one.path for one in first])
        return [
            (one, jpeg_uri(picture))
            for one, picture in zip(first, pictures, strict=True)
            if picture is not None
        ]

    return write_page(
        path,
        "search.html",
        title=f"Neighbours of {Path(image[0]).name if len(image) == 1 else f'{len(image)} images'}",
        summary=summary,
        hint=hint,
        searches=(  # made and written one at a time
            (
                next(tiles),
                next((one.decision for one in of if not one.is_query), None),
                ((one, next(tiles)) for one in of),
                count,
                [] if why is None else pairs(query, of[:_EXPLAINED]),
            )
            for query, of, count in searches
        ),
        most=_MOST,
    )
