"""Embeddings of a whole data set."""

from collections.abc import Callable, Iterable

import keras
import numpy as np
from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.training.metric_learner import first_output

Batches = Iterable[tuple[Tensor, Tensor]]
"""A `tf.data.Dataset` or another iterable of batches of images and labels, or a pair of arrays."""


def embed(
    embedder: keras.Model | Callable[[Tensor], Tensor], dataset: Batches
) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings and labels of all images of a data set, in its order.

    Args:
        embedder: model from images to embeddings `(B, D)`, its first output; or the result of
            `inference(embedder)`, which is traced once for many data sets.
        dataset: finite batches of `(images (B, H, W, C), labels (B,))`, or a pair of arrays: images
            `(N, H, W, C)` and labels `(N,)`. Label vectors have two axes, such as multi-hot tags.

    Returns:
        Embeddings, a float32 array `(N, D)`, and labels, an integer array `(N,)`, or label vectors
        as they came.

    Raises:
        ValueError: if the data set is empty, or an array without labels.
        TypeError: if the labels are not integers.

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
    for images, batch_labels in labelled_batches(dataset):
        embeddings.append(ops.convert_to_numpy(forward(images)))
        batch_labels = np.asarray(batch_labels)
        is_column = batch_labels.ndim != 2 or batch_labels.shape[1] == 1
        labels.append(batch_labels.reshape(-1) if is_column else batch_labels)
    if not embeddings:
        raise ValueError("embed received a data set without any batch.")
    return np.concatenate(embeddings).astype("float32"), np.concatenate(labels)


def labelled_batches(dataset: Batches) -> Batches:
    """The data set, or batches of a pair of arrays; raises for an array without labels."""
    if isinstance(dataset, tuple) and len(dataset) == 2 and hasattr(dataset[0], "__array__"):
        images, labels = dataset[0], np.asarray(dataset[1])
        if labels.dtype.kind not in "iu" and labels.ndim < 2:
            raise TypeError(
                f"labels must be integers; received dtype {labels.dtype}. Number the classes with "
                "np.unique(labels, return_inverse=True)[1]."
            )
        if len(images) != len(labels):
            raise ValueError(
                f"images and labels must be equally many; received {len(images)} and {len(labels)}."
            )
        return _ArrayBatches(images, labels)
    if hasattr(dataset, "__array__"):
        raise ValueError(
            "Labels are needed: pass (images, labels), two arrays, or a data set of such batches; "
            f"received one array {np.shape(dataset)}. model.predict gives embeddings alone."
        )
    return dataset


class _ArrayBatches:
    """Batches of a pair of arrays, as often as they are asked for."""

    def __init__(self, images, labels, size=32):
        self.images, self.labels, self.size = images, labels, size

    def __iter__(self):
        for start in range(0, len(self.labels), self.size):
            rows = slice(start, start + self.size)
            yield self.images[rows], self.labels[rows]


def inference(embedder: keras.Model) -> Callable[[Tensor], Tensor]:
    """The embedder's forward pass in inference mode, embeddings only, traced once for all batches.

    Args:
        embedder: model from images to embeddings, its first output.

    Returns:
        Function from images `(B, H, W, C)` to float32 embeddings `(B, D)`.

    Example:
        >>> import keras, numpy as np
        >>> forward = inference(keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]))
        >>> forward(np.ones((3, 4), "float32")).shape
        TensorShape([3, 2])
    """

    if keras.backend.backend() != "tensorflow":
        return lambda images: ops.cast(
            first_output(embedder.predict_on_batch(np.asarray(images))), "float32"
        )
    import tensorflow as tf

    @tf.function(autograph=False)
    def forward(images):
        return tf.cast(first_output(embedder(images, training=False)), "float32")

    def of_any_batch(images):
        images = tf.convert_to_tensor(images)
        batches = tf.TensorSpec((None, *images.shape[1:]), images.dtype)
        return forward.get_concrete_function(batches)(images)

    return of_any_batch
