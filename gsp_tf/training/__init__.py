"""Training of embedding models."""

from gsp_tf import layers, losses  # noqa: F401  (a saved learner is loaded with its parts)
from gsp_tf.training.callbacks import RetrievalEvaluation, SaveBest
from gsp_tf.training.chance_constrained import (
    ChanceConstrainedTrainer,
    ProjectionLearner,
    ProxyPool,
)
from gsp_tf.training.checkpoint import Checkpoint, epoch_of
from gsp_tf.training.distribute import is_chief
from gsp_tf.training.embedding import embed, inference
from gsp_tf.training.health import HealthCheck
from gsp_tf.training.low_rank import add_lora, merged_lora
from gsp_tf.training.metric_learner import MetricLearner
from gsp_tf.training.optimizers import (
    averaged_weights,
    layer_wise_multipliers,
    with_learning_rate_multipliers,
    with_weight_decay_exclusions,
)
from gsp_tf.training.schedule import Schedule
from gsp_tf.training.stop_on_nan import StopOnNaN
from gsp_tf.training.trackers import MlflowTracker, WandbTracker

__all__ = [
    "ChanceConstrainedTrainer",
    "Checkpoint",
    "HealthCheck",
    "MetricLearner",
    "MlflowTracker",
    "ProjectionLearner",
    "ProxyPool",
    "RetrievalEvaluation",
    "SaveBest",
    "Schedule",
    "StopOnNaN",
    "WandbTracker",
    "add_lora",
    "averaged_weights",
    "embed",
    "epoch_of",
    "inference",
    "is_chief",
    "layer_wise_multipliers",
    "merged_lora",
    "with_learning_rate_multipliers",
    "with_weight_decay_exclusions",
]
