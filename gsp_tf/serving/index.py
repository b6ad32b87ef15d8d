"""A nearest-neighbour index of images that grows and shrinks."""

import base64
import operator
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gsp_tf._console import counted, listed
from gsp_tf.evaluation import SearchSpace, checked_embeddings
from gsp_tf.serving.checksum import file_sha256
from gsp_tf.serving.embeddings_folder import EmbeddingsFolder
from gsp_tf.serving.index_files import ITEM_COLUMNS, IndexFiles
from gsp_tf.serving.kinds import choose_kind, new_index
from gsp_tf.serving.metadata import VERSIONED, versions
from gsp_tf.serving.recall import NEIGHBOURS, choose_probes, exact_neighbours

NUM_QUERIES = 256
_TRAINING_POINTS = 65_536
_POINTS_PER_LIST = 64


class Index:
    """Images found by their embeddings, in a folder.

    Every image has an id, which it keeps, and which no other image gets after it was deleted.
    `add` and `delete` change the folder at once and completely: whatever happens, it holds the
    index from before or the one from after. Of two processes that change it at once one is refused.

    Args:
        path: folder that `build_index` wrote.
        mapped: whether to leave the vectors on disk and read those that a search needs; `None`
            does so if they are more than the memory that is available. The checksum of vectors on
            disk is not compared; `verify_index` does it.

    Attributes:
        metadata: what `index.json` holds.
        mapped: whether the vectors are on disk.

    Raises:
        FileNotFoundError: if the folder is no index.
        ValueError: if it is damaged.

    Example:
        >>> Index("no/such/index")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/index is no index: it has no index.json. ...
    """

    def __init__(self, path, mapped=None):
        self._files = IndexFiles(path)
        self.path = self._files.path
        self.metadata, self._index, self._items, self.mapped = self._files.open(mapped)
        self._ids = self._items["id"].to_numpy()
        self._space = _unpacked(self.metadata, self._files.metadata_path)

    def __len__(self):
        return self.metadata["count"]

    @property
    def ids(self):
        """The ids of the images, int64 `(N,)`, in ascending order."""
        return self._ids

    def search(self, embeddings, k):
        """Finds the k nearest images of each embedding, nearest first.

        Args:
            embeddings: float array-like `(Q, D)`.
            k: number of images, at most as many as the index holds.

        Returns:
            ids `(Q, k)` int64 and distances `(Q, k)` float32; those of a compressed index are
            approximate.

        Raises:
            ValueError: if `k` is out of range, or the dimension of the embeddings differs.
        """
        queries = checked_embeddings(embeddings, "embeddings")
        if queries.shape[1] != self.metadata["dim"]:
            raise ValueError(
                f"The index {self.path} is of dimension {self.metadata['dim']}; received "
                f"embeddings of dimension {queries.shape[1]}."
            )
        self.check_k(k)
        vectors = self._space.vectors(queries)
        scores, ids = self._index.search(vectors, k)
        short = (ids < 0).any(axis=1)
        if short.any() and self.metadata["kind"] != "exact":
            # The lists that were looked into hold fewer than k vectors: look into all.
            probes, self._index.nprobe = self._index.nprobe, self._index.nlist
            scores[short], ids[short] = self._index.search(vectors[short], k)
            self._index.nprobe = probes
        if (ids < 0).any():
            raise ValueError("The embeddings lie too far from the index for float32 distances.")
        return ids, self._space.distances(scores)

    def check_model(self, model):
        """Refuse a `RunModel` that the index was not made with, or with other preprocessing."""
        both = f"{model.folder.path} and the index {self.path}"
        check_same_model(model.described, self.metadata, both)

    def check_k(self, k):
        """Refuse to search for no images, or for more than there are."""
        if not len(self):
            raise ValueError(f"The index {self.path} is empty.")
        if not 1 <= operator.index(k) <= len(self):
            raise ValueError(
                f"k must be between 1 and {len(self)}, the images in {self.path}; received {k}."
            )

    def paths(self, ids):
        """Paths of images by their ids, a list of str."""
        return self._items["path"].take(self._rows(ids)).to_pylist()

    def labels(self, ids):
        """Labels of images by their ids, a list of str, or `None` where it is not known."""
        return self._items["label"].take(self._rows(ids)).to_pylist()

    def add(self, embeddings):
        """Adds the images of a folder of embeddings.

        Args:
            embeddings: `EmbeddingsFolder` or its path, with the model of this index.

        Raises:
            BlockingIOError: if another process is changing the index.
            FileNotFoundError: if the folder holds no embeddings.
            ValueError: if they are of another model or preprocessing, an image is in the index, or
                another process has changed the index since it was opened.
        """
        folder = EmbeddingsFolder.open(embeddings)
        described = folder.metadata()
        check_same_model(described, self.metadata, f"{folder.path} and the index {self.path}")
        new = _new_items(folder, self.metadata["next_id"])
        known = _in(new["path"], self._items["path"])
        if known:
            raise ValueError(
                f"The index {self.path} holds {counted(len(known), 'image')} of these already; to "
                f"replace them, delete them first: {listed(known)}."
            )
        with self._files.changing(self.metadata):
            index = self._loaded()
            for ids, vectors in _blocks(folder, self._space, self.metadata["next_id"]):
                index.add_with_ids(vectors, ids)
            self._write(index, pa.concat_tables([self._items, new]))

    def delete(self, paths):
        """Removes images.

        Args:
            paths: the paths of their files.

        Raises:
            BlockingIOError: if another process is changing the index.
            ValueError: if one of them is not in the index, or named twice, or another process has
                changed the index since it was opened.
        """
        paths = pa.array([os.path.abspath(path) for path in paths], pa.string())
        missing = pc.filter(paths, pc.invert(pc.is_in(paths, self._items["path"])))
        if len(missing):
            raise ValueError(
                f"The index {self.path} does not hold {counted(len(missing), 'image')} to delete: "
                f"{listed(missing.to_pylist())}."
            )
        if len(pc.unique(paths)) < len(paths):
            raise ValueError("An image to delete is named twice.")
        drop = pc.is_in(self._items["path"], paths)
        with self._files.changing(self.metadata):
            index = self._loaded()
            index.remove_ids(self._ids[drop.to_numpy()])
            self._write(index, self._items.filter(pc.invert(drop)))

    def _rows(self, ids):
        ids = np.asarray(ids, np.int64)
        rows = np.searchsorted(self._ids, ids)
        known = rows < len(self._ids)
        known[known] = self._ids[rows[known]] == ids[known]
        if not known.all():
            raise ValueError(f"The index {self.path} has no image of id {listed(ids[~known])}.")
        return pa.array(rows)

    def _loaded(self):
        """A copy of the index in memory, which can be changed."""
        return self._files.read(self.metadata, mapped=False)[0]

    def _write(self, index, items):
        items = items.combine_chunks()
        next_id = max([self.metadata["next_id"], *(items["id"][-1:].to_numpy() + 1).tolist()])
        changed = {**self.metadata, "count": len(items), "next_id": next_id}
        self.metadata = self._files.write(changed, index, items)
        self._index, self._items, self.mapped = index, items, False
        self._ids = items["id"].to_numpy()


def build_index(embeddings, path=None, kind=None, metric=None, seed=0):
    """Build an index of embedded images.

    The recall of a compressed index is that of 256 of its images, each searching the others: the
    share of their ten nearest neighbours by exact search that are among the ten that the index
    finds. By the same queries it chooses how many lists to look into.

    Args:
        embeddings: `EmbeddingsFolder` or its path.
        path: folder to write; `None` is the folder `index` in the run of the model.
        kind: `"exact"`, `"ivf_sq8"` or `"ivf_pq"`; `None` is `choose_kind` of their number.
        metric: `"euclidean"` or `"cosine"`; `None` is that of the run's evaluation.
        seed: integer seed of the samples that train and measure a compressed index.

    Returns:
        `Index`.

    Raises:
        BlockingIOError: if another process is writing the folder.
        FileExistsError: if the folder exists and holds anything.
        FileNotFoundError: if there are no embeddings, or no `path` and the run is gone.
        ValueError: if the embeddings are not complete or damaged, or too few for the kind.

    Example:
        >>> build_index("no/such/folder")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder holds no embeddings: it has no embeddings.json, ...
    """
    folder = EmbeddingsFolder.open(embeddings)
    described = folder.metadata()
    files = IndexFiles(_default_path(folder, described) if path is None else path)
    files.refuse_existing()
    with files.changing():
        _build(files, folder, described, kind, metric, np.random.default_rng(seed))
    return Index(files.path)


def _build(files, folder, described, kind, metric, rng):
    items = _new_items(folder, 0)
    count, dim = len(items), described["dim"]
    kind = choose_kind(count) if kind is None else kind
    space = _space(folder, metric or described["metric"])
    index = new_index(kind, dim, count, space.faiss_metric)
    if not index.is_trained:
        points = min(count, max(_TRAINING_POINTS, _POINTS_PER_LIST * index.nlist))
        index.train(_sample(folder, space, rng.choice(count, points, replace=False)))
    for ids, vectors in _blocks(folder, space):
        index.add_with_ids(vectors, ids)
    metadata = {
        "kind": kind,
        "metric": space.metric,
        "dim": dim,
        "count": count,
        "next_id": count,
        "space": _packed(space),
        "model": described["model"],
        "preprocessing": described["preprocessing"],
        "recall": _measure(index, kind, folder, space, count, rng),
        "versions": versions(*VERSIONED),
    }
    files.write(metadata, index, items)


def verify_index(path):
    """Check that the files of an index are those that were written, vectors on disk included.

    The files are read in full and compared with the checksums in `index.json`; nothing is loaded.
    The checksums find damage; they are no signature, for who can change the files can change them
    too.

    Args:
        path: folder of `build_index`.

    Returns:
        dict, what `index.json` holds.

    Raises:
        FileNotFoundError: if the folder is no index, or lacks a file.
        ValueError: if it is damaged.

    Example:
        >>> verify_index("no/such/index")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/index is no index: it has no index.json. ...
    """
    return IndexFiles(path).verify()


def check_same_model(ours, theirs, both):
    """Refuse embeddings, an index or a run whose model or preprocessing is not the same.

    Args:
        ours: dict with the entries `model` and `preprocessing`.
        theirs: the other dict.
        both: what they are, for the error.

    Raises:
        ValueError: if they differ.

    Example:
        >>> ours = {"model": {"sha256": "a", "run": "runs/gap"}, "preprocessing": {}}
        >>> theirs = {"model": {"sha256": "b", "run": "runs/gsp"}, "preprocessing": {}}
        >>> check_same_model(ours, theirs, "Run and index")
        Traceback (most recent call last):
            ...
        ValueError: Run and index do not belong together: the models are of runs/gap and runs/gsp.
    """
    ours_model, theirs_model = ours["model"], theirs["model"]
    if ours_model.get("sha256") != theirs_model.get("sha256"):
        runs = ours_model.get("run"), theirs_model.get("run")
        which = f"the models are of {runs[0]} and {runs[1]}"
        if runs[0] == runs[1]:
            which = f"the models are two of {runs[0]}, which was trained again in between"
        raise ValueError(f"{both} do not belong together: {which}.")
    a, b = ours["preprocessing"], theirs["preprocessing"]
    if a != b:
        raise ValueError(f"{both} do not belong together: the preprocessing is {a} and {b}.")


def _default_path(folder, described):
    """The folder `index` in the run: the folder around the embeddings, or the one they name."""
    named = Path(str(described["model"].get("run", "")))
    for run in (folder.path.absolute().parent, named):
        model = run / "model.keras"
        if model.is_file() and file_sha256(model) == described["model"].get("sha256"):
            return run / "index"
    raise FileNotFoundError(
        f"The run of {folder.path}, {named}, is not there or has another model; say where to write "
        "the index (--out)."
    )


def _new_items(folder, first_id):
    """The table of items of a folder of embeddings, with ids from `first_id` on."""
    paths, labels = [], []
    for shard in folder.shards():
        paths += shard.paths
        labels += shard.labels
    if len(set(paths)) < len(paths):
        raise ValueError(f"{folder.path} is damaged: it holds an image twice.")
    columns = [pa.array(range(first_id, first_id + len(paths))), pa.array(paths), labels]
    return pa.table(columns, schema=pa.schema(ITEM_COLUMNS))


def _in(paths, known):
    return pc.filter(paths, pc.is_in(paths, known)).to_pylist()


def _blocks(folder, space, first_id=0):
    """Ids and vectors of a folder of embeddings, shard by shard."""
    for shard in folder.shards():
        if shard.paths:
            embeddings = checked_embeddings(shard.embeddings, f"The embeddings of {folder.path}")
            ids = np.arange(first_id, first_id + len(embeddings))
            yield ids, space.vectors(embeddings)
            first_id += len(embeddings)


def _space(folder, metric):
    """The `SearchSpace` around all embeddings of a folder."""
    first, low, high = None, None, None
    for shard in folder.shards():
        if shard.paths:
            values = checked_embeddings(shard.embeddings, f"The embeddings of {folder.path}")
            first = values[0] if first is None else first
            low = values.min(axis=0) if low is None else np.minimum(low, values.min(axis=0))
            high = values.max(axis=0) if high is None else np.maximum(high, values.max(axis=0))
    return SearchSpace.around(np.stack([first, low, high]), metric)


def _sample(folder, space, rows):
    """The vectors of some rows of a folder of embeddings, in ascending order of the rows."""
    rows = np.sort(rows)
    return np.concatenate(
        [vectors[np.isin(ids, rows, assume_unique=True)] for ids, vectors in _blocks(folder, space)]
    )


def _measure(index, kind, folder, space, count, rng):
    """Recall of a new index, and with how many neighbours and queries it was measured."""
    k = min(NEIGHBOURS, count - 1)
    if kind == "exact" or not k:
        return {"share": 1.0, "neighbours": k, "queries": 0, "images": count}
    rows = np.sort(rng.choice(count, min(count, NUM_QUERIES), replace=False))
    queries = _sample(folder, space, rows)
    truth = exact_neighbours(_blocks(folder, space), queries, rows, k, space.faiss_metric)
    share = choose_probes(index, queries, rows, truth)
    return {"share": share, "neighbours": k, "queries": len(rows), "images": count}


def _packed(space):
    """A `SearchSpace` as JSON has it."""
    origin = np.asarray(space.origin, "<f4").tobytes()
    return {"origin": base64.b64encode(origin).decode(), "scale": float(space.scale)}


def _unpacked(metadata, path):
    try:
        origin = np.frombuffer(base64.b64decode(metadata["space"]["origin"]), "<f4")
        space = SearchSpace(metadata["metric"], origin, np.float32(metadata["space"]["scale"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: its space cannot be read ({error}).") from error
    if origin.shape != (metadata["dim"],):
        raise ValueError(f"{path} is damaged: its origin has {len(origin)} dimensions.")
    return space
