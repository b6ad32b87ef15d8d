"""Names in recipes and commands; classes and loaders are imported when they are needed."""

import difflib
import importlib
from typing import Literal, TypeAlias

NAMES = {
    "data": {
        "glyphs": "gsp_tf.data:load_glyphs",
        "folder": "gsp_tf.data:load_folder",
        "manifest": "gsp_tf.data:load_manifest",
        "cars196": "gsp_tf.data:load_cars196",
        "cifar10": "gsp_tf.data:load_cifar10",
        "cifar100": "gsp_tf.data:load_cifar100",
        "cifar_collage": "gsp_tf.data:load_cifar_collage",
        "cub200": "gsp_tf.data:load_cub200",
        "in_shop": "gsp_tf.data:load_in_shop",
        "mnist": "gsp_tf.data:load_mnist",
        "omniglot": "gsp_tf.data:load_omniglot",
        "sop": "gsp_tf.data:load_sop",
    },
    "head": {
        "attentive_grouping": "gsp_tf.layers:AttentiveGrouping",
        "channel_grouping": "gsp_tf.layers:ChannelGrouping",
        "coded_residual": "gsp_tf.layers:CodedResidualBranches",
        "dense_branches": "gsp_tf.layers:DenseBranches",
        "gate_grouping": "gsp_tf.layers:GateGrouping",
        "global_local": "gsp_tf.layers:GlobalLocalEmbedding",
        "linear_grouping": "gsp_tf.layers:LinearGrouping",
    },
    "pooling": {
        "average_max": "gsp_tf.layers:AverageMaxPooling",
        "cbam": "gsp_tf.layers:CBAMPooling",
        "crow": "gsp_tf.layers:CrowPooling",
        "delf": "gsp_tf.layers:DelfPooling",
        "gap": "keras.layers:GlobalAveragePooling2D",
        "generalized_max": "gsp_tf.layers:GeneralizedMaxPooling",
        "generalized_mean": "gsp_tf.layers:GeneralizedMeanPooling",
        "gsop": "gsp_tf.layers:GSoPPooling",
        "gsp": "gsp_tf.layers:GeneralizedSumPooling",
        "gsp_max": "gsp_tf.layers:GeneralizedSumMaxPooling",
        "gsp_mean": "gsp_tf.layers:GeneralizedSumMeanPooling",
        "max": "keras.layers:GlobalMaxPooling2D",
        "net_vlad": "gsp_tf.layers:NetVLAD",
        "optimal_transport": "gsp_tf.layers:OptimalTransportPooling",
        "smk": "gsp_tf.layers:SMKPooling",
        "solar": "gsp_tf.layers:SolarPooling",
        "weldon": "gsp_tf.layers:WeldonPooling",
    },
    "loss": {
        "angular": "gsp_tf.losses:AngularLoss",
        "arc_face": "gsp_tf.losses:ArcFaceLoss",
        "binomial_deviance": "gsp_tf.losses:BinomialDevianceLoss",
        "circle": "gsp_tf.losses:CircleLoss",
        "class_margin": "gsp_tf.losses:ClassMarginLoss",
        "contrastive": "gsp_tf.losses:ContrastiveLoss",
        "cos_face": "gsp_tf.losses:CosFaceLoss",
        "cosine_contrastive": "gsp_tf.losses:CosineContrastiveLoss",
        "fast_ap": "gsp_tf.losses:FastAPLoss",
        "hybrid": "gsp_tf.losses:HybridLoss",
        "lifted_structure": "gsp_tf.losses:LiftedStructureLoss",
        "margin": "gsp_tf.losses:MarginLoss",
        "multi_similarity": "gsp_tf.losses:MultiSimilarityLoss",
        "n_pairs": "gsp_tf.losses:NPairsLoss",
        "normalized_softmax": "gsp_tf.losses:NormalizedSoftmaxLoss",
        "proxy_anchor": "gsp_tf.losses:ProxyAnchorLoss",
        "proxy_nca": "gsp_tf.losses:ProxyNCALoss",
        "soft_triple": "gsp_tf.losses:SoftTripleLoss",
        "supervised_contrastive": "gsp_tf.losses:SupervisedContrastiveLoss",
        "triplet": "gsp_tf.losses:TripletLoss",
        "triplet_hard": "gsp_tf.losses:TripletHardLoss",
        "triplet_semi_hard": "gsp_tf.losses:TripletSemiHardLoss",
    },
    "miner": {
        "distance_weighted": "gsp_tf.losses:DistanceWeightedMiner",
        "hard_negative": "gsp_tf.losses:HardNegativeMiner",
        "multi_similarity": "gsp_tf.losses:MultiSimilarityMiner",
        "semi_hard_negative": "gsp_tf.losses:SemiHardNegativeMiner",
    },
    "loss_wrapper": {
        "cross_batch_memory": "gsp_tf.losses:CrossBatchMemory",
        "grouped": "gsp_tf.losses:GroupedLoss",
        "matryoshka": "gsp_tf.losses:MatryoshkaLoss",
        "multi_level_distance_regularization": "gsp_tf.losses:MultiLevelDistanceRegularization",
        "proxy_synthesis": "gsp_tf.losses:ProxySynthesis",
        "virtual_class": "gsp_tf.losses:VirtualClass",
    },
}
"""`module:attribute` by section of a recipe and name."""

Convertible: TypeAlias = Literal[
    "bn_inception", "googlenet", "efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"
]
"""The backbones whose PyTorch weights can be converted."""


def named(section, name):
    """The class or loader with a name in a section; an unknown name raises `ValueError`."""
    known = NAMES[section]
    if name not in known:
        raise ValueError(
            f"{section}.name must be one of {', '.join(known)}, received {name}"
            f"{similar(name, known)}"
        )
    module, attribute = known[name].split(":")
    return getattr(importlib.import_module(module), attribute)


def names_with(section, attribute):
    """The names of a section's classes that have an attribute, separated by commas."""
    return ", ".join(name for name in NAMES[section] if hasattr(named(section, name), attribute))


def similar(name, known):
    """Ends a sentence about an unknown name, with the most similar known one if there is any."""
    found = difflib.get_close_matches(str(name), list(known), 1)
    return f"; did you mean {found[0]}?" if found else "."
