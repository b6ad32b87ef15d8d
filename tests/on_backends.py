"""Values and gradients of ops, losses and layers, to be equal on every backend of Keras.

Run as a script, it writes them to a file, on the backend that `KERAS_BACKEND` names.
"""

import sys

import keras
import numpy as np
from gradients import differentiated
from keras import ops as keras_ops
from layer_examples import LAYERS
from local_maps import features_like, randomized
from loss_examples import EVERY_PAIR_LOSS, with_weights
from loss_examples import LAYERS as LOSS_LAYERS

from gsp_tf import losses, ops
from gsp_tf._numerics import solve_positive_definite
from gsp_tf.layers import GeneralizedSumPooling
from gsp_tf.layers.pooling.optimal_transport import _balanced_transport

LABELS = np.arange(12) % 4
DRAWN = ("proxy_synthesis",)  # each backend draws its own mixtures
COST = np.random.default_rng(0).uniform(0, 2, (3, 5, 20)).astype("float32")
MASK = np.random.default_rng(1).uniform(size=(3, 20)) < 0.7
ROOTS = np.random.default_rng(2).normal(size=(3, 5, 5)).astype("float32")
POSITIVE_DEFINITE = ROOTS @ ROOTS.swapaxes(1, 2) + np.eye(5, dtype="float32")

OPS = {
    "newton": lambda cost: ops.partial_transport(cost, 0.4, 20.0, mask=MASK),
    "fixed point": lambda cost: ops.partial_transport(cost, 0.4, 3.0, "fixed_point"),
    "balanced": lambda cost: _balanced_transport(cost, np.full((3, 20), 0.05), 10.0, 10),
    "two sets": lambda cost: ops.partial_set_transport(cost, 0.5, 10.0),
    "distances": lambda x: ops.pairwise_distances(x),
    "Lipschitz": lambda x: ops.lipschitz_normalize(3 * x),
    # With a penalty of 0.1, float32 rounds by 1e-5 on every backend.
    "ridge": lambda x: ops.ridge_regression(x, 2 * x[..., :2], 1.0),
    "solved": lambda x: solve_positive_definite(POSITIVE_DEFINITE, x),
    "GSP": lambda x: ops.generalized_sum_pooling(x, COST[0], 0.3, 5.0),
    "maps": lambda x: ops.attribute_maps(x, COST[0], 0.3, 50.0),
}
ZERO_SHOT = {"zero_shot": lambda: losses.ZeroShotLoss(4, 3), "groups": losses.GroupDiversityLoss}
LOCAL = LAYERS | {"gsp_of_attributes": lambda: GeneralizedSumPooling(4, return_attributes=True)}


def outcomes():
    """Dict from the name of a part to its value and gradient, flattened and joined."""
    found = {}
    for name, function in OPS.items():
        point = COST if name in ("newton", "fixed point", "balanced", "two sets") else COST - 1.0
        found[f"ops {name}"] = _joined(function, point)
    embeddings = features_like((12, 6))
    for name, make in (EVERY_PAIR_LOSS | LOSS_LAYERS | ZERO_SHOT).items():
        if name not in DRAWN:
            loss = make()
            points = features_like((12, 3, 6)) if name == "groups" else embeddings
            if isinstance(loss, keras.layers.Layer):
                with_weights(loss, columns=6)
            found[f"loss {name}"] = _joined(lambda x, loss=loss: loss(LABELS, x), points)
    for name, make in LOCAL.items():
        shape = (2, 4, 5, 8)
        found[f"layer {name}"] = _joined(randomized(make(), shape), features_like(shape))
    return found


def _joined(function, point):
    """Outputs of a function, times fixed numbers, and the gradient of their sum."""

    def weighted(x):
        rng = np.random.default_rng(3)
        outputs = keras.tree.flatten(function(x))
        weights = [rng.normal(size=keras_ops.shape(output)) for output in outputs]
        return [y * keras_ops.cast(w, y.dtype) for y, w in zip(outputs, weights, strict=True)]

    outputs, found = differentiated(weighted, point)
    return np.concatenate([np.ravel(x) for x in (*outputs, *found)])


if __name__ == "__main__":
    np.savez(sys.argv[1], **outcomes(), uses_tensorflow="tensorflow" in sys.modules)
