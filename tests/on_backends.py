"""Values and gradients of losses and layers, to be equal on every backend of Keras.

Run as a script, it writes them to a file, on the backend that `KERAS_BACKEND` names.
"""

import sys

import keras
import numpy as np
from gradients import differentiated
from keras import ops
from layer_examples import LAYERS
from local_maps import features_like, randomized
from loss_examples import EVERY_PAIR_LOSS, with_weights
from loss_examples import LAYERS as LOSS_LAYERS

from gsp_tf import losses
from gsp_tf.layers import GeneralizedSumPooling

LABELS = np.arange(12) % 4
DRAWN = ("proxy_synthesis",)  # each backend draws its own mixtures
ZERO_SHOT = {"zero_shot": lambda: losses.ZeroShotLoss(4, 3), "groups": losses.GroupDiversityLoss}
LOCAL = LAYERS | {"gsp_of_attributes": lambda: GeneralizedSumPooling(4, return_attributes=True)}


def outcomes():
    """Dict from the name of a part to its value and gradient, flattened and joined."""
    found = {}
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
        weights = [rng.normal(size=ops.shape(output)) for output in outputs]
        return [y * ops.cast(w, y.dtype) for y, w in zip(outputs, weights, strict=True)]

    outputs, found = differentiated(weighted, point)
    return np.concatenate([np.ravel(x) for x in (*outputs, *found)])


if __name__ == "__main__":
    np.savez(sys.argv[1], **outcomes(), uses_tensorflow="tensorflow" in sys.modules)
