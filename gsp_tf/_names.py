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
        "unlabelled": "gsp_tf.data:load_unlabelled",
    },
    "data.augmentation": {
        "auto_contrast": "keras.layers:AutoContrast",
        "brightness": "keras.layers:RandomBrightness",
        "color_degeneration": "keras.layers:RandomColorDegeneration",
        "color_jitter": "keras.layers:RandomColorJitter",
        "contrast": "keras.layers:RandomContrast",
        "elastic_transform": "keras.layers:RandomElasticTransform",
        "equalization": "keras.layers:Equalization",
        "erasing": "keras.layers:RandomErasing",
        "flip": "keras.layers:RandomFlip",
        "gaussian_blur": "keras.layers:RandomGaussianBlur",
        "grayscale": "keras.layers:RandomGrayscale",
        "hue": "keras.layers:RandomHue",
        "invert": "keras.layers:RandomInvert",
        "perspective": "keras.layers:RandomPerspective",
        "posterization": "keras.layers:RandomPosterization",
        "rand_augment": "keras.layers:RandAugment",
        "rotation": "keras.layers:RandomRotation",
        "saturation": "keras.layers:RandomSaturation",
        "sharpness": "keras.layers:RandomSharpness",
        "shear": "keras.layers:RandomShear",
        "solarization": "keras.layers:Solarization",
        "translation": "keras.layers:RandomTranslation",
        "zoom": "keras.layers:RandomZoom",
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
        "ada_face": "gsp_tf.losses:AdaFaceLoss",
        "angular": "gsp_tf.losses:AngularLoss",
        "arc_face": "gsp_tf.losses:ArcFaceLoss",
        "barlow_twins": "gsp_tf.losses:BarlowTwinsLoss",
        "binomial_deviance": "gsp_tf.losses:BinomialDevianceLoss",
        "circle": "gsp_tf.losses:CircleLoss",
        "class_margin": "gsp_tf.losses:ClassMarginLoss",
        "contrastive": "gsp_tf.losses:ContrastiveLoss",
        "cos_face": "gsp_tf.losses:CosFaceLoss",
        "cosine_contrastive": "gsp_tf.losses:CosineContrastiveLoss",
        "dynamic_soft_margin": "gsp_tf.losses:DynamicSoftMarginLoss",
        "fast_ap": "gsp_tf.losses:FastAPLoss",
        "generalized_lifted_structure": "gsp_tf.losses:GeneralizedLiftedStructureLoss",
        "hier": "gsp_tf.losses:HIERLoss",
        "histogram": "gsp_tf.losses:HistogramLoss",
        "hybrid": "gsp_tf.losses:HybridLoss",
        "instance": "gsp_tf.losses:InstanceLoss",
        "intra_pair_variance": "gsp_tf.losses:IntraPairVarianceLoss",
        "large_margin_softmax": "gsp_tf.losses:LargeMarginSoftmaxLoss",
        "lifted_structure": "gsp_tf.losses:LiftedStructureLoss",
        "manifold": "gsp_tf.losses:ManifoldLoss",
        "margin": "gsp_tf.losses:MarginLoss",
        "multi_similarity": "gsp_tf.losses:MultiSimilarityLoss",
        "n_pairs": "gsp_tf.losses:NPairsLoss",
        "nca": "gsp_tf.losses:NCALoss",
        "normalized_softmax": "gsp_tf.losses:NormalizedSoftmaxLoss",
        "nt_xent": "gsp_tf.losses:NTXentLoss",
        "p2s_grad": "gsp_tf.losses:P2SGradLoss",
        "pn": "gsp_tf.losses:PNLoss",
        "pnp": "gsp_tf.losses:PNPLoss",
        "potential_field": "gsp_tf.losses:PotentialFieldLoss",
        "proxy_anchor": "gsp_tf.losses:ProxyAnchorLoss",
        "proxy_nca": "gsp_tf.losses:ProxyNCALoss",
        "ranked_list": "gsp_tf.losses:RankedListLoss",
        "recall_at_k": "gsp_tf.losses:RecallAtKLoss",
        "signal_to_noise_contrastive": "gsp_tf.losses:SignalToNoiseContrastiveLoss",
        "sim_siam": "gsp_tf.losses:SimSiamLoss",
        "smooth_ap": "gsp_tf.losses:SmoothAPLoss",
        "soft_nearest_neighbor": "gsp_tf.losses:SoftNearestNeighborLoss",
        "soft_triple": "gsp_tf.losses:SoftTripleLoss",
        "sphere_face": "gsp_tf.losses:SphereFaceLoss",
        "sub_center_arc_face": "gsp_tf.losses:SubCenterArcFaceLoss",
        "supervised_contrastive": "gsp_tf.losses:SupervisedContrastiveLoss",
        "surrogate_precision": "gsp_tf.losses:SurrogatePrecisionLoss",
        "threshold_consistent_margin": "gsp_tf.losses:ThresholdConsistentMarginLoss",
        "triplet": "gsp_tf.losses:TripletLoss",
        "triplet_hard": "gsp_tf.losses:TripletHardLoss",
        "triplet_semi_hard": "gsp_tf.losses:TripletSemiHardLoss",
        "tuplet_margin": "gsp_tf.losses:TupletMarginLoss",
        "vicreg": "gsp_tf.losses:VICRegLoss",
        "weighted_sum": "gsp_tf.losses:WeightedSumLoss",
    },
    "miner": {
        "angular": "gsp_tf.losses:AngularMiner",
        "batch_easy_hard": "gsp_tf.losses:BatchEasyHardMiner",
        "batch_hard": "gsp_tf.losses:BatchHardMiner",
        "distance_weighted": "gsp_tf.losses:DistanceWeightedMiner",
        "hard_negative": "gsp_tf.losses:HardNegativeMiner",
        "hdc": "gsp_tf.losses:HDCMiner",
        "multi_similarity": "gsp_tf.losses:MultiSimilarityMiner",
        "n_hard": "gsp_tf.losses:NHardMiner",
        "pair_margin": "gsp_tf.losses:PairMarginMiner",
        "semi_hard_negative": "gsp_tf.losses:SemiHardNegativeMiner",
        "triplet_margin": "gsp_tf.losses:TripletMarginMiner",
        "uniform_histogram": "gsp_tf.losses:UniformHistogramMiner",
    },
    "regularizer": {
        "center_invariant": "gsp_tf.losses:CenterInvariantRegularizer",
        "lp": "gsp_tf.losses:LpRegularizer",
        "regular_face": "gsp_tf.losses:RegularFaceRegularizer",
        "sparse_centers": "gsp_tf.losses:SparseCentersRegularizer",
        "zero_mean": "gsp_tf.losses:ZeroMeanRegularizer",
    },
    "distance": {
        "angular": "gsp_tf.losses:Cosine",
        "cosine": "gsp_tf.losses:Cosine",
        "dot_product": "gsp_tf.losses:DotProduct",
        "euclidean": "gsp_tf.losses:Euclidean",
        "lp": "gsp_tf.losses:LpDistance",
        "signal_to_noise": "gsp_tf.losses:SignalToNoise",
        "squared_euclidean": "gsp_tf.losses:SquaredEuclidean",
    },
    "reduction": {
        "mean": "gsp_tf.losses:Reduction",
        "mean_per_anchor": "gsp_tf.losses:Reduction",
        "none": "gsp_tf.losses:Reduction",
        "nonzero_mean": "gsp_tf.losses:Reduction",
        "sum": "gsp_tf.losses:Reduction",
    },
    "loss_wrapper": {
        "anti_collapse": "gsp_tf.losses:AntiCollapseLoss",
        "cross_batch_memory": "gsp_tf.losses:CrossBatchMemory",
        "grouped": "gsp_tf.losses:GroupedLoss",
        "label_smoothing": "gsp_tf.losses:LabelSmoothing",
        "matryoshka": "gsp_tf.losses:MatryoshkaLoss",
        "multi_level_distance_regularization": "gsp_tf.losses:MultiLevelDistanceRegularization",
        "partial_fc": "gsp_tf.losses:PartialFC",
        "proxy_synthesis": "gsp_tf.losses:ProxySynthesis",
        "self_supervised": "gsp_tf.losses:SelfSupervisedLoss",
        "similarity_mixup": "gsp_tf.losses:SimilarityMixup",
        "virtual_class": "gsp_tf.losses:VirtualClass",
    },
    "callbacks": {
        "csv_logger": "keras.callbacks:CSVLogger",
        "early_stopping": "keras.callbacks:EarlyStopping",
        "mlflow": "gsp_tf.training:MlflowTracker",
        "model_checkpoint": "keras.callbacks:ModelCheckpoint",
        "reduce_lr_on_plateau": "keras.callbacks:ReduceLROnPlateau",
        "tensor_board": "keras.callbacks:TensorBoard",
        "wandb": "gsp_tf.training:WandbTracker",
    },
    "optimizer": {
        "adadelta": "keras.optimizers:Adadelta",
        "adafactor": "keras.optimizers:Adafactor",
        "adagrad": "keras.optimizers:Adagrad",
        "adam": "keras.optimizers:Adam",
        "adamax": "keras.optimizers:Adamax",
        "adamw": "keras.optimizers:AdamW",
        "ftrl": "keras.optimizers:Ftrl",
        "lamb": "keras.optimizers:Lamb",
        "lion": "keras.optimizers:Lion",
        "muon": "keras.optimizers:Muon",
        "nadam": "keras.optimizers:Nadam",
        "rmsprop": "keras.optimizers:RMSprop",
        "schedule_free_adamw": "keras.optimizers:ScheduleFreeAdamW",
        "sgd": "keras.optimizers:SGD",
    },
}
NAMES["view_loss"] = NAMES["loss"]
"""`module:attribute` by section of a recipe and name."""

_MIXES = "it mixes images of different classes, and a loss takes one class for each image"
NOT_AUGMENTATIONS = {
    "augmix": "no seed fixes what it draws; take rand_augment, keras.layers.RandAugment",
    "crop": "it changes the size; data.min_crop_area, min_crop_area, crops and resizes",
    "cutmix": _MIXES,
    "mixup": f"{_MIXES}; loss_wrapper.name=similarity_mixup, SimilarityMixup, mixes embeddings",
}
"""Why some image layers of Keras cannot be taken, by their names without underscores."""

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


def flattened(sections, prefix=""):
    """The fields of nested sections by their full names, such as `training.epochs`."""
    flat = {}
    for name, value in sections.items():
        # Names that are free texts, such as patterns of weights, stay within their mapping.
        if isinstance(value, dict) and all(str(key).isidentifier() for key in value):
            flat |= flattened(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def nested(fields):
    """Nested sections of fields that are given by their full names."""
    sections = {}
    for name, value in fields.items():
        *parents, last = name.split(".")
        section = sections
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return sections
