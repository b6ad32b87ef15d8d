"""SimSiam (Chen and He, CVPR 2021)."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._typing import Tensor
from gsp_tf.losses._views import TwoViewLoss
from gsp_tf.ops import l2_normalize


class SimSiamLoss(TwoViewLoss):
    """Predicts the embedding of one view from that of the other, which gets no gradient.

    `-cos(h(z), z') / 2 - cos(h(z'), z) / 2`, averaged, where the targets z' and z are constants and
    h is a learned predictor: a hidden layer with batch normalisation and ReLU, and a linear layer.
    "Exploring Simple Siamese Representation Learning" (CVPR 2021), eqs. 1 to 4 and section 3. The
    loss lies in -1 to 1.

    Args:
        hidden_dim: size of the hidden layer, a quarter of D in the paper.

    Weights: those of `predictor`, a Keras model `(B, D) -> (B, D)`.

    Call: `loss(labels, embeddings, training=True)` with every label twice, or
    `loss.views(first, second)`.

    Example:
        >>> import numpy as np
        >>> views = np.random.default_rng(0).normal(size=(2, 8, 4)).astype("float32")
        >>> abs(float(SimSiamLoss(2).views(*views))) <= 1.0
        True
    """

    def __init__(self, hidden_dim: int = 512, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_sizes(hidden_dim=hidden_dim)
        self.hidden_dim = hidden_dim

    def build(self, labels_shape, embeddings_shape):
        dim, dtype = embeddings_shape[-1], self.dtype_policy
        self.predictor = keras.Sequential(
            [
                keras.Input((dim,), dtype=self.compute_dtype),
                keras.layers.Dense(self.hidden_dim, use_bias=False, dtype=dtype),
                keras.layers.BatchNormalization(dtype=dtype),
                keras.layers.ReLU(dtype=dtype),
                keras.layers.Dense(dim, dtype=dtype),
            ],
            name="predictor",
        )

    def views_loss(self, first: Tensor, second: Tensor) -> Tensor:
        def similarity(view, target):
            prediction = l2_normalize(self.predictor(view))
            return ops.sum(prediction * ops.stop_gradient(l2_normalize(target)), axis=1)

        return -0.5 * ops.mean(similarity(first, second) + similarity(second, first))
