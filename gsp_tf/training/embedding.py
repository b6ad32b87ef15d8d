"""Embeddings of a whole data set."""

import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
from keras import ops, tree

from gsp_tf._console import listed
from gsp_tf._endless import refuse_endless
from gsp_tf._typing import Tensor
from gsp_tf.training.metric_learner import embeddings_of

Batches = Iterable[tuple[Tensor | list | tuple | dict, Tensor]]
"""A `tf.data.Dataset` or another iterable of batches of images and labels, or a pair of arrays.

The images are one array, or a list, tuple or dict of arrays for an embedder with several inputs.
"""


def embed(
    embedder: keras.Model | Callable[[Tensor], Tensor], dataset: Batches
) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings and labels of all images of a data set, in its order.

    Args:
        embedder: model from images to embeddings `(B, D)`, its first output; or the result of
            `inference(embedder)`, which is traced once for many data sets.
        dataset: finite batches of `(images (B, H, W, C), labels (B,))`, or a pair of arrays: images
            `(N, H, W, C)` and labels `(N,)`. Label vectors have two axes, such as multi-hot tags.
            For an embedder with several inputs, the images are a list, tuple or dict of arrays.

    Returns:
        Embeddings, a float32 array `(N, D)`, and labels, an integer array `(N,)`, or label vectors
        as they came.

    Example:
        >>> import keras, numpy as np, tensorflow as tf
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        >>> data = tf.data.Dataset.from_tensor_slices((np.ones((5, 4)), np.arange(5))).batch(2)
        >>> embeddings, labels = embed(model, data)
        >>> embeddings.shape, labels.tolist()
        ((5, 2), [0, 1, 2, 3, 4])
    """
    forward = inference(embedder) if isinstance(embedder, keras.layers.Layer) else embedder
    embeddings, labels = [], []
    for batch in labelled_batches(dataset):
        inputs, batch_labels = _inputs_and_labels(batch)
        embeddings.append(ops.convert_to_numpy(forward(inputs)))
        is_column = batch_labels.ndim != 2 or batch_labels.shape[1] == 1
        labels.append(batch_labels.reshape(-1) if is_column else batch_labels)
    if not embeddings:
        raise ValueError("embed received a data set without any batch.")
    return np.concatenate(embeddings).astype("float32"), np.concatenate(labels)


def labelled_batches(dataset: Batches, argument: str = "dataset") -> Batches:
    """The data set, or batches of a pair of arrays; raises without labels and for endless data."""
    if _is_pair_of_arrays(dataset):
        return _ArrayBatches(*_checked(*dataset))
    if hasattr(dataset, "__array__") or isinstance(dataset, dict):
        received = list(dataset) if isinstance(dataset, dict) else np.shape(dataset)
        raise ValueError(
            "Labels are needed: pass (images, labels), two arrays, or a data set of such batches; "
            f"received {'inputs' if isinstance(dataset, dict) else 'one array'} {received}. "
            "model.predict gives embeddings alone."
        )
    refuse_endless(dataset, argument)
    return dataset


def _is_pair_of_arrays(dataset):
    """Whether a data set is inputs and labels as arrays, and not two batches."""
    if not isinstance(dataset, tuple) or len(dataset) != 2:
        return False
    inputs, labels = dataset
    if hasattr(inputs, "__array__"):
        return True
    arrays = tree.flatten(inputs)
    if not arrays or not all(hasattr(x, "__array__") for x in arrays):
        return False
    return not isinstance(labels, dict) and not (
        isinstance(labels, (tuple, list)) and any(_is_part_of_batch(x) for x in labels)
    )


def _is_part_of_batch(value):
    """Whether a value is an array or arrays, and not the label of one image."""
    return isinstance(value, (tuple, dict)) or len(getattr(value, "shape", ())) > 0


def _inputs_and_labels(batch: Any) -> tuple[Tensor | list | tuple | dict, np.ndarray]:
    """The two parts of a batch; raises for other batches and for parts of different lengths."""
    parts = batch if isinstance(batch, (tuple, list)) else (batch,)
    if len(parts) == 3 and parts[2] is not None:
        raise ValueError(
            "Embeddings take no sample weights: give batches (inputs, labels), such as "
            "dataset.map(lambda inputs, labels, weights: (inputs, labels))."
        )
    if len(parts) not in (2, 3) or parts[1] is None or isinstance(parts[1], (tuple, dict)):
        raise ValueError(
            "Labels are needed: batches must be (inputs, labels), the inputs one array, or a list, "
            f"tuple or dict of them, and the labels one array; received {_described(batch)}."
        )
    return _checked(*parts[:2])


def _described(batch):
    """A batch in words: its structure and shapes."""
    if isinstance(batch, (tuple, list)):
        return f"({', '.join(map(_described, batch))})"
    if isinstance(batch, dict):
        return f"{{{', '.join(f'{name}: {_described(part)}' for name, part in batch.items())}}}"
    if hasattr(batch, "shape"):
        return f"{type(batch).__name__} {tuple(batch.shape)}"
    return type(batch).__name__


def _checked(inputs, labels):
    """Inputs, and labels as an array of as many rows: one integer each, or a label vector."""
    labels = np.asarray(labels)
    counts = [np.shape(x)[0] if np.ndim(x) else None for x in tree.flatten(inputs)]
    if not labels.ndim or any(count != len(labels) for count in counts):
        raise ValueError(
            f"images and labels must be equally many; received {listed(counts, 9)} and "
            f"{len(labels) if labels.ndim else None}."
        )
    if labels.dtype.kind not in "iu" and labels.size == len(labels):
        raise TypeError(
            f"labels must be integers; received dtype {labels.dtype}. Number the classes with "
            "np.unique(labels, return_inverse=True)[1]."
        )
    return inputs, labels


class _ArrayBatches:
    """Batches of arrays of inputs and labels, as often as they are asked for."""

    def __init__(self, inputs, labels, size=32):
        self.inputs, self.labels, self.size = inputs, labels, size

    def __iter__(self):
        for start in range(0, len(self.labels), self.size):
            rows = slice(start, start + self.size)
            inputs = tree.map_structure(operator.itemgetter(rows), self.inputs)
            yield inputs, self.labels[rows]


def inference(embedder: keras.Model) -> Callable[[Tensor], Tensor]:
    """The embedder's forward pass in inference mode, embeddings only, traced once for all batches.

    A first batch of one image is computed without a trace, which would take longer. The trace holds
    the layers as they are: after `add_lora`, call this again.

    Args:
        embedder: model from images to embeddings, its first output.

    Returns:
        Function from images `(B, H, W, C)` to float32 embeddings `(B, D)`. For an embedder with
        several inputs, the images are a list, tuple or dict of arrays.

    Example:
        >>> import keras, numpy as np
        >>> forward = inference(keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]))
        >>> forward(np.ones((3, 4), "float32")).shape
        TensorShape([3, 2])
    """

    if keras.backend.backend() != "tensorflow":
        model = _FirstOutput(embedder)
        return lambda images: ops.cast(
            model.predict_on_batch(tree.map_structure(np.asarray, images)), "float32"
        )
    import tensorflow as tf

    @tf.function(autograph=False)
    def forward(images):
        return tf.cast(embeddings_of(embedder, embedder(images, training=False)), "float32")

    calls = itertools.count()

    def of_any_batch(images):
        images = tree.map_structure(tf.convert_to_tensor, images)
        is_alone = next(calls) == 0 and all(len(x) == 1 for x in tree.flatten(images))
        if is_alone or tf.config.functions_run_eagerly():
            return forward.python_function(images)
        batches = tree.map_structure(lambda x: tf.TensorSpec((None, *x.shape[1:]), x.dtype), images)
        return forward.get_concrete_function(batches)(images)

    return of_any_batch


class _FirstOutput(keras.Model):
    """An embedder's first output; compiled by JAX, a dict of outputs would be sorted by name."""

    def __init__(self, embedder):
        super().__init__()
        self.embedder = embedder

    def call(self, images):
        return embeddings_of(self.embedder, self.embedder(images))
