"""Evaluation of the best model of a run."""

import hashlib
import zipfile
from typing import NamedTuple

import numpy as np

from gsp_tf._console import show_progress
from gsp_tf._files import locked, replacing
from gsp_tf.evaluation import class_wise_map, clustering_metrics, retrieval_metrics
from gsp_tf.experiment.data import evaluation_batches, load_splits
from gsp_tf.experiment.folder import RunFolder
from gsp_tf.experiment.place_maps import place_maps
from gsp_tf.training import embed
from gsp_tf.visual import class_by_class, weight_spread

EXAMPLES = 64


class RunEmbeddings(NamedTuple):
    """What the model of a run makes of its test images.

    Attributes:
        queries: float32 `(Q, D)`, embeddings of the test images.
        query_labels: integers `(Q,)`.
        references: float32 `(N, D)`, embeddings of the gallery; `None` without one.
        reference_labels: integers `(N,)`, or `None`.
        examples: integers `(n,)`, at most 64 images of the gallery, or of the test images without
            one, each class once before any comes twice.
        weights: floats `(n, H, W, maps)`, the `PlaceMaps` of the examples, or `None`.
        correlations: floats `(n, H, W, K)`, or `None`.
    """

    queries: np.ndarray
    query_labels: np.ndarray
    references: np.ndarray | None
    reference_labels: np.ndarray | None
    examples: np.ndarray
    weights: np.ndarray | None
    correlations: np.ndarray | None

    @property
    def metric_arguments(self):
        """Arguments of `retrieval_metrics`: queries, references and their labels."""
        return self[:4]


def evaluate_run(path, splits=None):
    """Evaluate the best model of a run on its test classes.

    Writes `metrics.json`, and the embeddings into `test_embeddings.npz`, for the report.

    Args:
        path: run folder.
        splits: what `load_splits` gives for the run's recipe, if it is loaded already.

    Returns:
        dict of `retrieval_metrics`, with `clustering_metrics` of all test images and the mean of
        `class_wise_map` as `class_wise_map_at_r` if the recipe says evaluation.clustering.

    Raises:
        BlockingIOError: if another process is writing the folder, as one that trains it.
        FileNotFoundError: if the folder is not a run folder.
        ValueError: if a file of it is damaged, or the data are not those it was made with.

    Example:
        >>> evaluate_run("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    folder = RunFolder.open(path)
    with locked(folder.path):
        recipe = folder.recipe()
        splits = splits or load_splits(recipe)
        embedded = embed_test_images(folder, recipe, splits)
        arguments = embedded.metric_arguments
        metrics = retrieval_metrics(*arguments, recall_at=recipe.evaluation.recall_at)
        if recipe.evaluation.clustering:
            metrics |= _class_metrics(*arguments)
        metrics = {name: np.asarray(value).item() for name, value in metrics.items()}
        num_classes = {
            name: len(getattr(splits, name).class_names) for name in ("train", "validation", "test")
        }
        entries = {"num_classes": num_classes, "test": metrics}
        if embedded.weights is not None:
            entries["pooling_weights"] = weight_spread(embedded.weights)
        # Embeddings count while there are metrics: both are written, then they are renamed first.
        with folder.updating_metrics(**entries), replacing(folder.embeddings_path) as temporary:
            found = embedded._asdict().items()
            np.savez(temporary, **{name: array for name, array in found if array is not None})
    return metrics


def _class_metrics(queries, query_labels, references, reference_labels):
    """Metrics of clusters of all test images, and MAP@R of the queries with equal classes."""
    embeddings, labels = queries, query_labels
    if references is not None:
        embeddings = np.concatenate([queries, references])
        labels = np.concatenate([query_labels, reference_labels])
    by_class = class_wise_map(queries, query_labels, references, reference_labels)
    return {
        "class_wise_map_at_r": np.nanmean(by_class),
        **clustering_metrics(embeddings, labels),
    }


def kept_embeddings(folder, recipe, splits):
    """What `evaluate_run` has kept of a run, or what `embed_test_images` gives if it has not.

    Args:
        folder: `RunFolder`.
        recipe: its recipe.
        splits: its `Splits`.

    Returns:
        `RunEmbeddings`.

    Raises:
        FileNotFoundError: if the folder is not a run folder.
        ValueError: if a file of it is damaged, or the data are not those it was made with.
    """
    if "test" not in folder.metrics() or not folder.embeddings_path.is_file():
        return embed_test_images(folder, recipe, splits)
    _check_test_classes(folder, splits.test)
    try:
        with np.load(folder.embeddings_path) as arrays:
            kept = RunEmbeddings(*map(arrays.get, RunEmbeddings._fields))
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{folder.embeddings_path} is damaged; gsp-tf evaluate {folder.path} writes it again."
        ) from error
    gallery = None if splits.gallery is None else splits.gallery.labels
    for labels, kept_labels in (
        (splits.test.labels, kept.query_labels),
        (gallery, kept.reference_labels),
    ):
        if not np.array_equal(labels, kept_labels):
            return embed_test_images(folder, recipe, splits)  # images came or went
    return kept


def embed_test_images(folder, recipe, splits):
    """Embeddings and labels of a run's test images, and of its gallery.

    Args:
        folder: `RunFolder`.
        recipe: its recipe.
        splits: its `Splits`.

    Returns:
        `RunEmbeddings`.

    Raises:
        FileNotFoundError: if the folder is not a run folder.
        ValueError: if a file of it is damaged, or the data are not those it was made with.
    """
    embedder = folder.learner(compile=False).embedder
    check_test_images(folder, embedder, recipe, splits)
    embedded = []
    for name, images in (("test", splits.test), ("gallery", splits.gallery)):
        if images is None:
            embedded += [None, None]
            continue
        batches = evaluation_batches(recipe, images)
        embedded += embed(
            embedder, show_progress(batches, f"Embedding the {name} images", len(batches))
        )
    shown = splits.test if splits.gallery is None else splits.gallery
    examples = class_by_class(shown.labels, seed=0)[:EXAMPLES]
    batches = evaluation_batches(recipe, shown, examples)
    maps = zip(*(place_maps(embedder, images) for images, _ in batches), strict=True)
    maps = [None if of[0] is None else np.concatenate(of) for of in maps]
    return RunEmbeddings(*embedded, examples, *maps)


def check_test_images(folder, embedder, recipe, splits):
    """Refuse test images that are not those that a run was made with.

    Args:
        folder: `RunFolder`.
        embedder: its Keras model.
        recipe: its recipe.
        splits: its `Splits`.

    Raises:
        ValueError: if the model takes other images, or the test classes are others.
    """
    size, test = recipe.data.image_size, splits.test
    if embedder.input_shape != (None, size, size, test.channels):
        raise ValueError(
            f"The model of {folder.path} takes images {embedder.input_shape[1:]}, its recipe and "
            f"data give {(size, size, test.channels)}."
        )
    _check_test_classes(folder, test)


def _check_test_classes(folder, test):
    """Refuse test images of other classes than those of a run."""
    if folder.metrics().get("test_classes", fingerprint(test)) != fingerprint(test):
        raise ValueError(
            f"The test classes are not those that {folder.path} was made with: the data or the "
            "split in its recipe have changed, and the model may have been trained on them."
        )


def fingerprint(images):
    """Which classes a set holds, as a short text.

    Args:
        images: `ImageSet`.

    Returns:
        str, the same for the same class names in the same order.
    """
    names = "\n".join(images.class_names)
    return hashlib.sha256(names.encode("utf-8", errors="surrogateescape")).hexdigest()[:16]
