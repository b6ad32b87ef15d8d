"""By which of two ways the gradient passes GSP: by the features, or by their weights.

The pooled feature `Σ_j p_j f_j` (eq. 4.1 of the GSP paper) depends on a local feature f_j directly,
and by the weights p, which problem (P2) finds from all features. `evidence.py` measures both ways
in its trained networks.
"""

import itertools

import keras
import numpy as np
import tensorflow as tf

from gsp_tf.data import training_dataset
from gsp_tf.runs import features_model, load_splits

BATCHES = 16
BY_WEIGHTS, OF_AVERAGE = "gradient by weights / by features", "by features / of GAP"


def gradient_norms(features, labels, pooling, after, loss):
    """Norms of the gradient of a loss at local features, by three ways.

    Args:
        features: local features `(B, h, w, C)`, the input of `pooling`.
        labels: class of each image, `(B,)`.
        pooling: layer with `pooling_weights`.
        after: function from pooled features `(B, C)` to embeddings `(B, D)`.
        loss: loss of labels and embeddings.

    Returns:
        the norms of the gradient by the weights alone, by the features with fixed weights, and with
        the weights of an average, which are fixed too.
    """

    def gradient(weigh):
        with tf.GradientTape() as tape:
            tape.watch(features)
            pooled = tf.reduce_sum(weigh(features)[..., None] * features, axis=(1, 2))
            value = loss(labels, after(pooled))
        return tape.gradient(value, features)

    weights = pooling.pooling_weights(features)
    whole, direct = gradient(pooling.pooling_weights), gradient(lambda _: weights)
    average = tf.ones_like(weights) / tf.cast(tf.size(weights[0]), weights.dtype)
    ways = whole - direct, direct, gradient(lambda _: average)
    return [float(tf.norm(way)) for way in ways]


def gradient_rows(variant, seed, folder):
    """Rows of `records.write`: the gradient of the last model over batches of training images.

    Args:
        variant: name of the row.
        seed: its seed.
        folder: complete `RunFolder`; a pooling other than GSP has no rows.
    """
    recipe = folder.recipe()
    if recipe.pooling.name != "gsp":
        return []
    learner = folder.learner(compile=False)
    local, pooling = features_model(learner.embedder)
    pooled, embeddings = (
        keras.tree.flatten(layer.output)[0] for layer in (pooling, learner.embedder)
    )
    after, data = keras.Model(pooled, embeddings), recipe.data
    batches = training_dataset(
        load_splits(recipe).train,
        data.image_size,
        data.classes_per_batch,
        data.images_per_class,
        seed=recipe.seed,
    )
    norms = [
        gradient_norms(local(images), labels, pooling, after, learner.embedding_loss)
        for images, labels in itertools.islice(batches, BATCHES)
    ]
    by_weights, direct, average = np.mean(norms, axis=0)
    values = {BY_WEIGHTS: by_weights / direct, OF_AVERAGE: direct / average}
    return [(variant, seed, *item) for item in values.items()]
