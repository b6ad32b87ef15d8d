"""Evaluation of the best model of a run."""

import hashlib

import numpy as np

from gsp_tf.data.progress import show_progress
from gsp_tf.evaluation import class_wise_map, clustering_metrics, retrieval_metrics
from gsp_tf.experiment.data import evaluation_batches, load_splits
from gsp_tf.experiment.folder import RunFolder
from gsp_tf.lock import locked
from gsp_tf.training import embed


def evaluate_run(path, splits=None):
    """Evaluate the best model of a run on its test classes; writes `metrics.json`.

    Args:
        path: run folder.
        splits: what `load_splits` gives for the run's recipe, if it is at hand.

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
        metrics = retrieval_metrics(*embedded, recall_at=recipe.evaluation.recall_at)
        if recipe.evaluation.clustering:
            metrics |= _class_metrics(*embedded)
        metrics = {name: np.asarray(value).item() for name, value in metrics.items()}
        num_classes = {
            name: len(getattr(splits, name).class_names) for name in ("train", "validation", "test")
        }
        folder.update_metrics(num_classes=num_classes, test=metrics)
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


def embed_test_images(folder, recipe, splits):
    """Embeddings and labels of a run's test images, and of its gallery.

    Args:
        folder: `RunFolder`.
        recipe: its recipe.
        splits: its `Splits`.

    Returns:
        embeddings `(Q, D)` and labels `(Q,)` of the test images, then those of the gallery, or
        `None` and `None` without one.

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
    return embedded


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
