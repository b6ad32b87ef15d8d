"""Compares the losses of gsp_tf with those of TensorFlow Addons on the batches of `reference.py`.

This half of `make check-addons` runs in `.venv`. It prints a table and fails if a value or a
gradient differs.

`tfa.losses.ContrastiveLoss` and `gsp_tf.losses.ContrastiveLoss` have different formulas and are not
compared. The first is a mean of squares over all pairs. The second uses plain distances and adds
one mean over positive and one over negative pairs, both only over pairs with a positive cost. The
script instead compares the loss of TensorFlow Addons with its formula written as a `PairLoss`,
which is how a user can get the same numbers.
"""

import sys
from functools import partial

import numpy as np
import tensorflow as tf
from keras import ops
from rich.console import Console
from rich.table import Table

from gsp_tf.losses import (
    LiftedStructureLoss,
    NPairsLoss,
    PairLoss,
    TripletHardLoss,
    TripletSemiHardLoss,
)

VALUE_TOLERANCE = 2e-4
GRADIENT_TOLERANCE = 2e-3


class SquaredContrastiveLoss(PairLoss):
    """`mean ( y d^2 + (1 - y) [m - d]_+^2 )` over all pairs, with y = 1 for positive pairs."""

    def __init__(self, margin, normalize):
        super().__init__(normalize=normalize)
        self.margin = margin

    def pairs_loss(self, pairs):
        attraction = pairs.positives * ops.square(pairs.distances)
        repulsion = pairs.negatives * ops.square(ops.relu(self.margin - pairs.distances))
        return ops.sum(attraction + repulsion) / ops.sum(pairs.positives + pairs.negatives)


def n_pairs(margin, normalize):
    """N-pairs loss, which has no margin."""
    return NPairsLoss(normalize=normalize)


LOSSES = {
    "TripletSemiHardLoss, L2": partial(TripletSemiHardLoss, distance="euclidean"),
    "TripletSemiHardLoss, squared-L2": partial(TripletSemiHardLoss, distance="squared_euclidean"),
    "TripletSemiHardLoss, angular": partial(TripletSemiHardLoss, distance="angular"),
    "TripletHardLoss, L2": partial(TripletHardLoss, distance="euclidean"),
    "TripletHardLoss, squared-L2": partial(TripletHardLoss, distance="squared_euclidean"),
    "TripletHardLoss, angular": partial(TripletHardLoss, distance="angular"),
    "TripletHardLoss, L2, soft": partial(TripletHardLoss, distance="euclidean", soft=True),
    "TripletHardLoss, squared-L2, soft": partial(
        TripletHardLoss, distance="squared_euclidean", soft=True
    ),
    "TripletHardLoss, angular, soft": partial(TripletHardLoss, distance="angular", soft=True),
    "LiftedStructLoss": LiftedStructureLoss,
    "NpairsLoss": n_pairs,
    "formula of ContrastiveLoss": SquaredContrastiveLoss,
}


def value_and_gradient(loss, labels, embeddings):
    embeddings = tf.constant(embeddings)
    with tf.GradientTape() as tape:
        tape.watch(embeddings)
        value = loss(labels, embeddings)
    return value.numpy(), tape.gradient(value, embeddings).numpy()


def relative_difference(ours, theirs, floor):
    """Largest `|ours - theirs| / max(|theirs|, floor)`; NaN if a number is not finite.

    A number near zero has the rounding error of the large numbers in its sum, so numbers below the
    floor get the absolute tolerance of the floor.
    """
    return np.max(np.abs(ours - theirs) / np.maximum(np.abs(theirs), floor))


def differences(name, reference):
    """Largest relative differences of value and gradient over the batches.

    The floor of a value is 0.005, for which the tolerance allows an error of 1e-6, the rounding
    error of distances around 1. The floor of a gradient is a hundredth of its largest element, or
    1e-6 if that is zero, as in a batch where all triplets keep the margin.
    """
    of_value, of_gradient = [], []
    for index in range(reference["num_batches"]):
        loss = LOSSES[name](
            margin=float(reference[f"{index}/margin"]),
            normalize=bool(reference[f"{index}/normalize"]),
        )
        value, gradient = value_and_gradient(
            loss, reference[f"{index}/labels"], reference[f"{index}/embeddings"]
        )
        their_gradient = reference[f"{index}/{name}/gradient"]
        floor = max(0.01 * np.max(np.abs(their_gradient)), 1e-6)
        of_value.append(relative_difference(value, reference[f"{index}/{name}/value"], 0.005))
        of_gradient.append(relative_difference(gradient, their_gradient, floor))
    return np.max(of_value), np.max(of_gradient)


def main(path):
    tf.config.set_visible_devices([], "GPU")
    reference = dict(np.load(path))
    table = Table("tfa.losses", "batches", "value", "gradient", "ok")
    failed = []
    for name in LOSSES:
        of_value, of_gradient = differences(name, reference)
        ok = of_value <= VALUE_TOLERANCE and of_gradient <= GRADIENT_TOLERANCE
        if not ok:
            failed.append(name)
        table.add_row(
            name,
            str(reference["num_batches"]),
            f"{of_value:.1e}",
            f"{of_gradient:.1e}",
            "yes" if ok else "NO",
        )
    print("Largest relative differences between gsp_tf and TensorFlow Addons")
    print(f"(at most {VALUE_TOLERANCE:.0e} for values and {GRADIENT_TOLERANCE:.0e} for gradients)")
    Console().print(table)
    if failed:
        sys.exit(f"These differ: {'; '.join(failed)}.")


if __name__ == "__main__":
    main(sys.argv[1])
