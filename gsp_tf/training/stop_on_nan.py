"""Stops training that has diverged, and keeps the last batch to find where it began."""

import math
from contextlib import ExitStack, contextmanager

import keras
from keras import ops, tree

from gsp_tf._keras import copies, layers_within
from gsp_tf.training.distribute import strategy_of


class StopOnNaN(keras.callbacks.Callback):
    """Stops training when the loss is NaN or infinite and reports where the first such value arose.

    It searches the batch of that loss in this order: inputs and labels, weights before the step
    (the gradient of an earlier step was then not finite), outputs of layers in the order in which
    they run, the loss. The search takes one more forward pass with the weights from before the
    step.

    The callback therefore keeps the last batch and a second copy of the trainable weights. With
    several replicas, with `steps_per_execution` above 1 and on JAX, it keeps neither and reports no
    place. The weights are lost when training stops; the file of `SaveBest` holds the best weights
    until then.

    Attributes:
        diverged_at: epoch and batch of the last `fit`, from 0, or `None`.
        diverged_in: place of the first value that is not finite, such as "the output of the layer
            embedder/dense", or `None`.

    Example:
        >>> import keras, numpy as np
        >>> from keras import ops
        >>> log = keras.layers.Activation(ops.log, name="log")
        >>> model = keras.Sequential([keras.Input((1,)), log])
        >>> model.compile(loss="mse")
        >>> callback = StopOnNaN()
        >>> _ = model.fit(np.zeros((2, 1)), np.ones((2, 1)), callbacks=[callback], verbose=0)
        Training stops in epoch 1, batch 1: the loss is inf. The first value that is not
        finite is in the output of the layer log.
        >>> callback.diverged_in
        'the output of the layer log'
    """

    def __init__(self):
        super().__init__()
        self.diverged_at: tuple[int, int] | None = None
        self.diverged_in: str | None = None
        self._epoch = 0
        self._step = None
        self._weights = None

    def on_train_begin(self, logs: dict | None = None) -> None:
        self.diverged_at = self.diverged_in = None
        # On JAX, the weights leave the model for the length of an epoch.
        if keras.backend.backend() != "jax":
            self._step = keep_batches(self.model)

    def on_train_end(self, logs: dict | None = None) -> None:
        release_batches(self.model)
        self._step = self._weights = None

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        if self._step is not None:
            self._weights = copies(self.model.trainable_variables)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        loss = (logs or {}).get("loss")
        if loss is None or math.isfinite(loss):
            return
        self.diverged_at = (self._epoch, batch)
        self.model.stop_training = True
        where = ""
        if self._step is not None:
            self.diverged_in = _first_not_finite(self.model, self._step, self._weights)
            where = f" The first value that is not finite is in {self.diverged_in}."
        print(
            f"Training stops in epoch {self._epoch + 1}, batch {batch + 1}: the loss is {loss}."
            f"{where}",
            flush=True,
        )


def _first_not_finite(model, kept, weights):
    """The part of a step with the first NaN or infinity; `weights` are those before the step."""
    x, y, sample_weight = kept.unpacked()
    for name, values in {"inputs": x, "labels": y, "sample weights": sample_weight}.items():
        if not _is_finite(values):
            return f"the {name} of the batch"
    for variable, value in zip(model.trainable_variables, weights, strict=True):
        if not _is_finite(value):
            return f"the weight {variable.path}, from the gradient of an earlier step"
    after = copies(model.trainable_variables)
    _assign(model, weights)
    try:
        with _watched(model) as found:
            y_pred = model(x, training=True)
            loss = model.compute_loss(x, y, y_pred, sample_weight, training=True)
    except Exception as error:  # from a custom training step; training still stops
        return f"a step that could not be taken again ({error})"
    finally:
        _assign(model, after)
    if found:
        return f"the output of the layer {found[0].path or found[0].name}"
    return "a step whose second forward pass was finite" if _is_finite(loss) else "the loss"


@contextmanager
def _watched(model):
    """Collects layers with outputs that are not finite, in the order of their ends, inner first."""
    found = []

    def watched(layer, call):
        def run(*args, **kwargs):
            outputs = call(*args, **kwargs)
            if not _is_finite(outputs):
                found.append(layer)
            return outputs

        return run

    with ExitStack() as stack:
        for layer in layers_within(model):
            layer.call = watched(layer, layer.call)
            stack.callback(delattr, layer, "call")
        yield found


def _is_finite(values):
    return all(
        bool(ops.all(ops.isfinite(x)))
        for x in tree.flatten(values)
        if x is not None and keras.backend.is_float_dtype(keras.backend.standardize_dtype(x.dtype))
    )


def _assign(model, values):
    for variable, value in zip(model.trainable_variables, values, strict=True):
        variable.assign(value)


class _KeptBatch:
    """Wraps a training function of Keras and keeps its last batch."""

    def __init__(self, train_function):
        self.train_function = train_function
        self.batch = None

    def __call__(self, *arguments):
        *state, batches = arguments  # on JAX, the state of the model comes first
        self.batch = next(iter(batches))  # Keras gives a list on PyTorch, an iterator elsewhere
        kept = [self.batch]
        return self.train_function(*state, kept if isinstance(batches, list) else iter(kept))

    def unpacked(self):
        """Inputs, labels and sample weights of the batch."""
        # Keras' iterators contain an Optional of TensorFlow instead of None.
        batch = tree.map_structure(lambda x: None if hasattr(x, "has_value") else x, self.batch)
        return keras.utils.unpack_x_y_sample_weight(batch)


def keep_batches(model: keras.Model) -> _KeptBatch | None:
    """Keep the last batch until `release_batches`; `None` where a step has several."""
    replicas = getattr(strategy_of(model), "num_replicas_in_sync", 1)
    if model.steps_per_execution != 1 or replicas != 1:
        return None
    if not isinstance(model.train_function, _KeptBatch):  # else another callback keeps it
        model.train_function = _KeptBatch(model.train_function)
    return model.train_function


def release_batches(model: keras.Model) -> None:
    """Give a model its own training function back."""
    if isinstance(model.train_function, _KeptBatch):
        model.train_function = model.train_function.train_function


def remake_train_function(model: keras.Model) -> None:
    """Trace the steps of a model afresh, under the callbacks that keep its batches."""
    kept = model.train_function
    release_batches(model)
    model.make_train_function(force=True)
    if isinstance(kept, _KeptBatch):
        kept.train_function, model.train_function = model.train_function, kept
