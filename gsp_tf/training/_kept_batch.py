"""The last batch of training, kept for the callbacks that look at it."""

import keras
from keras import tree

from gsp_tf.training.distribute import strategy_of


class KeptBatch:
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


def keep_batches(model: keras.Model) -> KeptBatch | None:
    """Keep the last batch until `release_batches`; `None` where a step has several."""
    replicas = getattr(strategy_of(model), "num_replicas_in_sync", 1)
    if model.steps_per_execution != 1 or replicas != 1:
        return None
    if not isinstance(model.train_function, KeptBatch):  # else another callback keeps it
        model.train_function = KeptBatch(model.train_function)
    return model.train_function


def release_batches(model: keras.Model) -> None:
    """Give a model its own training function back."""
    if isinstance(model.train_function, KeptBatch):
        model.train_function = model.train_function.train_function
