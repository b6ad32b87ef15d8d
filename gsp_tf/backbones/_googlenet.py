"""GoogLeNet (Inception v1) with batch normalisation, in the form of torchvision's weights.

"Going Deeper with Convolutions" (Szegedy et al., CVPR 2015). Convolutions have no bias and are
normalised (epsilon 1e-3), and the third branch has a 3x3 convolution where the paper has 5x5.
Layers have torchvision's names, with underscores for dots. Pixels are scaled to [-1, 1]. Images
normalised as torchvision expects get the same values from `transform_input=True`, the setting of
its weights.
"""

import keras
from keras import layers

from gsp_tf.backbones._layers import MINUS_ONE_TO_ONE, ceil_max_pooling, rgb_input
from gsp_tf.backbones.registry import InputShape, register
from gsp_tf.layers import PixelNormalization

# Channels: 1x1; reduction and 3x3; reduction and the other 3x3; projection after pooling.
_MODULES = {
    "inception3a": (64, (96, 128), (16, 32), 32),
    "inception3b": (128, (128, 192), (32, 96), 64),
    "inception4a": (192, (96, 208), (16, 48), 64),
    "inception4b": (160, (112, 224), (24, 64), 64),
    "inception4c": (128, (128, 256), (24, 64), 64),
    "inception4d": (112, (144, 288), (32, 64), 64),
    "inception4e": (256, (160, 320), (32, 128), 128),
    "inception5a": (256, (160, 320), (32, 128), 128),
    "inception5b": (384, (192, 384), (48, 128), 128),
}


@register("googlenet", intermediate="inception4e")
def googlenet(input_shape: InputShape = (None, None, 3)) -> keras.Model:
    """GoogLeNet: 1024 features at about 1/32 of the image sides."""
    images, x = rgb_input(input_shape, minimum=15)
    x = PixelNormalization(**MINUS_ONE_TO_ONE, name="pixels")(x)
    x = layers.ZeroPadding2D(3, name="conv1_padding")(x)
    x = _convolve(x, 64, 7, "conv1", strides=2, padding="valid")
    x = ceil_max_pooling(x, "maxpool1")
    x = _convolve(x, 64, 1, "conv2")
    x = _convolve(x, 192, 3, "conv3")
    x = ceil_max_pooling(x, "maxpool2")
    for name, channels in _MODULES.items():
        if name == "inception4a":
            x = ceil_max_pooling(x, "maxpool3")
        elif name == "inception5a":
            x = layers.MaxPooling2D(2, 2, "same", name="maxpool4")(x)
        x = _inception(x, name, *channels)
    return keras.Model(images, x, name="googlenet")


def _inception(x, name, one, three, other_three, projection):
    second = _convolve(x, three[0], 1, f"{name}_branch2_0")
    third = _convolve(x, other_three[0], 1, f"{name}_branch3_0")
    pool = layers.MaxPooling2D(3, 1, "same", name=f"{name}_branch4_0")(x)
    branches = [
        _convolve(x, one, 1, f"{name}_branch1"),
        _convolve(second, three[1], 3, f"{name}_branch2_1"),
        _convolve(third, other_three[1], 3, f"{name}_branch3_1"),
        _convolve(pool, projection, 1, f"{name}_branch4_1"),
    ]
    return layers.Concatenate(name=name)(branches)


def _convolve(x, filters, size, name, strides=1, padding="same"):
    """Convolution, batch normalisation and ReLU."""
    x = layers.Conv2D(
        filters,
        size,
        strides,
        padding,
        use_bias=False,
        kernel_initializer="he_normal",
        name=f"{name}_conv",
    )(x)
    x = layers.BatchNormalization(momentum=0.9, epsilon=1e-3, name=f"{name}_bn")(x)
    return layers.ReLU(name=f"{name}_relu")(x)
