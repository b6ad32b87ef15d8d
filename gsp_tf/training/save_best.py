"""The best model so far, on disk."""

import os
from pathlib import Path

import keras


class SaveBest(keras.callbacks.Callback):
    """Saves the model whenever a metric of the logs has risen above its best.

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

    def save(self):
        """Write the model as it is now."""
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.keras")
        try:
            self.model.save(temporary)
            os.replace(temporary, self.path)
        finally:
            temporary.unlink(missing_ok=True)

    def on_epoch_end(self, epoch, logs=None):
        if self.monitor not in (logs or {}):
            raise ValueError(
                f"SaveBest follows {self.monitor!r}, which is not among the logs "
                f"{sorted(logs or {})}. Put RetrievalEvaluation before it."
            )
        if logs[self.monitor] > self.best:
            self.best = logs[self.monitor]
            self.best_epoch = epoch
            self.save()
