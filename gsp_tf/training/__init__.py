"""Training of embedding models."""

from gsp_tf import layers, losses  # noqa: F401  (a saved learner is loaded with its parts)
from gsp_tf.training.chance_constrained import ChanceConstrainedTrainer
from gsp_tf.training.checkpoint import Checkpoint, epoch_of
from gsp_tf.training.embedding import embed, inference
from gsp_tf.training.learning_rate_multipliers import with_learning_rate_multipliers
from gsp_tf.training.metric_learner import MetricLearner, first_output
from gsp_tf.training.path_rules import idle_patterns
from gsp_tf.training.projection_learner import ProjectionLearner
from gsp_tf.training.proxy_pool import ProxyPool
from gsp_tf.training.retrieval_evaluation import RetrievalEvaluation
from gsp_tf.training.save_best import SaveBest
from gsp_tf.training.stop_on_nan import StopOnNaN
from gsp_tf.training.weight_decay_exclusions import with_weight_decay_exclusions

__all__ = [
    "ChanceConstrainedTrainer",
    "Checkpoint",
    "MetricLearner",
    "ProjectionLearner",
    "ProxyPool",
    "RetrievalEvaluation",
    "SaveBest",
    "StopOnNaN",
    "embed",
    "epoch_of",
    "first_output",
    "idle_patterns",
    "inference",
    "with_learning_rate_multipliers",
    "with_weight_decay_exclusions",
]
