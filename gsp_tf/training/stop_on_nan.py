"""An end to training that has diverged."""

import math

import keras


class StopOnNaN(keras.callbacks.Callback):
    """Stops training when the loss is NaN or infinite, and remembers where.

    The weights are lost at that point; the file of `SaveBest` holds the best ones until then.

    Example:
        >>> callback = StopOnNaN()
        >>> callback.diverged_at is None
        True
    """

    def __init__(self):
        super().__init__()
        self.diverged_at = None
        self._epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        loss = (logs or {}).get("loss")
        if loss is not None and not math.isfinite(loss) and self.diverged_at is None:
            self.diverged_at = (self._epoch, batch)
            self.model.stop_training = True
