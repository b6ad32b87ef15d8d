"""Thumbnails of image files, and the page of what a search found."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from gsp_tf._typing import PathLike
from gsp_tf.data import UnreadableImageError, read_image
from gsp_tf.search.index.image_index import Index
from gsp_tf.search.index.neighbours import Neighbour
from gsp_tf.search.thresholds import Thresholds
from gsp_tf.visual import TILE_PIXELS, Tile, array_tile, write_search_page


def image_tile(path: PathLike) -> Tile:
    """The thumbnail of an image file, or the reason why there is none.

    Args:
        path: image file; it may be missing or damaged.

    Example:
        >>> image_tile("gone.png").problem
        'there is no such file'
    """
    path = str(path)
    try:
        image = read_image(path, min_side=2 * TILE_PIXELS)
    except UnreadableImageError as error:
        return Tile(path, Path(path).name, None, error.reason)
    return array_tile(image, path)._replace(link=Path(path).absolute().as_uri())


def write_neighbours(
    path: PathLike,
    image: PathLike | Sequence[PathLike],
    neighbours: list[Neighbour] | list[list[Neighbour]],
    index: Index,
    pairs: Callable[[PathLike, Sequence[str]], Sequence[np.ndarray | None]] | None = None,
    thresholds: Thresholds | None = None,
) -> Path:
    """Writes an HTML page with pictures of the images that `search` found.

    Args:
        path: HTML file to write.
        image: Image file passed to `search`, or a list of image files.
        neighbours: Result of `search`.
        index: The searched index.
        pairs: Function from a query and the paths of its first neighbours to pictures of what they
            have in common, such as `explain_neighbours` of a run; `None` shows none.
        thresholds: Thresholds that decided about the neighbours, to explain on the page.

    Returns:
        The path of the page.

    Example:
        >>> write_neighbours("search.html", "query.jpg", [], Index("no/such/index"))
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/index is not an index: it has no index.json. ...
    """
    if not isinstance(image, list | tuple):
        image, neighbours = [image], [neighbours]
    metadata = index.metadata
    summary = (
        f"The {len(neighbours[0])} nearest of {len(index):,} images, by the model of the run "
        f"{metadata.model.recipe}."
    )
    distance = f"{index.distance_name} from the query"
    if any(found.cost is not None for of_query in neighbours for found in of_query):
        distance = f"cost, which gives the order, and {distance}"
    hint = f"Rank, label and {distance}."
    if thresholds is not None:
        hint += f" {thresholds.summary()}"
    if metadata.kind != "exact":
        hint += f" The index is not exact ({metadata.kind}); {metadata.recall}."
    shown = [
        [(n.rank, n.distance, n.label, n.path, n.decision, n.cost, n.is_query) for n in of_query]
        for of_query in neighbours
    ]
    searches = list(zip(image, shown, strict=True))
    return write_search_page(path, searches, summary, hint, image_tile, pairs)
