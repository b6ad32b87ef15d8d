"""The best model so far, on disk."""

from pathlib import Path

import keras

from gsp_tf._files import replacing
from gsp_tf.training.workers import is_chief


class SaveBest(keras.callbacks.Callback):
    """Saves the model whenever a metric of the logs has risen above its best.

    It is saved before the next epoch begins, after a `Checkpoint` that stands before this callback:
    so a run that continues from there saves it again, and the file is not ahead of the checkpoint
    before training has ended.
    The file is written under a temporary name and renamed: it is never half-written, and holds the
    last good weights whatever happens to the run.

    Args:
        path: file to write, ending in ".keras".
        monitor: metric to follow; larger is better.
        baseline: value that must be exceeded, if one is known.

    Example:
        >>> callback = SaveBest("best.keras", monitor="val_map_at_r")
        >>> callback.best
        -inf
    """

    def __init__(self, path, monitor="val_map_at_r", baseline=float("-inf")):
        super().__init__()
        self.path = Path(path)
        self.monitor = monitor
        self.best = baseline
        self.best_epoch = None
        self._is_due = False

    def save(self):
        """Write the model as it is now, in the first of several workers."""
        if is_chief(self.model.distribute_strategy):
            with replacing(self.path) as temporary:
                self.model.save(temporary)
        self._is_due = False

    def save_if_due(self):
        """Write the model if it is the best one and was not written yet."""
        if self._is_due:
            self.save()

    def on_epoch_end(self, epoch, logs=None):
        if self.monitor not in (logs or {}):
            raise ValueError(
                f"SaveBest follows {self.monitor!r}, which is not among the logs "
                f"{sorted(logs or {})}. Put RetrievalEvaluation before it."
            )
        if logs[self.monitor] > self.best:
            self.best = float(logs[self.monitor])
            self.best_epoch = epoch
            self._is_due = True

    def on_epoch_begin(self, epoch, logs=None):
        self.save_if_due()

    def on_train_end(self, logs=None):
        self.save_if_due()

    def state(self):
        """What a checkpoint keeps: a dict."""
        return {"best": self.best, "best_epoch": self.best_epoch, "is_due": self._is_due}

    def restore(self, state):
        """Go on from a dict of `state`; the model, if it was due then, is saved next."""
        self.best, self.best_epoch = state["best"], state["best_epoch"]
        self._is_due = state["is_due"]
