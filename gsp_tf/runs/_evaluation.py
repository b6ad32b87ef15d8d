"""The embeddings of a run's test images."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gsp_tf._console import command_line, show_progress
from gsp_tf._files import reading_arrays
from gsp_tf.data import class_by_class
from gsp_tf.evaluation import (
    RankingMetrics,
    checked_embeddings,
    clustering_metrics,
    intervals,
    ranking_metrics,
    truncated,
)
from gsp_tf.runs._inputs import evaluation_inputs
from gsp_tf.runs.data import evaluation_batches, fingerprint
from gsp_tf.runs.places import place_maps
from gsp_tf.training import embed

EXAMPLES = 64
_SHOWN_AT_ONCE = 16  # a network that is called keeps the maps of all its layers


class RunEmbeddings(NamedTuple):
    """Embeddings and place maps of the test images of a run."""

    queries: np.ndarray  # float32 (Q, D), embeddings of the test images
    query_labels: np.ndarray  # integers (Q,)
    references: np.ndarray | None  # float32 (N, D), embeddings of the gallery, if there is one
    reference_labels: np.ndarray | None  # integers (N,)
    examples: np.ndarray  # integers (n,): images of the gallery, or test images, class by class
    weights: np.ndarray | None  # floats (n, H, W, maps), maps of the examples
    correlations: np.ndarray | None  # floats (n, H, W, K)


def kept_embeddings(run):
    """The saved embeddings of a run; `None` if there are none, or the images have changed."""
    folder, metrics = run.folder, run.folder.metrics()
    folder.require(folder.model_path)
    if "test" not in metrics or not folder.embeddings_path.is_file():
        return None
    check_test_classes(folder, run.splits.test)
    if metrics.get("test_images") != run.test_images:
        return None
    try:
        with reading_arrays(folder.embeddings_path, "an archive of arrays") as arrays:
            return RunEmbeddings(*map(arrays.get, RunEmbeddings._fields))
    except ValueError as error:
        raise ValueError(
            f"{folder.embeddings_path} is damaged; {command_line('evaluate', folder.path)} writes "
            "it again."
        ) from error


def embed_test_images(run):
    """Compute `RunEmbeddings` of the test images and the gallery of a run."""
    recipe, splits, embedder = run.recipe, run.splits, run.learner.embedder
    run.check_test_images(embedder)
    embedded = embed_splits(recipe, splits, embedder)
    searched = splits.searched
    examples = class_by_class(searched.labels)[:EXAMPLES]
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


def prefix_metrics(
    dims: Sequence[int],
    queries: np.ndarray,
    query_labels: np.ndarray,
    references: np.ndarray | None = None,
    reference_labels: np.ndarray | None = None,
    **options: Any,
) -> dict[int, RankingMetrics]:
    """`ranking_metrics` of the first components of embeddings, at length 1, by their number."""
    queries = checked_embeddings(queries, "queries")
    if references is not None:
        references = checked_embeddings(references, "references")
    return {
        dim: ranking_metrics(
            truncated(queries, dim),
            query_labels,
            None if references is None else truncated(references, dim),
            reference_labels,
            **options,
        )
        for dim in dims
    }


def test_metrics(ranking, embedded, evaluation):
    """Metrics of test images, with those of clusters if asked for, and intervals of some."""
    queries, query_labels, references, reference_labels, *_ = embedded
    names = ["precision_at_1", "r_precision", "map_at_r"]
    names += [f"recall_at_{depth}" for depth in evaluation.recall_at]
    found = ranking.means()
    means = {name: found[name] for name in names}
    metrics = {name: estimate.value for name, estimate in means.items()}
    metrics["num_queries"] = ranking.num_queries
    metrics["num_skipped"] = len(queries) - ranking.num_queries
    if evaluation.clustering:
        embeddings, labels = queries, query_labels
        if references is not None:
            embeddings = np.concatenate([queries, references])
            labels = np.concatenate([query_labels, reference_labels])
        means["class_wise_map_at_r"] = ranking.class_means().means()["map_at_r"]
        metrics["class_wise_map_at_r"] = means["class_wise_map_at_r"].value
        metrics |= clustering_metrics(embeddings, labels)
    return {name: np.asarray(value).item() for name, value in metrics.items()}, intervals(means)


def metrics_by_dim(embedded, dims, evaluation):
    """Metrics of retrieval and their intervals by prefixes, by their dimension as text."""
    found = prefix_metrics(dims, *embedded[:4], at=evaluation.recall_at)
    names = ["map_at_r", *(f"recall_at_{depth}" for depth in evaluation.recall_at)]
    means = {str(dim): metrics.means() for dim, metrics in found.items()}
    means = {dim: {name: of[name] for name in names} for dim, of in means.items()}
    values = {dim: {name: found.value for name, found in of.items()} for dim, of in means.items()}
    return values, {dim: intervals(of) for dim, of in means.items()}
