"""BN-Inception in the form of its Caffe weights, the usual start of metric learning.

"Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift"
(Ioffe and Szegedy, ICML 2015). Layers have the names of the PyTorch package `pretrainedmodels`. The
intermediate map is that of module 4e, which halves the map of 4d. If a module that halves receives
a map with an odd side, the branches of the Caffe network differ in size by one and it has no
output; here max pooling reaches one place further.
"""

import keras
from keras import layers

from gsp_tf.backbones._layers import ceil_max_pooling, rgb_input
from gsp_tf.backbones.registry import InputShape, register
from gsp_tf.layers import PixelNormalization

# Channels: 1x1; reduction and 3x3; reduction and two 3x3; pooling and the projection after it. The
# modules that halve the map have the two branches in the middle, and pooling of their input.
_MODULES = {
    "inception_3a": (64, (64, 64), (64, 96), "average", 32),
    "inception_3b": (64, (64, 96), (64, 96), "average", 64),
    "inception_3c": ((128, 160), (64, 96)),
    "inception_4a": (224, (64, 96), (96, 128), "average", 128),
    "inception_4b": (192, (96, 128), (96, 128), "average", 128),
    "inception_4c": (160, (128, 160), (128, 160), "average", 128),
    "inception_4d": (96, (128, 192), (160, 192), "average", 128),
    "inception_4e": ((128, 192), (192, 256)),
    "inception_5a": (352, (192, 320), (160, 224), "average", 128),
    "inception_5b": (352, (192, 320), (192, 224), "max", 128),
}


@register("bn_inception", intermediate="inception_4e_output")
def bn_inception(input_shape: InputShape = (None, None, 3)) -> keras.Model:
    """BN-Inception: 1024 features at about 1/32 of the image sides."""
    images, x = rgb_input(input_shape, minimum=7)
    x = PixelNormalization(mean=(104.0, 117.0, 128.0), bgr=True, name="pixels")(x)
    x = _convolve(x, 64, 7, "conv1_7x7_s2", strides=2)
    x = ceil_max_pooling(x, "pool1_3x3_s2")
    x = _convolve(x, 64, 1, "conv2_3x3_reduce")
    x = _convolve(x, 192, 3, "conv2_3x3")
    x = ceil_max_pooling(x, "pool2_3x3_s2")
    for name, channels in _MODULES.items():
        branches = _halving_branches if len(channels) == 2 else _branches
        x = layers.Concatenate(name=f"{name}_output")(branches(x, name, *channels))
    return keras.Model(images, x, name="bn_inception")


def _branches(x, name, one, three, double, pooling, projection):
    pool = (_average if pooling == "average" else _max)(x, f"{name}_pool")
    return [
        _convolve(x, one, 1, f"{name}_1x1"),
        _three(x, name, three),
        _double(x, name, double),
        _convolve(pool, projection, 1, f"{name}_pool_proj"),
    ]


def _halving_branches(x, name, three, double):
    return [
        _three(x, name, three, strides=2),
        _double(x, name, double, strides=2),
        ceil_max_pooling(x, f"{name}_pool", padding=2),
    ]


def _three(x, name, channels, strides=1):
    x = _convolve(x, channels[0], 1, f"{name}_3x3_reduce")
    return _convolve(x, channels[1], 3, f"{name}_3x3", strides)


def _double(x, name, channels, strides=1):
    x = _convolve(x, channels[0], 1, f"{name}_double_3x3_reduce")
    x = _convolve(x, channels[1], 3, f"{name}_double_3x3_1")
    return _convolve(x, channels[1], 3, f"{name}_double_3x3_2", strides)


def _convolve(x, filters, size, name, strides=1):
    """Convolution with a bias, batch normalisation and ReLU."""
    if strides > 1:  # Caffe pads both sides equally, Keras' "same" does not.
        x = layers.ZeroPadding2D(size // 2, name=f"{name}_padding")(x)
    padding = "same" if strides == 1 else "valid"
    x = layers.Conv2D(filters, size, strides, padding, kernel_initializer="he_normal", name=name)(x)
    x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=f"{name}_bn")(x)
    return layers.ReLU(name=f"{name}_relu")(x)


def _average(x, name):
    """3x3 average pooling that counts the zeros around the map."""
    x = layers.ZeroPadding2D(1, name=f"{name}_padding")(x)
    return layers.AveragePooling2D(3, 1, name=name)(x)


def _max(x, name):
    return layers.MaxPooling2D(3, 1, "same", name=name)(x)
