"""The nearest neighbours of an image."""

from typing import NamedTuple

from gsp_tf.data import read_image
from gsp_tf.serving.index import Index
from gsp_tf.serving.recall import describe_recall
from gsp_tf.serving.run_model import RunModel
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
    """Find the images of an index that are nearest to an image.

    Args:
        run: run folder of the model that the index was made with.
        image: image file.
        index: `Index` or its folder; `None` is the folder `index` in the run.
        k: number of neighbours, at most as many as the index holds.

    Returns:
        list of `Neighbour`, nearest first. An image that is in the index finds itself.

    Raises:
        FileNotFoundError: if a folder is not there.
        ValueError: if the image cannot be read, `k` is out of range, or the index was made with
            another model or preprocessing.

    Example:
        >>> search("no/such/run", "query.jpg")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    model = RunModel(run)
    index = open_index(run, index)
    index.check_model(model)
    index.check_k(k)
    read_image(image)
    ids, distances = index.search(model.embed_files([image]), k)
    found = zip(distances[0], index.labels(ids[0]), index.paths(ids[0]), ids[0], strict=True)
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
        image: image file that was searched.
        neighbours: list of `Neighbour`.
        index: `Index` that was searched.

    Returns:
        pathlib.Path of the page.
    """
    metadata = index.metadata
    summary = (
        f"The {len(neighbours)} nearest of {len(index):,} images, by the model of the run "
        f"{metadata['model'].get('recipe')}."
    )
    hint = f"Rank, label and {distance_name(metadata)} from the query."
    if metadata["kind"] != "exact":
        hint += f" The index is compressed ({metadata['kind']}); {describe_recall(metadata)}."
    found = [(n.rank, n.distance, n.label, n.path) for n in neighbours]
    return write_search_page(path, image, found, summary, hint)


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
