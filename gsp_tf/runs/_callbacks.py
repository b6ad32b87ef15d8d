"""Callbacks of a run: the clock, the learning rate in the logs, the board, and those it names."""

import time

import keras

from gsp_tf._names import named


class Clock:
    """Seconds of training, including those before a stop."""

    def __init__(self):
        self._started = time.monotonic()

    def seconds(self):
        return time.monotonic() - self._started

    def state(self):
        return {"seconds": self.seconds()}

    def restore(self, state):
        self._started -= state["seconds"]


class LogState(keras.callbacks.Callback):
    """Adds the learning rate to the logs, and for CCP projection 0 before the first projection."""

    def __init__(self, trainer):
        super().__init__()
        self.trainer = trainer

    def on_epoch_end(self, epoch, logs=None):
        logs.update(learning_rate=float(self.model.optimizer.learning_rate))
        if self.trainer == "ccp":
            logs.setdefault("projection", 0)


class Board(keras.callbacks.TensorBoard):
    """Writes the logs of each epoch for TensorBoard, with what a `HealthCheck` saw in it.

    Epoch 0 is the untrained model.
    """

    def __init__(self, path, health, options, untrained):
        super().__init__(path, **{"write_graph": False, **options})
        self.health, self._written, self.untrained = health, 0, untrained

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._written = len(self.health.findings)  # those of a run that continues
        self._log_epoch_metrics(0, self.untrained)

    def on_epoch_end(self, epoch, logs=None):
        epoch += 1
        measures = {f"health_{name}": value for name, value in self.health.measures.items()}
        super().on_epoch_end(epoch, {**logs, **measures})
        found = self.health.findings[self._written :]
        if found:
            self._written += len(found)
            text = "\n\n".join(f"Step {finding['step']}: {finding['text']}" for finding in found)
            with self.summary.create_file_writer(f"{self.log_dir}/train").as_default():
                self.summary.text("health", text, step=epoch)


def named_callbacks(recipe, folder):
    """The Keras callbacks that a recipe names, by name; their files are in the run folder."""
    made = {}
    for name, arguments in recipe.callbacks.items():
        if name == "csv_logger":
            path = folder.path / arguments["filename"]
            arguments = {**arguments, "filename": str(path), "append": True}
        elif name == "model_checkpoint":
            arguments = {**arguments, "filepath": str(folder.path / arguments["filepath"])}
        elif name not in ("early_stopping", "reduce_lr_on_plateau"):
            continue  # the board and the trackers, which every run makes by itself
        made[name] = named("callbacks", name)(**arguments)
    return made
