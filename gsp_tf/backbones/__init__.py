"""Backbones: from images to a map of local features, by name."""

from gsp_tf.backbones import (  # noqa: F401  (they register themselves)
    applications,
    bn_inception,
    conv4,
    googlenet,
    hub,
    resnet_cifar,
)
from gsp_tf.backbones.convert import Conversion, convert_weights
from gsp_tf.backbones.frozen import freeze_batch_normalization
from gsp_tf.backbones.registry import (
    create,
    keras_cache,
    names,
    pretrained,
    register,
    weights_path,
)

__all__ = [
    "Conversion",
    "convert_weights",
    "create",
    "freeze_batch_normalization",
    "keras_cache",
    "names",
    "pretrained",
    "register",
    "weights_path",
]
