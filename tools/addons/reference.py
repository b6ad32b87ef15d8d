"""Writes values and gradients of TensorFlow Addons' losses on random batches to an .npz file.

This half of `make check-addons` runs in `.venv-addons` with Keras 2; `compare.py` is the other
half. A third of the batches have unit embeddings and a third do not. In the last third the loss
normalises the embeddings, as gsp_tf's losses do by default.

Every batch has two or more classes, and every class two or more samples. In other batches the two
libraries differ on purpose. `tfa.losses.TripletHardLoss` treats an anchor without a positive as if
it had one at distance 0, and for an anchor without a negative it takes the farthest sample of all;
gsp_tf leaves both anchors out of the mean. `TripletSemiHardLoss` and `LiftedStructLoss` are NaN in
a batch without a positive pair; without a negative pair the first is positive and the second NaN.
In gsp_tf they are 0.
"""

import sys

import numpy as np
import tensorflow as tf
import tensorflow_addons as tfa

NUM_BATCHES = 60


def random_batch(rng, index):
    """Labels `(B,)`, embeddings `(B, D)` around random class centres, margin, whether to normalise.

    By `index`, every third batch has unit embeddings, and the loss normalises every third.
    """
    num_classes = rng.integers(2, 13)
    samples_per_class = rng.integers(2, 7, num_classes)
    dimension = rng.choice([3, 16, 64, 128])
    classes = rng.permutation(np.repeat(np.arange(num_classes), samples_per_class))
    spread = rng.uniform(0.3, 2.0)
    noise = spread * rng.normal(size=(len(classes), dimension))
    embeddings = rng.normal(size=(num_classes, dimension))[classes] + noise
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    if index % 3 > 0:
        embeddings *= rng.uniform(0.5, 2.0, (len(classes), 1))
    return {
        "labels": rng.choice(1000, num_classes, replace=False)[classes],
        "embeddings": embeddings.astype("float32"),
        "margin": rng.choice([0.1, 0.5, 1.0, 2.0]),
        "normalize": index % 3 == 2,
    }


def triplet_semi_hard(distance):
    def loss(labels, embeddings, margin):
        return tfa.losses.TripletSemiHardLoss(margin, distance)(labels, embeddings)

    return loss


def triplet_hard(distance, soft):
    def loss(labels, embeddings, margin):
        return tfa.losses.TripletHardLoss(margin, soft, distance)(labels, embeddings)

    return loss


def lifted_structure(labels, embeddings, margin):
    return tfa.losses.LiftedStructLoss(margin)(labels, embeddings)


def n_pairs(labels, embeddings, margin):
    """Loss of the first two samples of every class, as gsp_tf pairs them; it has no margin."""
    pairs = np.stack([np.flatnonzero(labels == label)[:2] for label in np.unique(labels)])
    anchors, positives = tf.gather(embeddings, pairs[:, 0]), tf.gather(embeddings, pairs[:, 1])
    similarities = tf.matmul(anchors, positives, transpose_b=True)
    return tfa.losses.NpairsLoss()(labels[pairs[:, 0]], similarities)


def contrastive(labels, embeddings, margin):
    """Loss of every pair of samples, from its distance."""
    left, right = np.triu_indices(len(labels), 1)
    distances = tf.norm(tf.gather(embeddings, left) - tf.gather(embeddings, right), axis=1)
    return tfa.losses.ContrastiveLoss(margin)(labels[left] == labels[right], distances)


LOSSES = {
    "TripletSemiHardLoss, L2": triplet_semi_hard("L2"),
    "TripletSemiHardLoss, squared-L2": triplet_semi_hard("squared-L2"),
    "TripletSemiHardLoss, angular": triplet_semi_hard("angular"),
    "TripletHardLoss, L2": triplet_hard("L2", soft=False),
    "TripletHardLoss, squared-L2": triplet_hard("squared-L2", soft=False),
    "TripletHardLoss, angular": triplet_hard("angular", soft=False),
    "TripletHardLoss, L2, soft": triplet_hard("L2", soft=True),
    "TripletHardLoss, squared-L2, soft": triplet_hard("squared-L2", soft=True),
    "TripletHardLoss, angular, soft": triplet_hard("angular", soft=True),
    "LiftedStructLoss": lifted_structure,
    "NpairsLoss": n_pairs,
    "formula of ContrastiveLoss": contrastive,
}


def value_and_gradient(loss, labels, embeddings, margin, normalize):
    embeddings = tf.constant(embeddings)
    with tf.GradientTape() as tape:
        tape.watch(embeddings)
        value = loss(
            labels, tf.math.l2_normalize(embeddings, 1) if normalize else embeddings, float(margin)
        )
    return value.numpy(), tf.convert_to_tensor(tape.gradient(value, embeddings)).numpy()


def main(path):
    tf.config.set_visible_devices([], "GPU")
    tf.config.run_functions_eagerly(True)  # A function would be retraced: all shapes differ.
    rng = np.random.default_rng(0)
    arrays = {}
    for index in range(NUM_BATCHES):
        batch = random_batch(rng, index)
        arrays.update({f"{index}/{key}": value for key, value in batch.items()})
        for name, loss in LOSSES.items():
            value, gradient = value_and_gradient(loss, **batch)
            arrays[f"{index}/{name}/value"] = value
            arrays[f"{index}/{name}/gradient"] = gradient
    np.savez(path, num_batches=NUM_BATCHES, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
