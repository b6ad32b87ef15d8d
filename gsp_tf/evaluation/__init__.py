"""Retrieval quality of embeddings; needs neither TensorFlow nor a trained model."""

from gsp_tf.evaluation.retrieval import retrieval_metrics
from gsp_tf.evaluation.search import ExactSearch, nearest_neighbours

__all__ = ["ExactSearch", "nearest_neighbours", "retrieval_metrics"]
