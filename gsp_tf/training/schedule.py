"""Numbers of losses that change while training."""

import contextlib
import math
from collections.abc import Callable, Mapping

import keras
from keras import ops

from gsp_tf._config import Guarded, Number, numbers_of
from gsp_tf._keras import batches_of, holding
from gsp_tf.training.distribute import scope_of
from gsp_tf.training.metric_learner import MetricLearner
from gsp_tf.training.stop_on_nan import remake_train_function

_Values = Callable[[int], float] | keras.optimizers.schedules.LearningRateSchedule


class Schedule(keras.callbacks.Callback):
    """Changes the weights of losses and the numbers in their formulas while training.

    The numbers live in variables while `fit` runs, so that a step that was traced sees each change
    without another trace. Otherwise the step keeps the numbers that it was traced with, and setting
    one raises an error. After `fit`, and in a saved model, they are plain numbers with their last
    values. Values depend on the epoch or step alone, so that a run that a `Checkpoint` continues
    has the same.

    A path names a number. For a `MetricLearner` it begins with `loss`, `attribute_loss` or
    `named_losses.NAME`, as in "loss.margin" or "loss.miner.epsilon", or is `loss_weights.NAME`. For
    CCP it may be `projection_weight`; the loss of the learner is then "loss.loss". For any other
    model it begins with `loss`, or `loss.OUTPUT`, the loss of `compile`. The arguments that can be
    scheduled are numbers of a float type. The error for a wrong path lists those of the model.

    Args:
        schedules: for each path a function of the epoch, counted from 0, or a schedule of
            `keras.optimizers.schedules`, which is a function of the step of the optimizer. With
            `steps_per_execution`, all steps of an execution have the value of the first.

    Raises:
        ValueError: when training begins, if a path names no such number; and for a value that is
            not finite or that the constructor of the loss refuses.

    Example:
        >>> import keras, numpy as np
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> from gsp_tf.training import MetricLearner
        >>> embedder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        >>> learner = MetricLearner(embedder, ContrastiveLoss())
        >>> learner.compile("adam")
        >>> schedule = Schedule({"loss.negative_margin": lambda epoch: 0.5 + 0.25 * epoch})
        >>> data = np.ones((8, 4)), np.arange(8) % 2
        >>> _ = learner.fit(*data, epochs=3, callbacks=[schedule], verbose=0)
        >>> learner.embedding_loss.negative_margin
        1.0
    """

    def __init__(self, schedules: Mapping[str, _Values]):
        super().__init__()
        for path, values in schedules.items():
            if not callable(values):
                raise ValueError(
                    f"The schedule of {path} must be a function of the epoch or one of "
                    f"keras.optimizers.schedules, received {values!r}."
                )
        self.schedules = dict(schedules)
        self._held = contextlib.ExitStack()

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._held.close()  # of a training that an error ended
        numbers = _numbers_of(self.model)
        unknown = [path for path in self.schedules if path not in numbers]
        if unknown:
            raise ValueError(
                f"There is no number {unknown[0]} to schedule; the numbers are "
                f"{', '.join(numbers)}."
            )
        self._numbers = {path: numbers[path][0] for path in self.schedules}
        weights = {id(weight) for weight in self.model.weights}
        self._variables, self._lent = {}, []
        with scope_of(self.model):
            for path, number in self._numbers.items():
                value = number.get()
                if id(value) not in weights:
                    self._lent.append(path)
                if not isinstance(value, keras.Variable):
                    value = keras.Variable(value, dtype=numbers[path][1], trainable=False)
                self._variables[path] = value
        held = [self._variables[path] for path in self._lent]
        self._held.enter_context(holding(self.model, held))
        for path in self._lent:
            self._numbers[path].put(self._variables[path])
        self._held.callback(self._put_back)
        self._forget_traces()

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._first_batch = None
        for path, values in self.schedules.items():
            if not _is_of_steps(values):
                self._assign(path, values(epoch))

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        of_steps = {path: x for path, x in self.schedules.items() if _is_of_steps(x)}
        if not of_steps:
            return
        if self._first_batch is None:  # after a Checkpoint has restored it
            self._first_batch, self._accumulated = batches_of(self.model.optimizer)
        step = (self._first_batch + batch) // self._accumulated
        for path, values in of_steps.items():
            self._assign(path, ops.convert_to_numpy(values(step)))

    def on_train_end(self, logs: dict | None = None) -> None:
        self._held.close()

    def _assign(self, path, value):
        value = float(value)
        if not math.isfinite(value):
            raise ValueError(f"The schedule of {path} gives {value}, which is not finite.")
        number = self._numbers[path]
        if isinstance(number.owner, MetricLearner):
            if value < 0:
                raise ValueError(f"{path} must not be negative, received {value}.")
        else:
            number.check(value)
        self._variables[path].assign(value)

    def _put_back(self):
        for path in self._lent:
            value = ops.convert_to_numpy(self._variables[path]).item()
            self._numbers[path].put(value)
        self._forget_traces()

    def _forget_traces(self):
        """Trace steps afresh, which hold variables or plain numbers."""
        remake_train_function(self.model)
        self.model.test_function = None


def _is_of_steps(values):
    return isinstance(values, keras.optimizers.schedules.LearningRateSchedule)


def _numbers_of(model):
    """All numbers of a model that can be scheduled, with their types, by their paths."""
    numbers, dtype = {}, _dtype(model)
    if isinstance(model, MetricLearner):
        losses = {"loss": model.embedding_loss, "attribute_loss": model.attribute_loss}
        losses |= {f"named_losses.{name}": loss for name, loss in model.named_losses.items()}
        for name in model.loss_weights:
            numbers[f"loss_weights.{name}"] = (Number(model, "loss_weights", name), dtype)
        if isinstance(getattr(model, "projection_weight", None), keras.Variable):
            numbers["projection_weight"] = (Number(model, "projection_weight"), dtype)
    elif isinstance(model.loss, dict):
        losses = {f"loss.{name}": loss for name, loss in model.loss.items()}
    elif isinstance(model.loss, (list, tuple)):
        losses = {f"loss.{i}": loss for i, loss in enumerate(model.loss)}
    else:
        losses = {"loss": model.loss}
    for path, loss in losses.items():
        if isinstance(loss, Guarded):
            of_loss = _dtype(loss) if isinstance(loss, keras.layers.Layer) else dtype
            for name, number in numbers_of(loss).items():
                numbers[f"{path}.{name}"] = (number, of_loss)
    return numbers


def _dtype(model):
    """The type in which a loss layer, or other losses of a model, compare embeddings."""
    embedder = getattr(model, "embedder", model)
    outputs = keras.tree.flatten(getattr(embedder, "outputs", None) or [])
    types = [keras.backend.standardize_dtype(x.dtype) for x in outputs] or [embedder.compute_dtype]
    return "float64" if "float64" in types else "float32"
