"""Writes values and gradients of TensorFlow Similarity's losses to an .npz file.

`make reference-similarity` runs it in `.venv-similarity`, with release 0.17.1. Parts of the library
that have nothing to do with losses are left out of the import.

Keys: `LOSS/value` and `LOSS/gradient` of the random batch or pair of views, `LOSS/values` and
`LOSS/gradients` of the others in their order. NaN marks a batch without a triplet.

Left out: zero vectors, for which SimSiamLoss has 1e6 times the gradient of unit vectors; and the
angular distance of SimSiamLoss and PNLoss of inner products, which have no counterpart.
"""

import itertools
import sys
from functools import partial
from unittest import mock

for name in ("tensorflow_datasets", "nmslib", "faiss", "tabulate", "umap"):
    sys.modules[name] = mock.MagicMock()
sys.modules["tensorflow_similarity.visualization"] = mock.MagicMock()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow_similarity import losses  # noqa: E402

STRATEGIES = [*itertools.product(("hard", "easy"), ("hard", "semi-hard", "easy"))]
PN = {
    f"pn_{positive}_{negative}_{distance}": (distance, positive, negative, 0.3)
    for (positive, negative), distance in itertools.product(STRATEGIES, ("cosine", "l2"))
} | {
    "pn_soft": ("cosine", "hard", "semi-hard", None),
    "pn_soft_easy_hard_l2": ("l2", "easy", "hard", None),
    "pn_hard_semi-hard_cosine_1.0": ("cosine", "hard", "semi-hard", 1.0),
    "pn_easy_hard_l2_0.05": ("l2", "easy", "hard", 0.05),
    "pn_hard_hard_sql2_0.8": ("sql2", "hard", "hard", 0.8),
    "pn_easy_semi-hard_l1_0.5": ("l1", "easy", "semi-hard", 0.5),
    "pn_hard_easy_snr_2.0": ("snr", "hard", "easy", 2.0),
}
NEIGHBORS = {
    "soft_nearest_neighbor_1.0": ("sql2", 1.0),
    "soft_nearest_neighbor_0.2": ("sql2", 0.2),
    "soft_nearest_neighbor_0.3_cosine": ("cosine", 0.3),
    "soft_nearest_neighbor_0.5_l2": ("l2", 0.5),
    "soft_nearest_neighbor_2.0_l1": ("l1", 2.0),
    "soft_nearest_neighbor_0.7_snr": ("snr", 0.7),
}
VIEWS = {
    "barlow": losses.Barlow(5e-3),
    "barlow_0.2": losses.Barlow(0.2),
    "sim_siam": losses.SimSiamLoss(margin=0.0),
    "sim_siam_distance": losses.SimSiamLoss("cosine_distance", margin=0.1),
}


def value_and_gradients(loss, *points):
    points = [tf.constant(point, "float32") for point in points]
    with tf.GradientTape() as tape:
        tape.watch(points)
        value = tf.reduce_mean(loss(*points))
    return value.numpy(), np.concatenate(tape.gradient(value, points))


def ties():
    """Unit vectors with exact inner products, multiples of 1/64; only equal rows have ties."""
    drawn = np.random.default_rng(2).normal(size=(6400, 5))
    drawn = np.round(64 * drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
    points = drawn[np.sum(drawn**2, axis=1) == 64**2][:12] / 64
    points[[1, 4]] = points[[0, 3]]  # of one class
    points[[7, 10]] = points[[3, 2]]  # of two classes
    return points


def of_complete_anchors(loss, labels, embeddings):
    """Terms of the anchors with a positive and, for PNLoss, a negative: the others count there."""
    same = np.sum(labels[:, None] == labels, axis=1)
    complete = (same > 1) & ((same < len(labels)) | (not isinstance(loss, losses.PNLoss)))
    return tf.boolean_mask(loss(labels, embeddings), complete)


def main(path):
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(4), 3))
    embeddings = rng.normal(size=(12, 5)) + 0.8 * rng.normal(size=(4, 5))[labels]
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    other = rng.normal(size=(12, 5))
    tied = ties()
    of_ties = {
        "ties": np.repeat(np.arange(4), 3),
        "singles": np.array([0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4]),
        "one_class": np.zeros(12, int),
    }
    batches = [(labels, embeddings), *((y, tied) for y in of_ties.values())]
    constant = tied.copy()
    constant[:, 1] = 0.5
    views = [(embeddings, other), (tied, other), (tied, tied), (constant, other)]
    arrays = {"labels": labels, "embeddings": embeddings, "other": other, "ties": tied}
    arrays = {key: x.astype("float32") if x.ndim > 1 else x for key, x in arrays.items()}
    arrays |= {f"{name}/labels": labels for name, labels in of_ties.items()}

    def put(key, results):
        values, gradients = map(np.stack, zip(*results, strict=True))
        arrays[f"{key}/value"], arrays[f"{key}/values"] = values[0], values[1:]
        arrays[f"{key}/gradient"], arrays[f"{key}/gradients"] = gradients[0], gradients[1:]

    each = {"reduction": tf.keras.losses.Reduction.NONE}
    of_labels = {key: losses.PNLoss(*arguments, **each) for key, arguments in PN.items()} | {
        key: losses.SoftNearestNeighborLoss(*arguments, **each)
        for key, arguments in NEIGHBORS.items()
    }
    for key, loss in of_labels.items():
        put(key, [
            value_and_gradients(partial(of_complete_anchors, loss, y), x) for y, x in batches
        ])  # fmt: skip
    for key, loss in VIEWS.items():
        put(key, [value_and_gradients(loss, *pair) for pair in views])
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
