"""The coded residual transform (Kan et al., NeurIPS 2022), as printed."""

import math

import keras
import numpy as np
import pytest
from printed import assert_as_printed

from gsp_tf.layers import CodedResidualTransform

PLACES, CHANNELS, PROTOTYPES, HIDDEN, DIM = 5, 3, 4, 3, 2


SHAPES = {
    "x": (PLACES, CHANNELS),
    "c": (PROTOTYPES, CHANNELS),
    "W1": (PROTOTYPES, CHANNELS, HIDDEN),
    "b1": (PROTOTYPES, HIDDEN),
    "W2": (PROTOTYPES, HIDDEN, DIM),
    "b": (DIM,),
}


def with_weights(weights, compute):
    """What a layer with these weights computes, so that a tape sees them."""
    layer = CodedResidualTransform(PROTOTYPES, DIM, HIDDEN, dtype="float64")
    layer.build((1, PLACES, CHANNELS))
    with keras.StatelessScope(zip(layer.trainable_variables, weights, strict=False)):
        return compute(layer)


def gelu(x):
    return np.array([x_i * (1 + math.erf(x_i / math.sqrt(2))) / 2 for x_i in x])


def coded_residual(x, c_k):
    """Equation 1, r of one prototype."""
    r_k = np.zeros(len(c_k))
    for x_j in x:
        w_kj = sum(x_j[i] * c_k[i] for i in range(len(c_k)))
        r_k += math.log(1 + math.exp(w_kj)) * (x_j - c_k)
    return r_k


@pytest.mark.equation(
    "CRT", "1", "layers.CodedResidualTransform", "mean over the places, a factor that W1 holds"
)
@pytest.mark.equation("CRT", "2", "layers.CodedResidualTransform")
def test_embedding():
    def code(x, *weights):
        return with_weights(weights, lambda layer: layer(x[None])[0, 0] - 2 * layer(x[None])[0, 1])

    def printed(x, c, w1, b1, w2, b):
        f = np.zeros(DIM)
        for k in range(PROTOTYPES):
            r_k = coded_residual(x, c[k]) / PLACES
            f += gelu(r_k @ w1[k] + b1[k]) @ w2[k] + b
        f /= PROTOTYPES
        return f[0] - 2 * f[1]

    rng = np.random.default_rng(0)
    assert_as_printed(code, printed, *(rng.normal(size=shape) for shape in SHAPES.values()))
