"""Freezes layers of pretrained backbones."""

import re
from collections.abc import Sequence

import keras

from gsp_tf._arguments import check_patterns, idle_patterns
from gsp_tf._keras import layers_within, weighted_layers
from gsp_tf.layers import FrozenBatchNormalization


def freeze_batch_normalization(model: keras.Model) -> keras.Model:
    """A copy of a model whose batch normalisation layers are frozen.

    Their moving statistics, scales and offsets do not change, even if the copy is called with
    `training=True` or is saved and loaded. This is common with pretrained weights and batches of
    few classes. A model without batch normalisation is copied as it is.

    Args:
        model: functional model; its own layers and weights stay unchanged.

    Raises:
        ValueError: if batch normalisation is inside layers that cannot be copied with another.

    Example:
        >>> from gsp_tf.backbones import create
        >>> model = create("resnet20", (32, 32, 3))
        >>> frozen = freeze_batch_normalization(model)
        >>> len(model.trainable_weights), len(frozen.trainable_weights)
        (63, 21)
    """

    def frozen_copy(layer):
        is_normalization = isinstance(layer, keras.layers.BatchNormalization)
        kind = FrozenBatchNormalization if is_normalization else type(layer)
        return kind.from_config(layer.get_config())

    if _has_trainable_normalization(model):
        copy = keras.models.clone_model(model, clone_function=frozen_copy, recursive=True)
    else:
        copy = keras.models.clone_model(model)
    if _has_trainable_normalization(copy):
        raise ValueError(
            f"The batch normalisation of {model.name} cannot be frozen: it is inside layers of "
            "keras-hub. Take backbone.freeze_batch_normalization=false, with which it trains, or "
            "freeze whole layers (freeze_layers, backbone.freeze)."
        )
    copy.set_weights(model.get_weights())
    return copy


def freeze_layers(model: keras.Model, patterns: Sequence[str]) -> None:
    """Freeze the layers of a model whose paths match a pattern.

    Their weights keep their values, and their batch normalisation is in inference mode. As with
    Keras' own `layer.trainable = False`, setting `trainable` of the whole model later undoes this.

    Args:
        model: built model, such as a backbone of `create`. It is changed in place.
        patterns: regular expressions that `re.search` looks for in the paths of layers, such as
            `"stem|block[1-4]"`; each matches a layer with weights.

    Example:
        >>> from gsp_tf.backbones import create
        >>> model = create("efficientnet_lite0", (64, 64, 3))
        >>> freeze_layers(model, ["stem|block[1-6]"])
        >>> model.trainable_weights[0].path
        'block7a_expand_conv/kernel'
    """
    check_patterns(patterns)
    layers = weighted_layers(model)
    idle = idle_patterns(patterns, (path for path, _ in layers))
    if idle:
        raise ValueError(
            f"The patterns {idle} match none of the layers with weights of {model.name}: "
            f"{[path for path, _ in layers]}."
        )
    for path, layer in layers:
        if any(re.search(pattern, path) for pattern in patterns):
            layer.trainable = False


def _has_trainable_normalization(model):
    """Whether a model has batch normalisation that is not frozen, in layers of any depth."""
    return any(
        isinstance(layer, keras.layers.BatchNormalization)
        and not isinstance(layer, FrozenBatchNormalization)
        for layer in layers_within(model)
    )
