"""Training of embedding models."""

from gsp_tf import layers, losses  # noqa: F401  (a saved learner is loaded with its parts)
from gsp_tf.training.embedding import embed
from gsp_tf.training.metric_learner import MetricLearner
from gsp_tf.training.retrieval_evaluation import RetrievalEvaluation
from gsp_tf.training.save_best import SaveBest
from gsp_tf.training.stop_on_nan import StopOnNaN

__all__ = ["MetricLearner", "RetrievalEvaluation", "SaveBest", "StopOnNaN", "embed"]
