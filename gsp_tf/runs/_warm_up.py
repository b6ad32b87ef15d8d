"""The warm-up: the first epochs of training, in which the backbone is frozen."""

import contextlib

import keras

from gsp_tf._backend import jit_compile
from gsp_tf._keras import layers_within
from gsp_tf.runs._optimizer import build_warmup_optimizer
from gsp_tf.runs.model import trained_backbone


@contextlib.contextmanager
def warm_up(recipe, learner, best):
    """Let the learner train all but its backbone in the block, with another optimizer."""
    # The block gets a callback that replaces `best`, the `SaveBest` of the learner. It saves the
    # learner in its state after the block, with a trainable backbone and its own optimizer.
    backbone = trained_backbone(learner)
    optimizer, of_layers = learner.optimizer, _trainable(backbone)

    def save_if_due(*_):
        head_optimizer = learner.optimizer
        _set_trainable(of_layers)
        learner.optimizer = optimizer
        best.save_if_due()
        backbone.trainable, learner.optimizer = False, head_optimizer

    backbone.trainable = False
    try:
        learner.compile(
            build_warmup_optimizer(recipe, learner.trainable_variables),
            jit_compile=jit_compile(recipe.jit_compile),
        )
        yield keras.callbacks.LambdaCallback(
            on_epoch_begin=save_if_due, on_epoch_end=best.on_epoch_end, on_train_end=save_if_due
        )
    finally:
        _set_trainable(of_layers)
        learner.compile(optimizer, jit_compile=jit_compile(recipe.jit_compile))


def _trainable(backbone):
    """Pairs of a layer or a weight of a backbone and whether it trains, from the outside in."""
    parts = [backbone, *layers_within(backbone), *backbone.weights]
    return [(part, part.trainable) for part in parts]


def _set_trainable(pairs):
    """Undo a change of `trainable`, which reaches from a layer to all within it."""
    for part, trainable in pairs:
        part.trainable = trainable
