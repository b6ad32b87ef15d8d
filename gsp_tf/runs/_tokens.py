"""The local features of images that a model weighs most, in the space of its embeddings."""

import math
from collections.abc import Iterable

import keras
import numpy as np
from keras import ops

from gsp_tf._endless import refuse_endless
from gsp_tf._typing import Tensor
from gsp_tf.evaluation import TokenSets
from gsp_tf.runs.model import features_model
from gsp_tf.training import inference


class TokenModel:
    """The part of an embedder that gives local features and their pooling weights.

    The pooled feature of gsp is the weighted sum of local features, `Σ_j w_j f_j` (eq. 4.1 of the
    GSP paper). The embedding is a linear map W of it, at length 1. The tokens `W f_j` therefore lie
    in the space of the embedding, and their weighted sum has its direction. `k` is the number of
    tokens to keep of an image, `None` for all. `grid` is the height and width of the map of local
    features, `None` where they form no rectangle.
    """

    def __init__(self, embedder: keras.Model, k: int | None = 16):
        self._features, self._pooling = features_model(embedder)
        if not hasattr(self._pooling, "pooling_weights"):
            raise ValueError(
                f"Matching of local features needs a pooling with weights, such as gsp; the model "
                f"has {type(self._pooling).__name__}."
            )
        if k is not None and k < 1:
            raise ValueError(f"k must be at least 1; received {k}.")
        shape = self._features.output_shape[1:-1]
        count = int(np.prod(shape))
        side = math.isqrt(count)
        self.grid = shape if len(shape) == 2 else (side, side) if side * side == count else None
        self.k = count if k is None else min(k, count)
        channels = self._features.output_shape[-1]
        self._kernel = _projection(embedder, channels)
        self.dim = channels if self._kernel is None else self._kernel.shape[1]
        self._forward = inference(self._features)

    def __call__(self, images: Tensor) -> TokenSets:
        """The token sets of images `(B, S, S, channels)`, pixels in [0, 255]."""
        local = self._forward(images)
        weights = ops.convert_to_numpy(self._pooling.pooling_weights(local))
        local = ops.convert_to_numpy(local)
        local = local.reshape(len(local), -1, local.shape[-1])
        if self._kernel is not None:
            local = local @ self._kernel
        return TokenSets.pack(local, weights.reshape(len(local), -1), self.k)

    def embed(self, batches: Iterable) -> TokenSets:
        """The token sets of finite batches of images and labels."""
        refuse_endless(batches, "batches")
        return TokenSets.join([self(images) for images, _ in batches])

    def none(self) -> TokenSets:
        """The token set of an image that cannot be read."""
        empty = TokenSets.pack(np.zeros((1, self.k, self.dim)), np.zeros((1, self.k)), self.k)
        return empty._replace(places=np.zeros_like(empty.places))


def _projection(embedder, channels):
    """Kernel of the linear layer from the pooled features to the embeddings, if there is one."""
    names = [layer.name for layer in embedder.layers]
    if "embedding" not in names or names.index("embedding") < names.index("pooling"):
        return None
    kernel = ops.convert_to_numpy(embedder.get_layer("embedding").kernel)
    return kernel.astype("float32") if kernel.shape[0] == channels else None
