"""Tiny presets of keras-hub with random weights: a network and its image converter in a folder."""

import keras
import keras_hub
import numpy as np

SCALE, OFFSET = [1 / 50, 1 / 60, 1 / 70], [-2.0, -1.5, -1.0]
_SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16}
_SQUARE = {"image_shape": (32, 32, 3), "patch_size": 8}
_MLP = {"intermediate_dim": 32, **_SIZES, **_SQUARE}
_TEXT = {"vocabulary_size": 9, "embedding_dim": 16, "intermediate_dim": 32} | _SIZES


def _towers(models, name, *options, side=32):
    """A network of two towers: one for images of a side, and one for texts."""
    vision, text, both = (
        getattr(models, f"{name}{part}") for part in ("VisionEncoder", "TextEncoder", "Backbone")
    )
    of_images = {**_MLP, "image_shape": (side, side, 3)}
    return both(vision(**of_images), text(max_sequence_length=4, **_TEXT), *options)


def _efficientnet(models):
    two_stages = {
        "kernel_sizes": [3, 3],
        "num_repeats": [1, 1],
        "input_filters": [32, 16],
        "output_filters": [16, 24],
        "expansion_ratios": [1, 6],
        "strides": [1, 2],
        "squeeze_and_excite_ratios": [0.25, 0.25],
        "block_types": ["v1", "v1"],
    }
    stages = {f"stackwise_{name}": values for name, values in two_stages.items()}
    return models.EfficientNetBackbone(width_coefficient=0.25, depth_coefficient=0.1, **stages)


def _mobilenet(models):
    one_stage = {
        "expansion": [[16]],
        "num_blocks": [1],
        "num_filters": [[16]],
        "kernel_size": [[3]],
        "num_strides": [[2]],
        "se_ratio": [[None]],
        "activation": [["relu"]],
        "padding": [[1]],
    }
    stages = {f"stackwise_{name}": values for name, values in one_stage.items()}
    first = {"depthwise_filters": 8, "depthwise_stride": 2, "depthwise_residual": False}
    last = {"output_num_filters": 16, "last_layer_filter": 16}
    return models.MobileNetBackbone(**first, **stages, **last)


def _mobilenet_v5(models):
    stage_of_three_kinds = {
        "block_types": ["er", "uir", "mqa"],
        "strides": [2, 1, 1],
        "act_layers": ["relu"] * 3,
        "exp_ratios": [2.0] * 3,
        "se_ratios": [0.0] * 3,
        "dw_kernel_sizes": [0, 3, 3],
        "dw_start_kernel_sizes": [0, 3, 0],
        "dw_end_kernel_sizes": [0] * 3,
        "exp_kernel_sizes": [3, 0, 0],
        "pw_kernel_sizes": [1, 0, 0],
        "num_filters": [16] * 3,
        "num_heads": [0, 0, 2],
        "key_dims": [0, 0, 8],
        "value_dims": [0, 0, 8],
        "kv_strides": [0, 0, 1],
        "use_cpe": [False] * 3,
    }
    stages = {f"stackwise_{name}": [values] for name, values in stage_of_three_kinds.items()}
    return models.MobileNetV5Backbone(
        stackwise_num_blocks=[3], num_features=16, msfa_output_resolution=4, **stages
    )


NETWORKS = {
    "DINOV2": lambda models: models.DINOV2Backbone(
        num_register_tokens=4, position_embedding_shape=(32, 32, 3), **_MLP
    ),
    "DINOV3": lambda models: models.DINOV3Backbone(num_register_tokens=3, **_MLP),
    "ViT": lambda models: models.ViTBackbone(mlp_dim=32, **_SIZES, **_SQUARE),
    "CLIP": lambda models: _towers(models, "CLIP", 16),
    "SigLIP": lambda models, side=32: _towers(models, "SigLIP", side=side),
    "SwinTransformer": lambda models: models.SwinTransformerBackbone(
        (64, 64, 3), patch_size=4, embed_dim=8, depths=(1, 1), num_heads=(1, 1), window_size=4
    ),
    "ResNet": lambda models: models.ResNetBackbone(
        [64], [7], [64, 64], [1, 1], [1, 2], "basic_block", image_shape=(None, None, 3)
    ),
    "MetaCLIP2": lambda models: _towers(models, "MetaCLIP2", 16),
    "DeiT": lambda models: models.DeiTBackbone(**_MLP),
    "MiT": lambda models: models.MiTBackbone(
        layerwise_depths=[1, 1],
        num_layers=2,
        hidden_dims=[8, 16],
        layerwise_num_heads=[1, 1],
        layerwise_sr_ratios=[2, 1],
        max_drop_path_rate=0.0,
        layerwise_patch_sizes=[7, 3],
        layerwise_strides=[4, 2],
        image_shape=(32, 32, 3),
    ),
    "EfficientNet": _efficientnet,
    "MobileNet": _mobilenet,
    "MobileNetV5": _mobilenet_v5,
    "DenseNet": lambda models: models.DenseNetBackbone([1, 1], growth_rate=8),
    "HGNetV2": lambda models: models.HGNetV2Backbone(
        depths=[1, 1],
        embedding_size=8,
        hidden_sizes=[16, 16],
        stem_channels=[3, 8, 8],
        hidden_act="relu",
        use_learnable_affine_block=False,
        stackwise_stage_filters=[(8, 8, 16, 1, 1, 3), (16, 8, 16, 1, 1, 3)],
        apply_downsample=[False, True],
        use_lightweight_conv_block=[False, False],
    ),
    "CSPNet": lambda models: models.CSPNetBackbone(
        stem_filters=8,
        stem_kernel_size=3,
        stem_strides=1,
        stackwise_num_filters=[16, 16],
        stackwise_strides=[2, 2],
        stackwise_depth=[1, 1],
        block_type="dark_block",
        stage_type="dark",
        bottle_ratio=[0.5],
        stem_padding="same",
    ),
    "VGG": lambda models: models.VGGBackbone([1, 1], [8, 8]),
    "Xception": lambda models: models.XceptionBackbone([[8, 8], [8, 8, 8]], [True, False]),
}


def write_preset(kind, folder, **options):
    """Write the preset of a kind of network; its weights are those of a fixed seed."""
    keras.utils.set_random_seed(0)
    network = NETWORKS[kind](keras_hub.models, **options)
    rng = np.random.default_rng(0)
    for weight in network.trainable_weights:  # that no fresh zero hides a mistake
        weight.assign(weight + rng.normal(0, 0.1, weight.shape))
    network.save_to_preset(folder)
    converter = getattr(keras_hub.layers, f"{kind}ImageConverter")
    own = (options.get("side", 32),) * 2
    converter(image_size=own, scale=SCALE, offset=OFFSET).save_to_preset(folder)
    return folder
