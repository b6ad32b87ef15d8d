"""The warm-up: the first epochs of training, in which the backbone is frozen."""

import contextlib

import keras

from gsp_tf._backend import jit_compile
from gsp_tf.experiment._optimizer import build_warmup_optimizer


@contextlib.contextmanager
def warm_up(recipe, learner, best):
    """Let the learner train all but its backbone in the block, with another optimizer."""
    # The block gets a callback that replaces `best`, the `SaveBest` of the learner. It saves the
    # learner in its state after the block, with a trainable backbone and its own optimizer.
    backbone = next(layer for layer in learner.embedder.layers if isinstance(layer, keras.Model))
    optimizer = learner.optimizer

    def save_if_due(*_):
        head_optimizer = learner.optimizer
        backbone.trainable, learner.optimizer = True, optimizer
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
        backbone.trainable = True
        learner.compile(optimizer, jit_compile=jit_compile(recipe.jit_compile))
