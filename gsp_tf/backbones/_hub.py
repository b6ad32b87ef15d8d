"""Networks from keras-hub, which the extra `[hub]` installs: any image preset, and some by name."""

import math
from dataclasses import dataclass, field

import keras

from gsp_tf._keras import PatchTokens, TrainedPositions
from gsp_tf.backbones._layers import IMAGENET, MINUS_ONE_TO_ONE, rgb_input
from gsp_tf.backbones._presets import (
    build,
    import_hub,
    load_network,
    load_pixels,
    patch_grid,
    require_multiples,
    with_one_grid,
)
from gsp_tf.backbones.registry import InputShape, Tokens, register
from gsp_tf.layers import PixelNormalization


@dataclass(frozen=True)
class _Model:
    """A class of keras_hub.models in one size, whose fresh networks need no preset."""

    function: str
    arguments: dict
    multiple: int  # image sides must be multiples of it
    presets: dict  # presets of keras-hub, by the names of their weights in `create`
    pixels: dict = field(default_factory=lambda: IMAGENET)  # arguments of `PixelNormalization`


def _mit(depths, preset):
    return _Model(
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
        32,
        {"ade20k": preset},
    )


_SMALL = {"num_layers": 12, "num_heads": 6, "hidden_dim": 384, "intermediate_dim": 1536}
_BASE = {"num_layers": 12, "num_heads": 12, "hidden_dim": 768, "mlp_dim": 3072}
_MODELS = {
    "mit_b1": _mit((2, 2, 2, 2), "mit_b1_ade20k_512"),
    "mit_b2": _mit((3, 4, 6, 3), "mit_b2_ade20k_512"),
    "deit_small": _Model(
        "DeiTBackbone",
        {"patch_size": 16, **_SMALL},
        16,
        {"imagenet": "deit_small_distilled_patch16_224_imagenet"},
    ),
    "vit_base": _Model(
        "ViTBackbone",
        {"patch_size": 16, **_BASE},
        16,
        {"imagenet": "vit_base_patch16_224_imagenet"},
        MINUS_ONE_TO_ONE,
    ),
    "dinov2_small": _Model(
        "DINOV2Backbone", {"patch_size": 14, **_SMALL}, 14, {"lvd142m": "dinov2_small"}
    ),
}


def _register(name, model):
    @register(name, pretrained=model.presets, family="keras-hub")
    def of_name(
        input_shape: InputShape, weights: str | None = None, *, tokens: Tokens = "patch"
    ) -> keras.Model:
        kind = getattr(import_hub(name).models, model.function)
        size = input_shape[:2]
        require_multiples(f"Backbone {name!r}", size, (model.multiple, model.multiple))
        if weights is None:
            network = with_one_grid(build(kind, model.arguments, (*size, 3)))
        else:
            network = load_network(model.presets[weights], (*size, 3), load_weights=True)
        return _backbone(name, network, model.pixels, input_shape, tokens)


@register("hub", pretrained=("pretrained",), family="keras-hub")
def _hub(
    input_shape: InputShape,
    weights: str | None = None,
    *,
    preset: str | None = None,
    tokens: Tokens = "patch",
) -> keras.Model:
    """Any image preset of keras-hub."""
    if preset is None:
        raise ValueError(
            "Backbone 'hub' needs a preset, such as dinov2_small; gsp-tf backbones hub lists them."
        )
    pixels = load_pixels(preset)
    network = load_network(preset, (*input_shape[:2], 3), load_weights=weights is not None)
    return _backbone("hub", network, pixels, input_shape, tokens)


def _backbone(name, network, pixels, input_shape, tokens):
    """Model from images to the map or the tokens of a network of keras-hub."""
    grid = patch_grid(network, input_shape[:2])
    local, pooled = _outputs(network, grid)
    is_map = len(local.shape) == 4
    if tokens != "patch" and pooled is None and (is_map or local.shape[1] == math.prod(grid)):
        raise ValueError(
            f"tokens={tokens} needs a network with a class token, and {type(network).__name__} has "
            "none; it must be patch."
        )
    used = {"patch": [local], "class": [pooled], "both": [local, pooled]}[tokens]
    used = [output for output in used if output is not None] or [local]
    if hasattr(network, "position_embedding_shape"):  # of DINOv2
        network = TrainedPositions(network.input, used, name=network.name)
    elif len(used) > 1 or used[0] is not network.output:
        network = keras.Model(network.input, used, name=network.name)
    images, x = rgb_input(input_shape, minimum=1)
    x = PixelNormalization(**pixels, name="pixels")(x)
    x = network(dict.fromkeys(network.input, x) if isinstance(network.input, dict) else x)
    x = keras.tree.flatten(x)
    if is_map:
        return keras.Model(images, x[0], name=name)
    if pooled is not None and tokens != "patch":  # it takes the place of the first token
        x[-1] = keras.layers.Reshape((1, -1))(x[-1])
        x = [keras.layers.Concatenate(axis=1)(x[::-1])] if tokens == "both" else x
    x = keras.layers.Identity(name="network")(x[0])  # so that a recipe can freeze all up to it
    outputs = []
    if tokens != "patch":  # registers, or the token of distillation, follow it
        outputs.append(keras.layers.Cropping1D((0, x.shape[1] - 1), name="class_token")(x))
    if tokens != "class":
        outputs.append(PatchTokens(math.prod(grid), name="patch_tokens")(x))
    return keras.Model(images, outputs if tokens == "both" else outputs[0], name=name)


def _outputs(network, grid):
    """The last map or all tokens of a network, and the vector into which it pools them, if any."""
    outputs = network.outputs
    # A network that gives the maps of all stages ends with the last one.
    last = (
        outputs[0] if len(outputs) == 1 else keras.tree.flatten(network.operations[-1].output)[-1]
    )
    if len(last.shape) == 2:  # SigLIP ends in an attention head, and has no class token
        # keras-hub counts a class token in the shape of its tokens all the same.
        return PatchTokens(math.prod(grid))(network.layers[-1].input), last
    return last, None


for _name, _model in _MODELS.items():
    _register(_name, _model)
