"""Backbones by name: models from images to maps of local features."""

from gsp_tf.backbones import (  # noqa: F401  (they register themselves)
    _applications,
    _bn_inception,
    _googlenet,
    _hub,
    _packaged,
    _small_networks,
)
from gsp_tf.backbones._presets import can_freeze_batch_normalization, image_presets, preset_side
from gsp_tf.backbones._weights import WeightsPackage, WeightsSource
from gsp_tf.backbones.conversion import convert_weights
from gsp_tf.backbones.freezing import freeze_batch_normalization, freeze_layers
from gsp_tf.backbones.parts import cut_layers, last_block, split
from gsp_tf.backbones.registry import (
    create,
    families,
    names,
    pretrained,
    register,
    weights_source,
)

__all__ = [
    "convert_weights",
    "create",
    "cut_layers",
    "freeze_batch_normalization",
    "freeze_layers",
    "names",
    "pretrained",
    "register",
    "split",
    "weights_source",
]
