"""Embeddings of a whole data set."""

import keras
import numpy as np
import tensorflow as tf

from gsp_tf.training.metric_learner import first_output


def embed(embedder, dataset):
    """Embeddings and labels of every image of a data set, in its order.

    Args:
        embedder: Keras model from images to embeddings `(B, D)` (or to embeddings and attributes),
            or the result of `inference(embedder)`, which is traced once for many data sets.
        dataset: finite `tf.data.Dataset`, or any iterable, of `(images (B, H, W, C), labels (B,))`.

    Returns:
        float32 array `(N, D)` and integer array `(N,)`.

    Raises:
        ValueError: if the data set is empty.

    Example:
        >>> import keras
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        >>> data = tf.data.Dataset.from_tensor_slices((np.ones((5, 4)), np.arange(5))).batch(2)
        >>> embeddings, labels = embed(model, data)
        >>> embeddings.shape, labels.tolist()
        ((5, 2), [0, 1, 2, 3, 4])
    """
    forward = inference(embedder) if isinstance(embedder, keras.layers.Layer) else embedder
    embeddings, labels = [], []
    for images, batch_labels in dataset:
        embeddings.append(forward(images).numpy())
        labels.append(batch_labels.numpy().reshape(-1))
    if not embeddings:
        raise ValueError("embed received a data set without any batch.")
    return np.concatenate(embeddings).astype("float32"), np.concatenate(labels)


def inference(embedder):
    """The embedder's forward pass in inference mode, embeddings only, traced once for all batches.

    Args:
        embedder: Keras model from images to embeddings (or to embeddings and attributes).

    Returns:
        function from images `(B, H, W, C)` to float32 embeddings `(B, D)`.

    Example:
        >>> import keras
        >>> forward = inference(keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]))
        >>> forward(np.ones((3, 4), "float32")).shape
        TensorShape([3, 2])
    """

    @tf.function
    def forward(images):
        return tf.cast(first_output(embedder(images, training=False)), "float32")

    def of_any_batch(images):
        images = tf.convert_to_tensor(images)
        batches = tf.TensorSpec((None, *images.shape[1:]), images.dtype)
        return forward.get_concrete_function(batches)(images)

    return of_any_batch
