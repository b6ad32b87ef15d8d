"""The nearest neighbours of an image."""

from typing import NamedTuple

from gsp_tf.data import check_image
from gsp_tf.serving.index import Index
from gsp_tf.serving.recall import describe_recall
from gsp_tf.serving.run_model import RunModel
from gsp_tf.serving.tiles import image_tile
from gsp_tf.visual import write_search_page


class Neighbour(NamedTuple):
    """An image that a search found.

    Attributes:
        rank: 1 for the nearest.
        distance: its distance from the query.
        label: its class, `None` if it is not known.
        path: absolute path of its file.
        id: its id in the index.
    """

    rank: int
    distance: float
    label: str | None
    path: str
    id: int


def search(run, image, index=None, k=10):
    """Find the images of an index that are nearest to an image, or to each of several.

    Args:
        run: run folder of the model that the index was made with.
        image: image file, or a list of them.
        index: `Index` or its folder; `None` is the folder `index` in the run.
        k: number of neighbours; all images of an index that holds fewer.

    Returns:
        list of `Neighbour`, nearest first; for a list of images a list of these lists. An image
        that is in the index finds itself.

    Raises:
        FileNotFoundError: if a folder is not there.
        ValueError: if an image cannot be read, `k` is below 1, or the index was made with another
            model or preprocessing.

    Example:
        >>> search("no/such/run", "query.jpg")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more; received {k}.")
    several = isinstance(image, list | tuple)
    images = list(image) if several else [image]
    model = RunModel(run)
    index = open_index(run, index)
    index.check_model(model)
    for file in images:
        check_image(file)
    found = index.search(model.embed_files(images), min(k, len(index)))
    neighbours = [_neighbours(index, *of_query) for of_query in zip(*found, strict=True)]
    return neighbours if several else neighbours[0]


def _neighbours(index, ids, distances):
    found = zip(distances, index.labels(ids), index.paths(ids), ids, strict=True)
    return [
        Neighbour(rank, float(distance), label, path, int(number))
        for rank, (distance, label, path, number) in enumerate(found, start=1)
    ]


def open_index(run, index=None, mapped=None):
    """An index, by default that in the folder of a run.

    Args:
        run: run folder.
        index: `Index` or its folder; `None` is the folder `index` in the run.
        mapped: as in `Index`.

    Returns:
        `Index`.

    Example:
        >>> open_index("runs/gsp")
        Traceback (most recent call last):
            ...
        FileNotFoundError: runs/gsp is not a run folder: it has no recipe.yaml.
    """
    if isinstance(index, Index):
        return index
    if index is None:
        index = RunModel(run).folder.path / "index"
    return Index(index, mapped)


def write_neighbours(path, image, neighbours, index):
    """Write a page with the pictures of what `search` found.

    Args:
        path: HTML file to write.
        image: image file that was searched, or a list of them.
        neighbours: what `search` gave for it.
        index: `Index` that was searched.

    Returns:
        pathlib.Path of the page.
    """
    if not isinstance(image, list | tuple):
        image, neighbours = [image], [neighbours]
    metadata = index.metadata
    summary = (
        f"The {len(neighbours[0])} nearest of {len(index):,} images, by the model of the run "
        f"{metadata['model'].get('recipe')}."
    )
    hint = f"Rank, label and {distance_name(metadata)} from the query."
    if metadata["kind"] != "exact":
        hint += f" The index is compressed ({metadata['kind']}); {describe_recall(metadata)}."
    found = [[(n.rank, n.distance, n.label, n.path) for n in of] for of in neighbours]
    searches = list(zip(image, found, strict=True))
    return write_search_page(path, searches, summary, hint, image_tile)


def distance_name(metadata):
    """What the distances of an index are, as a text.

    Args:
        metadata: dict of an `Index`.

    Returns:
        str.

    Example:
        >>> distance_name({"kind": "ivf_sq8", "metric": "euclidean"})
        'approximate Euclidean distance'
    """
    metric = {"euclidean": "Euclidean", "cosine": "cosine"}[metadata["metric"]]
    return f"{'' if metadata['kind'] == 'exact' else 'approximate '}{metric} distance"
