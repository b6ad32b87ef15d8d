"""The section of a recipe about the network, and about which of its weights train."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gsp_tf._numbers import Positive, SizeOrZero
from gsp_tf.recipe._ranges import Section


@dataclass(frozen=True)
class LoRARecipe(Section, path="backbone.lora"):
    """Low-rank adaptation: small matrices train in place of the weights of the backbone.

    The kernel of a layer is `W + alpha / rank * A B`, where W keeps its initial weights and A and B
    train (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022). Nothing else
    of the backbone trains. Saved models hold the sum.

    Args:
        rank: columns of A and rows of B; 0 turns it off.
        alpha: strength of the change; null is rank.
        layers: regular expressions; a layer with one of them in its path is adapted. An empty list
            adapts all dense, einsum, embedding and convolution layers of the backbone. Depthwise
            convolutions have no low-rank form.

    Example:
        >>> LoRARecipe(rank=8).alpha is None
        True
    """

    rank: SizeOrZero = 0
    alpha: Positive | None = None
    layers: list[str] = field(default_factory=list)

    def check(self):
        if not self.rank and self.alpha is not None:
            self.refuse("alpha", "null without a backbone.lora.rank")
        if not self.rank and self.layers:
            self.refuse("layers", "empty without a backbone.lora.rank")


@dataclass(frozen=True)
class BackboneRecipe(Section, path="backbone"):
    """The network from an image to its local features.

    Args:
        name: registered name, such as conv4, resnet20, bn_inception or resnet50; hub is the network
            of backbone.preset. gsp-tf backbones lists all.
        weights: initial weights: the path of a .weights.h5 file, such as gsp-tf convert-weights
            writes; a run folder, or its model.keras, with the same backbone; or the name of weights
            that are downloaded (imagenet for keras.applications, pretrained for hub) or that a
            package holds (imagenet for efficientnet_lite0). null starts from random weights.
        freeze_batch_normalization: keep initial batch normalisation statistics, scales and offsets.
        frozen_to: last layer of the frozen part, such as conv4_block6_out of resnet50. Layers up to
            it keep their weights, with batch normalisation in inference mode; network is all of
            them. null freezes none.
        freeze: regular expressions; the layers of the backbone with one of them in their path keep
            their weights, with batch normalisation in inference mode.
        lora: low-rank adaptation of the layers that are not frozen.
        preset: with backbone.name=hub, an image preset of keras-hub, such as dinov2_small or
            dinov3_vit_small_lvd1689m; an hf://user/model of Hugging Face; or a folder that
            save_to_preset wrote.
        tokens: local features that a vision transformer gives to the pooling: patch, or class for
            the class token alone. both pools the patch tokens, and adds a linear map of the class
            token to the embedding; with embedding.map=null it puts the two side by side.

    Example:
        >>> BackboneRecipe("resnet50", weights="imagenet").name
        'resnet50'
    """

    name: str = "resnet20"
    weights: str | None = None
    freeze_batch_normalization: bool = False
    frozen_to: str | None = None
    freeze: list[str] = field(default_factory=list)
    lora: LoRARecipe = field(default_factory=LoRARecipe)
    preset: str | None = None
    tokens: Literal["patch", "class", "both"] = "patch"

    def check(self):
        if self.preset is not None and self.name != "hub":
            self.refuse("preset", f"null with backbone.name={self.name}; it is for hub")
        if self.preset is None and self.name == "hub":
            self.refuse(
                "preset", "a preset with backbone.name=hub; gsp-tf backbones hub lists them"
            )
        if self.lora.rank and self.frozen_to == "network":
            self.lora.refuse("rank", "0 with backbone.frozen_to=network, which freezes all layers")
        if self.freeze and self.lora.rank:
            accepted = "empty with backbone.lora.rank above 0, which freezes the backbone"
            self.refuse("freeze", accepted)
