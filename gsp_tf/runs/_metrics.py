"""The metrics of embedded test images."""

import numpy as np

from gsp_tf.evaluation import clustering_metrics
from gsp_tf.runs.prefixes import prefix_metrics


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
    return {name: np.asarray(value).item() for name, value in metrics.items()}, _intervals(means)


def _intervals(means):
    """The ends of the intervals of estimates that have one, by name."""
    return {
        name: [found.low, found.high] for name, found in means.items() if np.isfinite(found.low)
    }


def metrics_by_dim(embedded, dims, evaluation):
    """Metrics of retrieval and their intervals by prefixes, by their dimension as text."""
    found = prefix_metrics(dims, *embedded[:4], at=evaluation.recall_at)
    names = ["map_at_r", *(f"recall_at_{depth}" for depth in evaluation.recall_at)]
    means = {str(dim): metrics.means() for dim, metrics in found.items()}
    means = {dim: {name: of[name] for name in names} for dim, of in means.items()}
    values = {dim: {name: found.value for name, found in of.items()} for dim, of in means.items()}
    return values, {dim: _intervals(of) for dim, of in means.items()}
