"""Losses of deep metric learning: `loss(labels, embeddings) -> scalar`."""

from gsp_tf.losses._pairs import Miner, PairLoss, Pairs, is_pair_loss
from gsp_tf.losses._proxy import ProxyLoss
from gsp_tf.losses._reductions import (
    log1p_sum_exp,
    log_sum_exp,
    mean_of_nonzero,
    weighted_mean,
)
from gsp_tf.losses.angular import AngularLoss
from gsp_tf.losses.arc_face import ArcFaceLoss
from gsp_tf.losses.binomial_deviance import BinomialDevianceLoss
from gsp_tf.losses.circle import CircleLoss
from gsp_tf.losses.class_margin import ClassMarginLoss
from gsp_tf.losses.contrastive import ContrastiveLoss
from gsp_tf.losses.cos_face import CosFaceLoss
from gsp_tf.losses.cosine_contrastive import CosineContrastiveLoss
from gsp_tf.losses.cross_batch_memory import CrossBatchMemory
from gsp_tf.losses.fast_ap import FastAPLoss
from gsp_tf.losses.group_diversity import GroupDiversityLoss
from gsp_tf.losses.grouped import GroupedLoss
from gsp_tf.losses.hybrid import HybridLoss
from gsp_tf.losses.lifted_structure import LiftedStructureLoss
from gsp_tf.losses.margin import MarginLoss
from gsp_tf.losses.matryoshka import MatryoshkaLoss
from gsp_tf.losses.miners import (
    DistanceWeightedMiner,
    HardNegativeMiner,
    MultiSimilarityMiner,
    SemiHardNegativeMiner,
)
from gsp_tf.losses.multi_level_distance_regularization import MultiLevelDistanceRegularization
from gsp_tf.losses.multi_similarity import MultiSimilarityLoss
from gsp_tf.losses.n_pairs import NPairsLoss
from gsp_tf.losses.normalized_softmax import NormalizedSoftmaxLoss
from gsp_tf.losses.proxy_anchor import ProxyAnchorLoss
from gsp_tf.losses.proxy_nca import ProxyNCALoss
from gsp_tf.losses.proxy_pairs import ProxyPairsLoss
from gsp_tf.losses.proxy_synthesis import ProxySynthesis
from gsp_tf.losses.soft_triple import SoftTripleLoss
from gsp_tf.losses.supervised_contrastive import SupervisedContrastiveLoss
from gsp_tf.losses.triplet import TripletLoss
from gsp_tf.losses.triplet_hard import TripletHardLoss
from gsp_tf.losses.triplet_semi_hard import TripletSemiHardLoss
from gsp_tf.losses.virtual_class import VirtualClass
from gsp_tf.losses.zero_shot import ZeroShotLoss
from gsp_tf.ops import prototype_diversity, similarity_consistency

__all__ = [
    "AngularLoss",
    "ArcFaceLoss",
    "BinomialDevianceLoss",
    "CircleLoss",
    "ClassMarginLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "CosineContrastiveLoss",
    "CrossBatchMemory",
    "DistanceWeightedMiner",
    "FastAPLoss",
    "GroupDiversityLoss",
    "GroupedLoss",
    "HardNegativeMiner",
    "HybridLoss",
    "LiftedStructureLoss",
    "MarginLoss",
    "MatryoshkaLoss",
    "Miner",
    "MultiLevelDistanceRegularization",
    "MultiSimilarityLoss",
    "MultiSimilarityMiner",
    "NPairsLoss",
    "NormalizedSoftmaxLoss",
    "PairLoss",
    "Pairs",
    "ProxyAnchorLoss",
    "ProxyLoss",
    "ProxyNCALoss",
    "ProxyPairsLoss",
    "ProxySynthesis",
    "SemiHardNegativeMiner",
    "SoftTripleLoss",
    "SupervisedContrastiveLoss",
    "TripletHardLoss",
    "TripletLoss",
    "TripletSemiHardLoss",
    "VirtualClass",
    "ZeroShotLoss",
    "is_pair_loss",
    "log1p_sum_exp",
    "log_sum_exp",
    "mean_of_nonzero",
    "prototype_diversity",
    "similarity_consistency",
    "weighted_mean",
]
