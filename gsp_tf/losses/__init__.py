"""Losses of deep metric learning: `loss(labels, embeddings) -> scalar`.

An argument that is not of the kind or the range that its documentation names raises a ValueError.
"""

from gsp_tf._config import register
from gsp_tf.losses._layer import seeds_of
from gsp_tf.losses._log_sums import log1p_sum_exp, log_sum_exp
from gsp_tf.losses._pair_loss import PairLoss, is_pair_loss
from gsp_tf.losses._pairs import Pairs
from gsp_tf.losses._proxy import ProxyLoss
from gsp_tf.losses.ada_face import AdaFaceLoss
from gsp_tf.losses.angular import AngularLoss
from gsp_tf.losses.anti_collapse import AntiCollapseLoss
from gsp_tf.losses.arc_face import ArcFaceLoss
from gsp_tf.losses.barlow_twins import BarlowTwinsLoss
from gsp_tf.losses.binomial_deviance import BinomialDevianceLoss
from gsp_tf.losses.circle import CircleLoss
from gsp_tf.losses.contrastive import ContrastiveLoss
from gsp_tf.losses.cos_face import CosFaceLoss
from gsp_tf.losses.cosine_contrastive import CosineContrastiveLoss
from gsp_tf.losses.cross_batch_memory import CrossBatchMemory
from gsp_tf.losses.distances import (
    Cosine,
    Distance,
    DotProduct,
    Euclidean,
    LpDistance,
    SignalToNoise,
    SquaredEuclidean,
)
from gsp_tf.losses.dynamic_soft_margin import DynamicSoftMarginLoss
from gsp_tf.losses.fast_ap import FastAPLoss
from gsp_tf.losses.generalized_lifted_structure import GeneralizedLiftedStructureLoss
from gsp_tf.losses.grouped import GroupDiversityLoss, GroupedLoss
from gsp_tf.losses.hier import HIERLoss
from gsp_tf.losses.histogram import HistogramLoss
from gsp_tf.losses.hybrid import HybridLoss
from gsp_tf.losses.instance import InstanceLoss
from gsp_tf.losses.label_smoothing import LabelSmoothing
from gsp_tf.losses.large_margin_softmax import LargeMarginSoftmaxLoss
from gsp_tf.losses.lifted_structure import LiftedStructureLoss
from gsp_tf.losses.manifold import ManifoldLoss
from gsp_tf.losses.margin import ClassMarginLoss, MarginLoss
from gsp_tf.losses.matryoshka import MatryoshkaLoss
from gsp_tf.losses.miners import (
    AngularMiner,
    BatchEasyHardMiner,
    BatchHardMiner,
    DistanceWeightedMiner,
    HardNegativeMiner,
    HDCMiner,
    Miner,
    MultiSimilarityMiner,
    NHardMiner,
    PairMarginMiner,
    SemiHardNegativeMiner,
    TripletMarginMiner,
    TripletMiner,
    UniformHistogramMiner,
)
from gsp_tf.losses.multi_level_distance_regularization import MultiLevelDistanceRegularization
from gsp_tf.losses.multi_similarity import MultiSimilarityLoss
from gsp_tf.losses.n_pairs import NPairsLoss
from gsp_tf.losses.nca import NCALoss
from gsp_tf.losses.normalized_softmax import NormalizedSoftmaxLoss
from gsp_tf.losses.nt_xent import NTXentLoss
from gsp_tf.losses.p2s_grad import P2SGradLoss
from gsp_tf.losses.partial_fc import PartialFC
from gsp_tf.losses.pn import PNLoss
from gsp_tf.losses.pnp import PNPLoss
from gsp_tf.losses.potential_field import PotentialFieldLoss
from gsp_tf.losses.proxy_anchor import ProxyAnchorLoss
from gsp_tf.losses.proxy_nca import ProxyNCALoss
from gsp_tf.losses.proxy_pairs import ProxyPairsLoss
from gsp_tf.losses.proxy_synthesis import ProxySynthesis
from gsp_tf.losses.ranked_list import RankedListLoss
from gsp_tf.losses.recall_at_k import RecallAtKLoss, SimilarityMixup
from gsp_tf.losses.reduction import Reduction, weighted_mean
from gsp_tf.losses.regularizers import (
    CenterInvariantRegularizer,
    LpRegularizer,
    RegularFaceRegularizer,
    RowRegularizer,
    SparseCentersRegularizer,
    ZeroMeanRegularizer,
)
from gsp_tf.losses.self_supervised import SelfSupervisedLoss
from gsp_tf.losses.semi_supervised import SemiSupervisedLoss
from gsp_tf.losses.signal_to_noise_contrastive import SignalToNoiseContrastiveLoss
from gsp_tf.losses.sim_siam import SimSiamLoss
from gsp_tf.losses.smooth_ap import SmoothAPLoss
from gsp_tf.losses.soft_nearest_neighbor import SoftNearestNeighborLoss
from gsp_tf.losses.soft_triple import SoftTripleLoss
from gsp_tf.losses.softmax_classifier import SoftmaxClassifier
from gsp_tf.losses.sphere_face import SphereFaceLoss
from gsp_tf.losses.sub_center_arc_face import SubCenterArcFaceLoss
from gsp_tf.losses.supervised_contrastive import SupervisedContrastiveLoss
from gsp_tf.losses.surrogate_precision import SurrogatePrecisionLoss
from gsp_tf.losses.threshold_consistent_margin import ThresholdConsistentMarginLoss
from gsp_tf.losses.triplet import TripletLoss
from gsp_tf.losses.triplet_hard import TripletHardLoss
from gsp_tf.losses.triplet_semi_hard import TripletSemiHardLoss
from gsp_tf.losses.tuplet_margin import IntraPairVarianceLoss, TupletMarginLoss
from gsp_tf.losses.vicreg import VICRegLoss
from gsp_tf.losses.virtual_class import VirtualClass
from gsp_tf.losses.weighted_sum import WeightedSumLoss
from gsp_tf.losses.zero_shot import ZeroShotLoss
from gsp_tf.ops import prototype_diversity, similarity_consistency

register(globals())

__all__ = [
    "AdaFaceLoss",
    "AngularLoss",
    "AngularMiner",
    "AntiCollapseLoss",
    "ArcFaceLoss",
    "BarlowTwinsLoss",
    "BatchEasyHardMiner",
    "BatchHardMiner",
    "BinomialDevianceLoss",
    "CenterInvariantRegularizer",
    "CircleLoss",
    "ClassMarginLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "Cosine",
    "CosineContrastiveLoss",
    "CrossBatchMemory",
    "Distance",
    "DistanceWeightedMiner",
    "DotProduct",
    "DynamicSoftMarginLoss",
    "Euclidean",
    "FastAPLoss",
    "GeneralizedLiftedStructureLoss",
    "GroupDiversityLoss",
    "GroupedLoss",
    "HDCMiner",
    "HIERLoss",
    "HardNegativeMiner",
    "HistogramLoss",
    "HybridLoss",
    "InstanceLoss",
    "IntraPairVarianceLoss",
    "LabelSmoothing",
    "LargeMarginSoftmaxLoss",
    "LiftedStructureLoss",
    "LpDistance",
    "LpRegularizer",
    "ManifoldLoss",
    "MarginLoss",
    "MatryoshkaLoss",
    "Miner",
    "MultiLevelDistanceRegularization",
    "MultiSimilarityLoss",
    "MultiSimilarityMiner",
    "NCALoss",
    "NHardMiner",
    "NPairsLoss",
    "NTXentLoss",
    "NormalizedSoftmaxLoss",
    "P2SGradLoss",
    "PNLoss",
    "PNPLoss",
    "PairLoss",
    "PairMarginMiner",
    "Pairs",
    "PartialFC",
    "PotentialFieldLoss",
    "ProxyAnchorLoss",
    "ProxyLoss",
    "ProxyNCALoss",
    "ProxyPairsLoss",
    "ProxySynthesis",
    "RankedListLoss",
    "RecallAtKLoss",
    "Reduction",
    "RegularFaceRegularizer",
    "RowRegularizer",
    "SelfSupervisedLoss",
    "SemiHardNegativeMiner",
    "SemiSupervisedLoss",
    "SignalToNoise",
    "SignalToNoiseContrastiveLoss",
    "SimSiamLoss",
    "SimilarityMixup",
    "SmoothAPLoss",
    "SoftNearestNeighborLoss",
    "SoftTripleLoss",
    "SoftmaxClassifier",
    "SparseCentersRegularizer",
    "SphereFaceLoss",
    "SquaredEuclidean",
    "SubCenterArcFaceLoss",
    "SupervisedContrastiveLoss",
    "SurrogatePrecisionLoss",
    "ThresholdConsistentMarginLoss",
    "TripletHardLoss",
    "TripletLoss",
    "TripletMarginMiner",
    "TripletMiner",
    "TripletSemiHardLoss",
    "TupletMarginLoss",
    "UniformHistogramMiner",
    "VICRegLoss",
    "VirtualClass",
    "WeightedSumLoss",
    "ZeroMeanRegularizer",
    "ZeroShotLoss",
    "log1p_sum_exp",
    "log_sum_exp",
    "prototype_diversity",
    "similarity_consistency",
    "weighted_mean",
]
