"""Tiny presets of keras-hub with random weights: a network and its image converter in a folder."""

import keras
import keras_hub
import numpy as np

SCALE, OFFSET = [1 / 50, 1 / 60, 1 / 70], [-2.0, -1.5, -1.0]
_SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16}
_SQUARE = {"image_shape": (32, 32, 3), "patch_size": 8}
_MLP = {"intermediate_dim": 32, **_SIZES, **_SQUARE}
_TEXT = {"vocabulary_size": 9, "embedding_dim": 16, "intermediate_dim": 32} | _SIZES


def _clip(models):
    text = models.CLIPTextEncoder(max_sequence_length=4, **_TEXT)
    return models.CLIPBackbone(models.CLIPVisionEncoder(**_MLP), text, projection_dim=16)


def _siglip(models, side=32):
    text = models.SigLIPTextEncoder(max_sequence_length=4, **_TEXT)
    of_images = {**_MLP, "image_shape": (side, side, 3)}
    return models.SigLIPBackbone(models.SigLIPVisionEncoder(**of_images), text)


NETWORKS = {
    "DINOV2": lambda models: models.DINOV2Backbone(
        num_register_tokens=4, position_embedding_shape=(32, 32, 3), **_MLP
    ),
    "DINOV3": lambda models: models.DINOV3Backbone(num_register_tokens=3, **_MLP),
    "ViT": lambda models: models.ViTBackbone(mlp_dim=32, **_SIZES, **_SQUARE),
    "CLIP": _clip,
    "SigLIP": _siglip,
    "SwinTransformer": lambda models: models.SwinTransformerBackbone(
        (64, 64, 3), patch_size=4, embed_dim=8, depths=(1, 1), num_heads=(1, 1), window_size=4
    ),
    "ResNet": lambda models: models.ResNetBackbone(
        [64], [7], [64, 64], [1, 1], [1, 2], "basic_block", image_shape=(None, None, 3)
    ),
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
    converter(image_size=(32, 32), scale=SCALE, offset=OFFSET).save_to_preset(folder)
    return folder
