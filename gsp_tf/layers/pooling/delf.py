"""Attentive sum of local features (Noh, Araujo, Sim, Weyand, Han, ICCV 2017)."""

from typing import Any

from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._backend import softplus
from gsp_tf._numerics import at_least_float32, masked_softmax, scaled_back, scaled_down
from gsp_tf._typing import Tensor
from gsp_tf.layers._local_features import DataFormat
from gsp_tf.layers.pooling._base import WeightedPooling


class DelfPooling(WeightedPooling):
    """Sum of the local features, weighted by learned scores of their relevance.

    "Large-Scale Image Retrieval with Attentive Deep Local Features" (DELF), section 3.3:
    `Σ_j α(f_j) f_j` with `α(f) = softplus(w · ReLU(V f + a) + b)`, two 1 x 1 convolutions. This is
    eq. 1 without the linear map W of the sum, which is a separate layer here. The authors' code
    divides the sum by the number of features; this layer does not. A sum that exceeds the range of
    float32 is its largest number.

    Args:
        hidden_dim: units between the two convolutions.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map or a set. Output: pooled `(B, C)`.

    Example:
        >>> import numpy as np
        >>> DelfPooling(hidden_dim=4)(np.ones((2, 5, 5, 8), "float32")).shape
        TensorShape([2, 8])
    """

    def __init__(
        self, hidden_dim: int = 512, data_format: DataFormat | None = None, **kwargs: Any
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_sizes(hidden_dim=hidden_dim)
        self.hidden_dim = int(hidden_dim)

    def build(self, input_shape):
        channels = self.num_channels(input_shape)
        self.hidden = self.add_dense("hidden", channels, self.hidden_dim, activation="relu")
        self.score = self.add_dense("score", self.hidden_dim, 1)

    def pool(self, features: Tensor, average: Tensor) -> Tensor:
        # Features that the mask leaves out are 0, so their scores do not matter.
        weights = softplus(self._scores(features))
        features, unit = scaled_down(features, axis=(1, 2), limit=1.0)
        return scaled_back(ops.einsum("bn,bnc->bc", weights, features), unit[:, 0])

    def weigh(self, features: Tensor, average: Tensor, positions: tuple) -> Tensor:
        scores = self._scores(features)
        # Far below 0, softplus equals the exponential, which underflows.
        scores = ops.where(scores < -15, scores, ops.log(softplus(ops.maximum(scores, -15))))
        return masked_softmax(scores, average > 0)

    def _scores(self, features):
        """Scores `(B, n)` of a set, before the softplus."""
        return ops.squeeze(at_least_float32(self.score(self.hidden(features))), axis=-1)
