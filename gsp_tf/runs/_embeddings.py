"""The embeddings of a run's test images."""

import hashlib
from typing import NamedTuple

import numpy as np

from gsp_tf._console import show_progress
from gsp_tf._files import reading_arrays
from gsp_tf.data import ImageSet
from gsp_tf.runs._inputs import evaluation_inputs
from gsp_tf.runs.data import evaluation_batches
from gsp_tf.runs.places import place_maps
from gsp_tf.training import embed
from gsp_tf.visual import class_by_class

EXAMPLES = 64
_SHOWN_AT_ONCE = 16  # a network that is called keeps the maps of all its layers


class RunEmbeddings(NamedTuple):
    """Embeddings and place maps of the test images of a run."""

    queries: np.ndarray  # float32 (Q, D), embeddings of the test images
    query_labels: np.ndarray  # integers (Q,)
    references: np.ndarray | None  # float32 (N, D), embeddings of the gallery, if there is one
    reference_labels: np.ndarray | None  # integers (N,)
    examples: np.ndarray  # integers (n,): images of the gallery, or test images, class by class
    weights: np.ndarray | None  # floats (n, H, W, maps), `PlaceMaps` of the examples
    correlations: np.ndarray | None  # floats (n, H, W, K)


def kept_embeddings(run):
    """The saved embeddings of a run; `None` if there are none, or the images have changed."""
    folder, splits = run.folder, run.splits
    folder.require(folder.model_path)
    if "test" not in folder.metrics() or not folder.embeddings_path.is_file():
        return None
    check_test_classes(folder, splits.test)
    try:
        with reading_arrays(folder.embeddings_path, "an archive of arrays") as arrays:
            kept = RunEmbeddings(*map(arrays.get, RunEmbeddings._fields))
    except ValueError as error:
        raise ValueError(
            f"{folder.embeddings_path} is damaged; gsp-tf evaluate {folder.path} writes it again."
        ) from error
    gallery = None if splits.gallery is None else splits.gallery.labels
    same = np.array_equal(splits.test.labels, kept.query_labels)
    return kept if same and np.array_equal(gallery, kept.reference_labels) else None


def embed_test_images(run):
    """Compute `RunEmbeddings` of the test images and the gallery of a run."""
    recipe, splits, embedder = run.recipe, run.splits, run.learner.embedder
    run.check_test_images(embedder)
    embedded = embed_splits(recipe, splits, embedder)
    searched = splits.searched
    examples = class_by_class(searched.labels, seed=0)[:EXAMPLES]
    parts = np.split(examples, range(_SHOWN_AT_ONCE, len(examples), _SHOWN_AT_ONCE))
    batches = (batch for part in parts for batch in evaluation_batches(recipe, searched, part))
    maps = zip(*(place_maps(embedder, images) for images, _ in batches), strict=True)
    maps = [None if of[0] is None else np.concatenate(of) for of in maps]
    return RunEmbeddings(*embedded, examples, *maps)


def embed_splits(recipe, splits, embedder, how=""):
    """Embeddings and labels of the test images, then those of the gallery, `None` without one."""
    embedded = []
    model, inputs = evaluation_inputs(recipe, embedder)
    for name, images in (("test", splits.test), ("gallery", splits.gallery)):
        if images is None:
            embedded += [None, None]
            continue
        batches = inputs.evaluation_batches(images)
        embedded += embed(
            model, show_progress(batches, f"Embedding the {name} images{how}", len(batches))
        )
    return embedded


def check_test_classes(folder, test):
    """Refuse test images with other classes than those of a run."""
    if folder.metrics().get("test_classes", fingerprint(test)) != fingerprint(test):
        raise ValueError(
            f"The test classes are not those that {folder.path} was made with: the data or the "
            "split in its recipe have changed, and the model may have been trained on them."
        )


def fingerprint(images: ImageSet) -> str:
    """A short text that identifies the classes of images, as in `metrics.json`.

    Args:
        images: the images.

    Returns:
        text that depends only on the class names and their order.

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> pixels = np.zeros((2, 8, 8, 1), "uint8")
        >>> fingerprint(ArrayImages(pixels, [0, 1], ["cat", "dog"]))
        '3a450eb155d6a4c6'
    """
    names = "\n".join(images.class_names)
    return hashlib.sha256(names.encode("utf-8", errors="surrogateescape")).hexdigest()[:16]
