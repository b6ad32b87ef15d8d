"""Networks for small images.

`resnet20` follows "Deep Residual Learning for Image Recognition" (He et al., CVPR 2016), section
4.2; a shortcut that changes the shape is a 1x1 convolution (option B). `resnetv2_20` has the blocks
of "Identity Mappings in Deep Residual Networks" (He et al., ECCV 2016): normalisation and ReLU
precede each convolution and follow the last block. `resnetv2_20_bottleneck` has that paper's
bottleneck blocks (figure 1 and section 4.1: 1x1, 3x3, 1x1) at the widths of the program of GSP's
authors, whose `CifarResNet` it is. Both have 20 layers with weights, the classifier included.
`conv4` is the embedding module of "Learning to Compare: Relation Network for Few-Shot Learning"
(Sung et al., CVPR 2018). It costs about a tenth of `resnet20`.
"""

import keras
from keras import layers

from gsp_tf.backbones.registry import InputShape, register

_WIDTHS = (16, 32, 64)
_BLOCKS_PER_STAGE = 3


@register("resnet20", intermediate="stage_2")
def resnet20(input_shape: InputShape = (None, None, 3)) -> keras.Model:
    """ResNet-20: three stages of three blocks, 16, 32 and 64 channels."""
    images = keras.Input(input_shape)
    x = layers.Rescaling(1.0 / 127.5, offset=-1.0)(images)
    x = layers.ReLU()(_normalize(_convolve(x, _WIDTHS[0])))
    for width, strides, name in _blocks():
        shortcut = x
        x = layers.ReLU()(_normalize(_convolve(x, width, strides=strides)))
        x = _normalize(_convolve(x, width))
        if shortcut.shape[-1] != width or strides != 1:
            shortcut = _normalize(_convolve(shortcut, width, kernel_size=1, strides=strides))
        x = layers.ReLU(name=name)(layers.Add()([x, shortcut]))
    return keras.Model(images, x, name="resnet20")


@register("resnetv2_20", intermediate="stage_2")
def resnetv2_20(input_shape: InputShape = (None, None, 3)) -> keras.Model:
    """ResNet-20 with pre-activation blocks."""
    images = keras.Input(input_shape)
    x = layers.Rescaling(1.0 / 127.5, offset=-1.0)(images)
    x = _convolve(x, _WIDTHS[0])
    for width, strides, name in _blocks():
        shortcut = x
        x = layers.ReLU()(_normalize(x))
        if shortcut.shape[-1] != width or strides != 1:
            shortcut = _convolve(x, width, kernel_size=1, strides=strides)
        x = _convolve(x, width, strides=strides)
        x = _convolve(layers.ReLU()(_normalize(x)), width)
        x = layers.Add(name=name)([x, shortcut])
    x = layers.ReLU()(_normalize(x))
    return keras.Model(images, x, name="resnetv2_20")


@register("resnetv2_20_bottleneck", intermediate="stage_2")
def resnetv2_20_bottleneck(input_shape: InputShape = (None, None, 3)) -> keras.Model:
    """ResNet-20 with two pre-activation bottleneck blocks a stage: 64, 128 and 256 channels."""
    images = keras.Input(input_shape)
    x = layers.Rescaling(1.0 / 127.5, offset=-1.0)(images)
    x = layers.ReLU()(_normalize(_convolve(x, 16)))
    for stage, width in enumerate((64, 128, 256)):
        for block in range(2):
            is_first = block == 0
            strides = 2 if is_first and stage > 0 else 1
            narrow = 16 if is_first and stage == 0 else width // 2
            shortcut = x
            if not (is_first and stage == 0):  # the stem is normalised
                x = layers.ReLU()(_normalize(x))
            x = _convolve(x, narrow, kernel_size=1, strides=strides)
            x = _convolve(layers.ReLU()(_normalize(x)), narrow)
            x = _convolve(layers.ReLU()(_normalize(x)), width, kernel_size=1)
            if is_first:
                shortcut = _convolve(shortcut, width, kernel_size=1, strides=strides)
            x = layers.Add(name=f"stage_{stage + 1}" if block == 1 else None)([x, shortcut])
    x = layers.ReLU()(_normalize(x))
    return keras.Model(images, x, name="resnetv2_20_bottleneck")


def _blocks():
    """Width and stride of each of the nine blocks, with a name for the last block of each stage."""
    for stage, width in enumerate(_WIDTHS):
        for block in range(_BLOCKS_PER_STAGE):
            is_last = block == _BLOCKS_PER_STAGE - 1
            stride = 2 if stage > 0 and block == 0 else 1
            yield width, stride, f"stage_{stage + 1}" if is_last else None


def _convolve(x, filters, kernel_size=3, strides=1):
    return layers.Conv2D(
        filters,
        kernel_size,
        strides=strides,
        padding="same",
        use_bias=False,
        kernel_initializer="he_normal",
    )(x)


def _normalize(x):
    return layers.BatchNormalization(momentum=0.9)(x)


@register("conv4", intermediate="block_2")
def conv4(input_shape: InputShape = (None, None, 3)) -> keras.Model:
    """Four blocks of 64 3x3 filters, batch normalisation and ReLU; the first two halve the map."""
    images = keras.Input(input_shape)
    x = layers.Rescaling(1.0 / 127.5, offset=-1.0)(images)
    for block in range(4):
        x = layers.Conv2D(64, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(_normalize(x))
        if block < 2:
            x = layers.MaxPooling2D(2, name=f"block_{block + 1}")(x)
    return keras.Model(images, x, name="conv4")
