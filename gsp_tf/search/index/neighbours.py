"""Search for the nearest neighbours of images."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from gsp_tf._console import listed
from gsp_tf._typing import PathLike
from gsp_tf.data import UnreadableImageError
from gsp_tf.evaluation import TokenSets, rerank_by_transport
from gsp_tf.search.embedding import EmbeddingsFolder, RunModel
from gsp_tf.search.index._vector_reranking import METHODS, VectorReranking
from gsp_tf.search.index.build import build_index
from gsp_tf.search.index.image_index import Index
from gsp_tf.search.index.prefix_index import PrefixIndex
from gsp_tf.search.index.where import ConditionError
from gsp_tf.search.thresholds import Decision, Thresholds, find_thresholds

Rerank = Literal[
    "transport", "k_reciprocal", "query_expansion", "database_augmentation", "whitening"
]
_DEPTH = 100


class Neighbour(NamedTuple):
    """An image found by a search.

    Attributes:
        rank: 1 for the nearest.
        distance: Distance of the embedding from that of the query.
        label: Class, `None` if unknown.
        path: Absolute path of the file.
        id: Id in the index.
        decision: "match", "unsure" or "unknown" by calibrated thresholds of the distance, `None`
            without any.
        cost: Cost that gives the order, if the results are re-ranked.
        is_query: Whether this is the file of the query itself, which is in the index.

    Example:
        >>> Neighbour(rank=1, distance=0.25, label="cat", path="/a.png", id=7).label
        'cat'
    """

    rank: int
    distance: float
    label: str | None
    path: str
    id: int
    decision: Decision | None = None
    cost: float | None = None
    is_query: bool = False


def search(
    run: RunModel | PathLike,
    image: PathLike | Sequence[PathLike],
    index: Index | PathLike | None = None,
    k: int = 10,
    thresholds: Thresholds | PathLike | None = None,
    rerank: Rerank | None = None,
    excluded: Sequence[Sequence[int]] | None = None,
    where: str | None = None,
    dim: int | None = None,
    whitening: PathLike | None = None,
) -> list[Neighbour] | list[list[Neighbour]]:
    """Finds the images of an index that are nearest to an image, or to each of several.

    Args:
        run: Run folder of the model that made the index, or its `RunModel`.
        image: Image file, or a list of image files.
        index: `Index` or its folder; `None` means the folder `index` in the run.
        k: Number of neighbours; an index with fewer images returns all of them.
        thresholds: `Thresholds` or their file, to decide which neighbours match; `None` means those
            that `calibrate` wrote for the index or the run, if there are any.
        rerank: `"transport"` puts the first 100 in the order of the partial transport between their
            local features and those of the query (`rerank_by_transport`). The index must keep local
            features. The other ways are those of `reranking_metrics`; all images that meet the
            condition are ranked, and the index must have the vectors, which are read into memory.
            `None` keeps the order.
        excluded: For each image, ids in the index that it must not find, such as those of the same
            camera or sequence; `None` excludes nothing.
        where: Condition on the columns of the images, such as `camera != 3 and year > 2020`; only
            images that meet it are found, and all of them are compared with the query. `None` finds
            all.
        dim: Search by the first components of the embeddings, normalised again; for a model trained
            with `MatryoshkaLoss`. The index must be one of them, or have the vectors.
        whitening: Source of `labelled_embeddings`, such as those of the training images, from whose
            matched pairs the whitening of `rerank="whitening"` is learned (`LearnedWhitening`);
            `None` takes the principal components of the searched images.

    Returns:
        The neighbours, best first; for a list of images, a list of such lists. An image that is
        in the index finds itself (`is_query`).

    Raises:
        FileNotFoundError: If a folder does not exist.
        ValueError: If an image cannot be read, `k` is below 1, the index or the thresholds were
            made with another model or preprocessing, the index lacks the local features or vectors
            that re-ranking needs, the condition or the dimension cannot be used, or everything is
            excluded.

    Example:
        >>> search("no/such/run", "query.jpg")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    several = isinstance(image, list | tuple)
    images = [str(file) for file in (image if several else [image])]
    searched = open_searched(run, index, k, thresholds, rerank, where, dim, whitening)
    embeddings, problems, sets = searched.embed(images, "Embedding")
    for file, problem in zip(images, problems, strict=True):
        if problem:
            raise UnreadableImageError(file, problem)
    neighbours = searched.neighbours(images, embeddings, sets, excluded)
    without = [file for file, found in zip(images, neighbours, strict=True) if not found]
    if without:
        raise ValueError(f"All {searched.num_images:,} images are excluded for {listed(without)}.")
    return neighbours if several else neighbours[0]


def open_searched(
    run: RunModel | Index | PathLike,
    index: Index | PathLike | None,
    k: int,
    thresholds: Thresholds | PathLike | None,
    rerank: Rerank | None,
    where: str | None,
    dim: int | None,
    whitening: PathLike | None = None,
) -> "_Searched":
    """The index of `search`, or one without a run, opened and checked with how it is searched."""
    if k < 1:
        raise ValueError(f"k must be 1 or more; received {k}.")
    model, index = _opened(run, index)
    if dim is not None:
        index = PrefixIndex.of(index, dim)
    whose = index.path if model is None else model.folder.path
    thresholds = find_thresholds(thresholds, index.metadata.model, whose, index)
    if rerank not in (None, "transport", *METHODS):
        known = ", ".join(("transport", *METHODS))
        raise ValueError(f"rerank must be None or one of {known}; received {rerank!r}.")
    if rerank == "transport" and k > _DEPTH:
        raise ValueError(f"Transport orders the first {_DEPTH} results; received k={k}.")
    matching = None if where is None else index.matching(where)
    if matching is not None and not len(matching):
        raise ConditionError(f"No image of the index {index.path} meets the condition {where!r}.")
    if whitening is not None and rerank != "whitening":
        raise ValueError(
            f"whitening is for the way to re-rank of that name; received rerank={rerank!r}."
        )
    order = VectorReranking(index, rerank, matching, whitening) if rerank in METHODS else None
    return _Searched(model, index, k, thresholds, rerank, matching, order)


def _opened(run, index):
    """The model and the index of a run, or no model and an index by itself."""
    is_open = isinstance(run, Index)
    if is_open or (not isinstance(run, RunModel) and Path(run, "index.json").is_file()):
        if index is not None:
            path = run.path if is_open else run
            raise ValueError(f"{path} is an index already; give it or another one, not both.")
        return None, run if is_open else Index(run)
    model = run if isinstance(run, RunModel) else RunModel(run)
    index = open_index(model.folder.path, index)
    index.check_model(model)
    return model, index


class _Searched(NamedTuple):
    """An index, and how it is searched; `matching` are the ids that meet the condition."""

    model: RunModel | None
    index: Index
    k: int
    thresholds: Thresholds | None
    rerank: Rerank | None
    matching: np.ndarray | None
    order: VectorReranking | None

    @property
    def num_images(self) -> int:
        """The number of images that are searched."""
        return len(self.index) if self.matching is None else len(self.matching)

    def embed(self, images: Sequence[str], description: str):
        """Embeddings, problems and token sets of images; the sets are for transport alone."""
        if self.model is None:
            path, made_by = self.index.path, self.index.metadata.model
            if made_by is None:
                raise ValueError(
                    f"The index {path} holds vectors from elsewhere and has no model to embed "
                    f"{images[0]}; search it with vectors (.parquet, .npz, .npy)."
                )
            raise ValueError(
                f"The index {path} itself has no model to embed {images[0]}; name the run and the "
                f"index: gsp-tf search {made_by.run} {images[0]} --index {path}."
            )
        if self.rerank == "transport" and len(self.index):
            tokens = self.index.token_sets(self.index.ids[:1]).weights.shape[1]
            found, sets = self.model.embed_with_tokens(images, tokens, description)
            return *found, sets
        return *self.model.embed_images(images, description), None

    def neighbours(
        self,
        names: Sequence[str],
        embeddings: np.ndarray,
        sets: TokenSets | None = None,
        excluded: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Neighbour]]:
        """The neighbours of each embedding `(Q, D)`; none where all images are excluded."""
        if self.order is not None:
            _check_excluded(names, excluded)
            found = self.order(embeddings, self.k, excluded)
            return _neighbours(self.index, self.thresholds, names, *found)
        depth = self.k if sets is None else _DEPTH
        neighbours = []
        for rows, ids in self._blocks(names, excluded):
            lost = ids if self.matching is None else ids[np.isin(ids, self.matching)]
            k = min(depth, self.num_images - len(lost))
            if not k and len(self.index):
                neighbours += [[] for _ in names[rows]]
                continue
            found = self.index.search(embeddings[rows], k, ids, self.matching)
            if sets is None:
                found = *found, None
            else:
                found = _reranked(self.index, sets.take(rows), *found, self.k)
            neighbours += _neighbours(self.index, self.thresholds, names[rows], *found)
        return neighbours

    def _blocks(self, names, excluded):
        """Rows of queries that are searched at once, and the ids that they must not find."""
        if excluded is None:
            return [(slice(None), np.empty(0, np.int64))]
        _check_excluded(names, excluded)
        return [(slice(row, row + 1), np.unique(ids)) for row, ids in enumerate(excluded)]


def _check_excluded(names, excluded):
    """Raises `ValueError` unless there are ids to exclude for each query, or none at all."""
    if excluded is not None and len(excluded) != len(names):
        raise ValueError(
            f"excluded must hold ids for each of {len(names)} images; received {len(excluded)}."
        )


def _reranked(index, sets, ids, distances, k):
    """The k first of the ids found for each query with their distances and costs, by transport."""
    known, places = np.unique(ids, return_inverse=True)
    places = places.reshape(ids.shape)
    order, costs = rerank_by_transport(places, sets, index.token_sets(known), _DEPTH)
    ranks = np.argsort(places, axis=1)
    moved = np.take_along_axis(ranks, np.argsort(np.argsort(order, axis=1), axis=1), axis=1)
    distances = np.take_along_axis(distances, moved, axis=1)
    return known[order][:, :k], distances[:, :k], costs[:, :k]


def _neighbours(index, thresholds, names, ids, distances, costs):
    """The neighbours of each query; decisions are about the distance of the embeddings."""
    decide = (lambda distance: None) if thresholds is None else thresholds.decide
    several = []
    for number, (name, of_query) in enumerate(zip(names, ids, strict=True)):
        own = name, os.path.abspath(name)
        found = zip(
            distances[number],
            index.labels(of_query),
            index.paths(of_query),
            of_query,
            [None] * len(of_query) if costs is None else costs[number].tolist(),
            strict=True,
        )
        several.append(
            [
                Neighbour(
                    rank,
                    float(distance),
                    label,
                    path,
                    int(id),
                    decide(distance),
                    cost,
                    path in own,
                )
                for rank, (distance, label, path, id, cost) in enumerate(found, start=1)
            ]
        )
    return several


def open_index(
    run: PathLike, index: Index | PathLike | None = None, mapped: bool | None = None
) -> Index:
    """Opens an index, by default the one in a run folder.

    Args:
        run: Run folder.
        index: `Index` or its folder; `None` means the folder `index` in the run, which is built of
            the folder `embeddings` in the run if there is none.
        mapped: As in `Index`.

    Returns:
        The index.

    Example:
        >>> open_index("runs/gsp")
        Traceback (most recent call last):
            ...
        FileNotFoundError: runs/gsp is not a run folder: it has no recipe.yaml.
    """
    if isinstance(index, Index):
        return index
    if index is None:
        folder = RunModel(run).folder.path
        index, embeddings = folder / "index", EmbeddingsFolder(folder / "embeddings")
        if not (index / "index.json").is_file() and embeddings.metadata_path.is_file():
            build_index(embeddings, index)
    return Index(index, mapped)
