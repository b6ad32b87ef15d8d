"""Backbones from keras.applications, which load their own weights."""

from dataclasses import dataclass

import keras

from gsp_tf.backbones._layers import rgb_input
from gsp_tf.backbones.registry import InputShape, register
from gsp_tf.layers import PixelNormalization

_CAFFE = {"mean": (103.939, 116.779, 123.68), "bgr": True}
_ZERO_TO_ONE = {"mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)}
_MINUS_ONE_TO_ONE = {"mean": 127.5, "std": 127.5}
_IN_THE_MODEL = None
_MOBILENET_SIDES = (96, 128, 160, 192, 224)
_KERNELS = "_weights_tf_dim_ordering_tf_kernels_notop.h5"


@dataclass(frozen=True)
class _Application:
    """A function of keras.applications and the settings of its network."""

    function: str
    pixels: dict | None  # arguments of `PixelNormalization`
    intermediate: str  # layer of the last map at 1/16 of the image sides
    weights: str  # file of its ImageNet weights in the Keras cache, for images of a {side}
    minimum: int = 32  # smallest side of an image

    def weights_file(self, side: int) -> str:
        """Name of the weights file that Keras uses for images of a side."""
        return self.weights.format(side=side if side in _MOBILENET_SIDES else 224)


_APPLICATIONS = {
    "convnext_tiny": _Application(
        "ConvNeXtTiny",
        _IN_THE_MODEL,
        "convnext_tiny_stage_2_block_8_identity",
        "convnext_tiny_notop.h5",
    ),
    "densenet121": _Application(
        "DenseNet121", _ZERO_TO_ONE, "pool4_relu", "densenet121" + _KERNELS
    ),
    "inception_v3": _Application(
        "InceptionV3", _MINUS_ONE_TO_ONE, "mixed7", "inception_v3" + _KERNELS, minimum=75
    ),
    "mobilenet_v2": _Application(
        "MobileNetV2",
        _MINUS_ONE_TO_ONE,
        "block_13_expand_relu",
        "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_{side}_no_top.h5",
    ),
    "resnet50": _Application("ResNet50", _CAFFE, "conv4_block6_out", "resnet50" + _KERNELS),
    "resnet101": _Application("ResNet101", _CAFFE, "conv4_block23_out", "resnet101" + _KERNELS),
    "resnet152": _Application("ResNet152", _CAFFE, "conv4_block36_out", "resnet152" + _KERNELS),
    "resnet50v2": _Application(
        "ResNet50V2", _MINUS_ONE_TO_ONE, "conv4_block6_preact_relu", "resnet50v2" + _KERNELS
    ),
}


def _register(name, application):
    @register(
        name,
        intermediate=application.intermediate,
        pretrained=("imagenet",),
        weights_file=application.weights_file,
    )
    def build(input_shape: InputShape, weights: str | None = None) -> keras.Model:
        images, x = rgb_input(input_shape, application.minimum)
        if application.pixels is not None:
            x = PixelNormalization(**application.pixels, name="pixels")(x)
        network = getattr(keras.applications, application.function)(
            include_top=False, weights=weights, input_tensor=x, input_shape=(*input_shape[:2], 3)
        )
        return keras.Model(images, network.output, name=name)


for _name, _application in _APPLICATIONS.items():
    _register(_name, _application)
