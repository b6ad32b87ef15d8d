"""Backbones: from images to a map of local features, by name."""

from gsp_tf.backbones import conv4, resnet_cifar  # noqa: F401  (they register themselves)
from gsp_tf.backbones.registry import create, names, register

__all__ = ["create", "names", "register"]
