"""Values of every exported loss and layer in float64, to be equal on every backend of Keras.

Run as a script on TensorFlow, it writes them to a file: tests/oracles/float64.npz.
"""

import inspect
import sys

import keras
import numpy as np
from local_maps import randomized
from loss_examples import with_weights

from gsp_tf import layers, losses

LABELS = np.arange(12) % 6  # two of each, as views
EMBEDDINGS = np.random.default_rng(2).normal(size=(12, 6))
FEATURES = np.random.default_rng(1).normal(size=(2, 4, 4, 8))
# What losses and layers need to be told; one that needs anything else fails the test.
NEEDED = {
    "capacity": lambda: 40,
    "dim": lambda: 4,
    "dims": lambda: (2, 6),
    "embedding_dim": lambda: 3,
    "group_dim": lambda: 3,
    "hidden_dim": lambda: 6,
    "key_dim": lambda: 4,
    "loss": losses.ContrastiveLoss,
    "num_classes": lambda: 6,
    "num_groups": lambda: 2,
    "num_prototypes": lambda: 4,
    "proxy_loss": lambda: losses.NormalizedSoftmaxLoss(6, dtype="float64"),
    "terms": lambda: [losses.ContrastiveLoss(), losses.NormalizedSoftmaxLoss(6, dtype="float64")],
}
ARGUMENTS = {
    layers.CodedResidualBranches: {"num_prototypes": (2, 3), "embedding_dim": (4, 5)},
    layers.DenseBranches: {"embedding_dim": (4, 5)},
    layers.GeneralizedSumPooling: {"num_prototypes": 5, "return_attributes": True},
    layers.OptimalTransportPooling: {"num_prototypes": 5},
}
# Bases, losses that draw at random, and layers around networks.
LEFT_OUT = {
    "HIERLoss", "LocalFeaturePooling",
    "PairLoss", "PartialFC", "ProxyLoss", "ProxySynthesis",
    "SemiSupervisedLoss", "SimilarityMixup",
}  # fmt: skip


def exported(package, base):
    """The exported classes of a kind, by name."""
    classes = {name: getattr(package, name) for name in package.__all__ if name not in LEFT_OUT}
    return {n: x for n, x in classes.items() if inspect.isclass(x) and issubclass(x, base)}


LOSSES, LAYERS = exported(losses, keras.losses.Loss), exported(layers, keras.layers.Layer)


def made(kind):
    """A loss or layer of float64 with the arguments that it needs."""
    parameters = inspect.signature(kind).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind != p.VAR_KEYWORD]
    arguments = {name: NEEDED[name]() for name in needed} | ARGUMENTS.get(kind, {})
    if issubclass(kind, keras.layers.Layer):
        arguments["dtype"] = "float64"
    return kind(**arguments)


def outcome(name, step=0.0):
    """The value of the loss or layer of a name, float64 `(n,)`; `step` changes the inputs."""
    features, embeddings = (x * (1 + step * np.cos(x)) for x in (FEATURES, EMBEDDINGS))
    if name in LAYERS:
        layer, inputs, shape = made(LAYERS[name]), features, features.shape
        if name == "GlobalLocalEmbedding":
            inputs, shape = [features, 2 * features], [shape, shape]
        outputs = keras.tree.flatten(randomized(layer, shape)(inputs))
    else:
        loss = made(LOSSES[name])
        if isinstance(loss, keras.layers.Layer):
            with_weights(loss, columns=6)
        of_groups = isinstance(loss, losses.GroupDiversityLoss)
        outputs = [loss(LABELS, embeddings.reshape(12, 2, 3) if of_groups else embeddings)]
    assert {keras.backend.standardize_dtype(x.dtype) for x in outputs} == {"float64"}, name
    return np.concatenate([np.ravel(keras.ops.convert_to_numpy(x)) for x in outputs])


if __name__ == "__main__":
    np.savez_compressed(sys.argv[1], **{name: outcome(name) for name in (*LOSSES, *LAYERS)})
