"""What the tests of layers share: local features, and layers with random weights."""

import numpy as np


def features_like(shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype("float32")


def randomized(layer, shape, seed=1):
    """The layer, built, with random weights: none of them at 0 or 1, where terms would vanish."""
    rng = np.random.default_rng(seed)
    layer.build(shape)
    for weight in layer.weights:
        positive = "variance" in weight.path or "power" in weight.path
        draw = rng.uniform(0.5, 2.5, weight.shape) if positive else rng.normal(size=weight.shape)
        weight.assign(draw)
    return layer


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)
