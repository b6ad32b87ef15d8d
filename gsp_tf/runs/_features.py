"""Train the upper part of a network from features, and save the whole network."""

import keras

from gsp_tf.runs.model import FROZEN
from gsp_tf.training import MetricLearner, SaveBest


class SaveWholeBest(SaveBest):
    """Saves the whole embedder, of which the learner trains the part after the frozen layers."""

    def __init__(self, embedder, path, monitor):
        super().__init__(path, monitor)
        self._embedder = embedder

    def set_model(self, model):
        super().set_model(_with_embedder(model, self._embedder))


def learner_from_features(learner):
    """A learner that takes features of the frozen part and shares all else with a learner."""
    embedder = learner.embedder
    upper = keras.Model(embedder.get_layer(FROZEN).output, embedder.output, name=embedder.name)
    return _with_embedder(learner, upper)


def _with_embedder(learner, embedder):
    """A learner around another embedder, with the same losses and optimizer."""
    other = MetricLearner(
        embedder,
        learner.named_losses,
        loss_weights=learner.loss_weights,
        chunk_size=learner.chunk_size,
    )
    other.compile(learner.optimizer, jit_compile=learner.jit_compile)
    return other
