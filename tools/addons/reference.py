"""What TensorFlow Addons' losses make of random batches: values and gradients, in an .npz file.

The half of `make check-addons` that runs in `.venv-addons`, beside Keras 2; `compare.py` is the
other. A third of the batches hold unit embeddings, a third do not, and a third are normalised on
their way into the loss, which is what gsp_tf's losses do by default.

Every batch has two classes or more and every class two samples or more, for elsewhere the programs
differ on purpose. `tfa.losses.TripletHardLoss` counts an anchor without a positive as if it had one
at distance 0, and takes for an anchor without a negative the farthest sample of all; gsp_tf leaves
both anchors out of the mean. `TripletSemiHardLoss` and `LiftedStructLoss` are NaN in a batch
without a positive pair, and without a negative pair the first is positive and the second NaN; in
gsp_tf they are 0.
"""

import sys

import numpy as np
import tensorflow as tf
import tensorflow_addons as tfa

NUM_BATCHES = 60


def random_batch(rng, index):
    """Labelled points around random class centres, in random order.

    Args:
        rng: numpy random generator.
        index: number of the batch; every third is of unit embeddings, and every third is to be
            normalised by the loss.

    Returns:
        dict of labels `(B,)`, embeddings `(B, D)`, margin, and whether to normalise.
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
    """Of the first two samples of every class, which is what gsp_tf pairs; it has no margin."""
    pairs = np.stack([np.flatnonzero(labels == label)[:2] for label in np.unique(labels)])
    anchors, positives = tf.gather(embeddings, pairs[:, 0]), tf.gather(embeddings, pairs[:, 1])
    similarities = tf.matmul(anchors, positives, transpose_b=True)
    return tfa.losses.NpairsLoss()(labels[pairs[:, 0]], similarities)


def contrastive(labels, embeddings, margin):
    """Of every pair of samples, by its distance."""
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
    tf.config.run_functions_eagerly(True)  # Every batch has another shape and would be traced anew.
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
