"""Where in an image its embedding comes from."""

import math
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.layers import GlobalLocalEmbedding
from gsp_tf.runs.model import features_model


class _PlaceMaps(NamedTuple):
    """Maps of an embedder over the places of images; `None` where it has none of a kind."""

    weights: np.ndarray | None = None
    correlations: np.ndarray | None = None


def place_maps(embedder: keras.Model, images: np.ndarray) -> _PlaceMaps:
    """Where in images their embeddings come from.

    Args:
        embedder: model of `build_embedder`.
        images: float array `(B, S, S, channels)`, pixels in [0, 255].

    Returns:
        A named tuple of arrays, each `None` without such maps. `weights` `(B, H, W, maps)`, of
        which each map sums to 1, are the weights of a pooling, the attention of each group of a
        grouping, or the attention that places receive in second-order attention (in the local head
        if there are two heads). `correlations` `(B, H, W, K)` are those with the prototypes of a
        coded residual transform.

    Example:
        >>> from gsp_tf.runs.model import build_embedder
        >>> from gsp_tf.recipe import Recipe
        >>> embedder = build_embedder(Recipe(), channels=1)
        >>> place_maps(embedder, np.zeros((2, 48, 48, 1))).weights.shape
        (2, 12, 12, 1)
    """
    features, head = features_model(embedder)
    maps = _maps_of(head)
    return _PlaceMaps() if maps is None else maps(features(images, training=False))


def maps_of_head(head: keras.layers.Layer, local: Tensor) -> _PlaceMaps:
    """`_PlaceMaps` of local features, the input of a pooling layer or of a layer that replaces it.

    They are `(B, H, W, C)`, tokens `(B, n, C)`, or for head global_local the list of the
    intermediate and the last features.
    """
    maps = _maps_of(head)
    return _PlaceMaps() if maps is None else maps(local)


def _maps_of(head):
    """The function from local features to `_PlaceMaps` of a layer; `None` without maps."""
    if hasattr(head, "correlation_maps"):
        return lambda local: _PlaceMaps(correlations=_on_grid(head.correlation_maps(local), 4))
    if hasattr(head, "pooling_weights"):
        weights = head.pooling_weights
    elif isinstance(head, GlobalLocalEmbedding):
        weights = head.attention_maps if head.attention else None
    elif hasattr(head, "attention_maps"):
        return lambda local: _PlaceMaps(_on_grid(head.attention_maps(local), 4))
    else:
        attention = getattr(head, "attention", None)
        weights = attention and attention.attention_maps
    return weights and (lambda local: _PlaceMaps(_on_grid(weights(local), 3)[..., None]))


def attributes_of_head(head: keras.layers.Layer, local: Tensor) -> np.ndarray | None:
    """The share of every place in every attribute of generalized sum pooling, `(B, H, W, m)`.

    The arguments are those of `maps_of_head`; `None` for a head without attributes.
    """
    if not hasattr(head, "attribute_maps"):
        return None
    return _on_grid(head.attribute_maps(local), num_dims=4)


def _on_grid(maps, num_dims):
    """Maps as an array; the patches of a transformer, which form a square, become a grid."""
    maps = ops.convert_to_numpy(maps)
    if maps.ndim == num_dims:
        return maps
    side = math.isqrt(maps.shape[1])
    return maps.reshape(len(maps), side, side, *maps.shape[2:])
