"""Backbones from keras.applications, which load their own weights."""

import functools
from dataclasses import dataclass

import keras

from gsp_tf.backbones._layers import IMAGENET, MINUS_ONE_TO_ONE, rgb_input
from gsp_tf.backbones.parts import last_map
from gsp_tf.backbones.registry import InputShape, register
from gsp_tf.layers import PixelNormalization

_CAFFE = {"mean": (103.939, 116.779, 123.68), "bgr": True}
_IN_THE_MODEL = None
_KERNELS = "{name}_weights_tf_dim_ordering_tf_kernels_notop.h5"


@dataclass(frozen=True)
class _Family:
    """Functions of keras.applications, by our names, whose networks take the same images."""

    pixels: dict | None  # arguments of `PixelNormalization`
    weights: str  # file of the ImageNet weights in the Keras cache; {size} ends our name
    functions: dict[str, str]
    minimum: int = 32  # smallest side of an image
    sides: tuple[int, ...] = ()  # sides with weights of their own; others take 224's

    def weights_file(self, name: str, side: int) -> str:
        """Name of the weights file that Keras uses for images of a side."""
        side = side if side in self.sides else 224
        return self.weights.format(name=name, size=name.rsplit("_", 1)[-1], side=side)


_FAMILIES = {
    "ResNet": _Family(
        _CAFFE,
        _KERNELS,
        {"resnet50": "ResNet50", "resnet101": "ResNet101", "resnet152": "ResNet152"},
    ),
    "ResNetV2": _Family(
        MINUS_ONE_TO_ONE,
        _KERNELS,
        {"resnet50v2": "ResNet50V2", "resnet101v2": "ResNet101V2", "resnet152v2": "ResNet152V2"},
    ),
    "ConvNeXt": _Family(
        _IN_THE_MODEL,
        "{name}_notop.h5",
        {
            f"convnext_{size.lower()}": f"ConvNeXt{size}"
            for size in ("Tiny", "Small", "Base", "Large", "XLarge")
        },
    ),
    "EfficientNet": _Family(
        _IN_THE_MODEL,
        "efficientnet{size}_notop.h5",
        {f"efficientnet_b{number}": f"EfficientNetB{number}" for number in range(8)},
    ),
    "EfficientNetV2": _Family(
        _IN_THE_MODEL,
        "efficientnetv2-{size}_notop.h5",
        {
            f"efficientnet_v2_{size.lower()}": f"EfficientNetV2{size}"
            for size in ("B0", "B1", "B2", "B3", "S", "M", "L")
        },
    ),
    "DenseNet": _Family(
        IMAGENET,
        _KERNELS,
        {f"densenet{depth}": f"DenseNet{depth}" for depth in (121, 169, 201)},
    ),
    "Inception": _Family(
        MINUS_ONE_TO_ONE,
        _KERNELS,
        {"inception_v3": "InceptionV3", "inception_resnet_v2": "InceptionResNetV2"},
        minimum=75,
    ),
    "Xception": _Family(MINUS_ONE_TO_ONE, _KERNELS, {"xception": "Xception"}, minimum=71),
    "MobileNet": _Family(
        MINUS_ONE_TO_ONE,
        "mobilenet_1_0_{side}_tf_no_top.h5",
        {"mobilenet": "MobileNet"},
        sides=(128, 160, 192, 224),
    ),
    "MobileNetV2": _Family(
        MINUS_ONE_TO_ONE,
        "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_{side}_no_top.h5",
        {"mobilenet_v2": "MobileNetV2"},
        sides=(96, 128, 160, 192, 224),
    ),
    "MobileNetV3": _Family(
        _IN_THE_MODEL,
        "weights_{name}_224_1.0_float_no_top_v2.h5",
        {"mobilenet_v3_small": "MobileNetV3Small", "mobilenet_v3_large": "MobileNetV3Large"},
    ),
    "NASNet": _Family(
        MINUS_ONE_TO_ONE,
        "{name}_no_top.h5",
        {"nasnet_mobile": "NASNetMobile", "nasnet_large": "NASNetLarge"},
    ),
    "VGG": _Family(_CAFFE, _KERNELS, {"vgg16": "VGG16", "vgg19": "VGG19"}),
}


def _register(name, function, title, family):
    @register(
        name,
        intermediate=functools.partial(last_map, stride=16),
        pretrained=("imagenet",),
        weights_file=functools.partial(family.weights_file, name),
        family=title,
    )
    def build(input_shape: InputShape, weights: str | None = None) -> keras.Model:
        images, x = rgb_input(input_shape, family.minimum)
        if family.pixels is not None:
            x = PixelNormalization(**family.pixels, name="pixels")(x)
        network = getattr(keras.applications, function)(
            include_top=False, weights=weights, input_tensor=x, input_shape=(*input_shape[:2], 3)
        )
        network = keras.Model(images, network.output, name=name)
        return _with_own_pixels(network) if title == "EfficientNet" else network


def _with_own_pixels(network):
    """A copy of an EfficientNet with `PixelNormalization` in place of the layers of Keras."""
    # Keras adds a layer for ImageNet weights alone, and its statistics are weights that a copy has
    # without an effect: the same weights took other pixels, as they had come by a file or a copy.
    own = keras.layers.Rescaling, keras.layers.Normalization

    def copied(layer):
        if isinstance(layer, keras.layers.Normalization):
            return PixelNormalization(**IMAGENET, name="pixels")
        if isinstance(layer, own):
            return keras.layers.Identity()
        return type(layer).from_config(layer.get_config())

    copy = keras.models.clone_model(network, clone_function=copied)
    left = {
        id(weight) for layer in network.layers if isinstance(layer, own) for weight in layer.weights
    }
    copy.set_weights([weight for weight in network.weights if id(weight) not in left])
    return copy


for _title, _family in _FAMILIES.items():
    for _name, _function in _family.functions.items():
        _register(_name, _function, _title, _family)
