"""Writes values and gradients of TensorFlow Similarity's losses to an .npz file.

`make reference-similarity` runs it in `.venv-similarity`, with release 0.17.1. Parts of the library
that have nothing to do with losses are left out of the import.
"""

import itertools
import sys
from unittest import mock

for name in ("tensorflow_datasets", "nmslib", "faiss", "tabulate", "umap"):
    sys.modules[name] = mock.MagicMock()
sys.modules["tensorflow_similarity.visualization"] = mock.MagicMock()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow_similarity import losses  # noqa: E402


def value_and_gradients(loss, *points):
    points = [tf.constant(point, "float32") for point in points]
    with tf.GradientTape() as tape:
        tape.watch(points)
        value = tf.reduce_mean(loss(*points))
    return value.numpy(), np.concatenate(tape.gradient(value, points))


def main(path):
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(4), 3))
    embeddings = rng.normal(size=(12, 5)) + 0.8 * rng.normal(size=(4, 5))[labels]
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    other = rng.normal(size=(12, 5))
    arrays = {"labels": labels, "embeddings": embeddings.astype("float32"), "other": other}
    arrays["other"] = other.astype("float32")

    def put(key, loss, *points):
        arrays[f"{key}/value"], arrays[f"{key}/gradient"] = value_and_gradients(loss, *points)

    strategies = itertools.product(
        ("hard", "easy"), ("hard", "semi-hard", "easy"), ("cosine", "l2")
    )
    for positive, negative, distance in strategies:
        loss = losses.PNLoss(distance, positive, negative, margin=0.3)
        put(f"pn_{positive}_{negative}_{distance}", lambda x, f=loss: f(labels, x), embeddings)
    soft = losses.PNLoss("cosine", margin=None)
    put("pn_soft", lambda x: soft(labels, x), embeddings)
    for temperature in (1.0, 0.2):
        loss = losses.SoftNearestNeighborLoss(temperature=temperature)
        put(f"soft_nearest_neighbor_{temperature}", lambda x, f=loss: f(labels, x), embeddings)
    put("barlow", losses.Barlow(5e-3), embeddings, other)
    put("sim_siam", losses.SimSiamLoss(margin=0.0), embeddings, other)
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
