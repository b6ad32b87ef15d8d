"""Transformers from keras-hub, which the extra `[hub]` installs."""

from dataclasses import dataclass, field

import keras

from gsp_tf._console import to_install
from gsp_tf.backbones._layers import rgb_input
from gsp_tf.backbones.registry import InputShape, register
from gsp_tf.layers import PixelNormalization

_IMAGENET = {"mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)}
_MINUS_ONE_TO_ONE = {"mean": 127.5, "std": 127.5}


@dataclass(frozen=True)
class _HubModel:
    """A backbone class of keras_hub.models in one size."""

    function: str
    arguments: dict
    multiple: int  # image sides must be multiples of it
    num_extra_tokens: int | None  # tokens before the patch tokens; `None` if the output is a map
    presets: dict  # keras-hub's names of weights, by their names in `create`
    pretrained_side: int | None = None  # side of the images that the weights expect
    pixels: dict = field(default_factory=lambda: _IMAGENET)  # arguments of `PixelNormalization`
    is_square: bool = False  # whether keras-hub accepts only square images


def _mit(depths, preset):
    return _HubModel(
        "MiTBackbone",
        {
            "layerwise_depths": depths,
            "num_layers": 4,
            "hidden_dims": (64, 128, 320, 512),
            "layerwise_num_heads": (1, 2, 5, 8),
            "layerwise_sr_ratios": (8, 4, 2, 1),
            "layerwise_patch_sizes": (7, 3, 3, 3),
            "layerwise_strides": (4, 2, 2, 2),
            "max_drop_path_rate": 0.1,
        },
        multiple=32,
        num_extra_tokens=None,
        presets={"ade20k": preset},
        is_square=True,
    )


_SMALL = {"num_layers": 12, "num_heads": 6, "hidden_dim": 384, "intermediate_dim": 1536}
_BASE = {"num_layers": 12, "num_heads": 12, "hidden_dim": 768, "mlp_dim": 3072}
_MODELS = {
    "mit_b1": _mit((2, 2, 2, 2), "mit_b1_ade20k_512"),
    "mit_b2": _mit((3, 4, 6, 3), "mit_b2_ade20k_512"),
    "deit_small": _HubModel(
        "DeiTBackbone",
        {"patch_size": 16, **_SMALL},
        multiple=16,
        num_extra_tokens=2,
        presets={"imagenet": "deit_small_distilled_patch16_224_imagenet"},
        pretrained_side=224,
    ),
    "vit_base": _HubModel(
        "ViTBackbone",
        {"patch_size": 16, **_BASE},
        multiple=16,
        num_extra_tokens=1,
        presets={"imagenet": "vit_base_patch16_224_imagenet"},
        pretrained_side=224,
        pixels=_MINUS_ONE_TO_ONE,
    ),
    "dinov2_small": _HubModel(
        "DINOV2Backbone",
        {"patch_size": 14, **_SMALL},
        multiple=14,
        num_extra_tokens=1,
        presets={"lvd142m": "dinov2_small"},
        is_square=True,
    ),
}


def _register(name):
    @register(name, pretrained=_MODELS[name].presets)
    def build(input_shape: InputShape, weights: str | None = None) -> keras.Model:
        model = _MODELS[name]
        _check_size(name, model, input_shape, weights)
        images, x = rgb_input(input_shape, minimum=model.multiple)
        x = PixelNormalization(**model.pixels, name="pixels")(x)
        network = _network(name, model, (*input_shape[:2], 3), weights)
        x = network({"images": x} if isinstance(network.input, dict) else x)
        if model.num_extra_tokens is not None:
            x = keras.layers.Cropping1D((model.num_extra_tokens, 0), name="patch_tokens")(x)
        return keras.Model(images, x, name=name)


def _network(name, model, image_shape, weights):
    try:
        import keras_hub
    except ImportError as error:
        raise ImportError(
            f"Backbone {name!r} needs keras-hub: {to_install('hub')} ({error})."
        ) from error
    kind = getattr(keras_hub.models, model.function)
    if weights is None:
        return kind(image_shape=image_shape, **model.arguments)
    return kind.from_preset(model.presets[weights], image_shape=image_shape)


def _check_size(name, model, input_shape, weights):
    size = input_shape[:2]
    if any(extent is None or extent % model.multiple for extent in size):
        raise ValueError(
            f"Backbone {name!r} takes images whose sides are known multiples of {model.multiple}, "
            f"received input_shape={input_shape}."
        )
    if model.is_square and size[0] != size[1]:
        raise ValueError(
            f"Backbone {name!r} takes square images, received input_shape={input_shape}."
        )
    side = model.pretrained_side
    if weights is not None and side is not None and size != (side, side):
        raise ValueError(
            f"The weights {weights!r} of backbone {name!r} are for images of {side} x {side}, "
            f"received input_shape={input_shape}."
        )


for _name in _MODELS:
    _register(_name)
