"""One or two examples of every loss, with arguments that are not the defaults."""

from functools import partial

import keras
import numpy as np
import pytest
from gradients import BACKEND, compiled

from gsp_tf import losses

# Every loss that is a layer, for four classes.
LAYERS = {
    "proxy_anchor": lambda **k: losses.ProxyAnchorLoss(4, **k),
    "proxy_nca": lambda **k: losses.ProxyNCALoss(4, **k),
    "soft_triple": lambda **k: losses.SoftTripleLoss(4, 3, **k),
    "normalized_softmax": lambda **k: losses.NormalizedSoftmaxLoss(4, **k),
    "arc_face": lambda **k: losses.ArcFaceLoss(4, **k),
    "cos_face": lambda **k: losses.CosFaceLoss(4, **k),
    "ada_face": lambda **k: losses.AdaFaceLoss(4, momentum=0.8, **k),
    "anti_collapse": lambda **k: losses.AntiCollapseLoss(losses.ProxyAnchorLoss(4, **k), **k),
    "label_smoothing": lambda **k: losses.LabelSmoothing(
        losses.CosFaceLoss(4, **k), 0.2, (0, 0, 1, 1), **k
    ),
    "manifold": lambda **k: losses.ManifoldLoss(4, **k),
    "potential_field": lambda **k: losses.PotentialFieldLoss(4, 2, 1.5, 0.5, **k),
    "class_margin": lambda **k: losses.ClassMarginLoss(4, 0.3, 1.1, nu=0.01, **k),
    "dynamic_soft_margin": lambda **k: losses.DynamicSoftMarginLoss(-2.2, 20, 0.2, **k),
    "hybrid": lambda **k: losses.HybridLoss(4, **k),
    "large_margin_softmax": lambda **k: losses.LargeMarginSoftmaxLoss(4, 3, **k),
    "p2s_grad": lambda **k: losses.P2SGradLoss(4, **k),
    "sphere_face": lambda **k: losses.SphereFaceLoss(4, **k),
    "proxy_synthesis": lambda **k: losses.ProxySynthesis(losses.ProxyNCALoss(4, **k), seed=3, **k),
    "partial_fc": lambda **k: losses.PartialFC(losses.ArcFaceLoss(4, **k), 0.5, seed=3, **k),
    "virtual_class": lambda **k: losses.VirtualClass(losses.NormalizedSoftmaxLoss(4, **k), **k),
    "memory": lambda **k: losses.CrossBatchMemory(losses.CosineContrastiveLoss(0.2), 40, **k),
    "levels": lambda **k: losses.MultiLevelDistanceRegularization(
        losses.ContrastiveLoss(0, 1.5), **k
    ),
}

# Every pair loss.
PAIR_LOSSES = {
    "angular": partial(losses.AngularLoss, 45.0),
    "binomial_deviance": partial(losses.BinomialDevianceLoss, 3.0, 0.4, 10.0),
    "circle": partial(losses.CircleLoss, 0.25, 20.0),
    "contrastive": partial(losses.ContrastiveLoss, 0.1, 1.2),
    "cosine_contrastive": partial(losses.CosineContrastiveLoss, 0.2),
    "fast_ap": partial(losses.FastAPLoss, 7),
    "generalized_lifted_structure": partial(losses.GeneralizedLiftedStructureLoss, 0.8, 0.1),
    "histogram": partial(losses.HistogramLoss, 9),
    "instance": partial(losses.InstanceLoss, 5.0),
    "intra_pair_variance": partial(losses.IntraPairVarianceLoss, 0.1, 0.2),
    "lifted_structure": partial(losses.LiftedStructureLoss, 0.8),
    "margin": partial(losses.MarginLoss, 0.3, 1.1),
    "multi_similarity": partial(losses.MultiSimilarityLoss, 3.0, 20.0, 0.3),
    "n_pairs": losses.NPairsLoss,
    "nca": partial(losses.NCALoss, 2.0),
    "nt_xent": partial(losses.NTXentLoss, 0.2),
    "pnp": partial(losses.PNPLoss, "Iu", temperature=0.2),
    "pn": partial(losses.PNLoss, 0.5, "easy", "semi_hard", "euclidean"),
    "ranked_list": partial(losses.RankedListLoss, 0.3, 4.0, positive_temperature=2.0),
    "recall_at_k": partial(losses.RecallAtKLoss, (1, 3), 0.2, 0.5),
    "signal_to_noise_contrastive": partial(losses.SignalToNoiseContrastiveLoss, 0.1, 1.5),
    "smooth_ap": partial(losses.SmoothAPLoss, 0.2),
    "soft_nearest_neighbor": partial(losses.SoftNearestNeighborLoss, 0.3, "angular"),
    "supervised_contrastive": partial(losses.SupervisedContrastiveLoss, 0.2),
    "surrogate_precision": partial(losses.SurrogatePrecisionLoss, 3, 0.2, 0.5),
    "threshold_consistent_margin": partial(losses.ThresholdConsistentMarginLoss, 0.8, 0.2),
    "triplet": partial(losses.TripletLoss, 0.5),
    "triplet_hard": partial(losses.TripletHardLoss, 0.6, "angular"),
    "triplet_hard_soft": partial(losses.TripletHardLoss, distance="squared_euclidean", soft=True),
    "triplet_semi_hard": partial(losses.TripletSemiHardLoss, 0.6, "squared_euclidean"),
    "triplet_swap_soft": partial(losses.TripletLoss, 0.5, swap=True, soft=True),
    "tuplet_margin": partial(losses.TupletMarginLoss, 10.0, 9.0),
}

# With one mean over all pairs, which the many negatives of a batch decide.
OVER_PAIRS = {
    "binomial_deviance_over_pairs": partial(
        losses.BinomialDevianceLoss, 3.0, 0.4, 2.0, 5.0, mean_over_pairs=True
    ),
    "contrastive_over_pairs": partial(losses.ContrastiveLoss, 0.1, 1.2, mean_over_pairs=True),
    "margin_over_pairs": partial(losses.MarginLoss, 0.3, 1.1, mean_over_pairs=True),
}
EVERY_PAIR_LOSS = PAIR_LOSSES | OVER_PAIRS

MINERS = {
    "angular": partial(losses.AngularMiner, 20.0),
    "batch_easy_hard": partial(
        losses.BatchEasyHardMiner, positive_range=(0.1, 1.9), negative_range=(0.2, 1.8)
    ),
    "distance_weighted": partial(losses.DistanceWeightedMiner, 0.4, 1.3, seed=5),
    "hard": losses.HardNegativeMiner,
    "hdc": partial(losses.HDCMiner, 0.3),
    "multi_similarity": partial(losses.MultiSimilarityMiner, 0.2),
    "n_hard": partial(losses.NHardMiner, 2, (2, 4)),
    "pair_margin": partial(losses.PairMarginMiner, 0.9, 1.1),
    "semi_hard": losses.SemiHardNegativeMiner,
    "triplet_margin": losses.TripletMarginMiner,
    "uniform_histogram": partial(losses.UniformHistogramMiner, 5),
}


class GivenWeights(losses.Miner):
    """Weighs the pairs as it is told."""

    def __init__(self, positives, negatives):
        self.weights = positives, negatives

    def __call__(self, pairs):
        return pairs.positives * self.weights[0], pairs.negatives * self.weights[1]


def graph_and_xla(names, always, never=()):
    """Parametrize by name and mode; of most names XLA is evidence, because it compiles for long."""
    cases = [(name, "graph") for name in names]
    for name in names:
        if name not in never:
            marks = [] if name in always else [pytest.mark.evidence]
            cases.append(pytest.param(name, "xla", marks=marks))
    return pytest.mark.parametrize(("name", "mode"), cases)


def for_any_size(function, *signature, jit_compile=False, states=()):
    """A compiled function of tensors of some shapes and types; TensorFlow leaves `None` open."""
    if BACKEND != "tensorflow":
        return compiled(function, jit_compile, states)
    import tensorflow as tf

    specs = [tf.TensorSpec(shape, dtype) for shape, dtype in signature]
    return tf.function(function, input_signature=specs, jit_compile=jit_compile, autograph=False)


def pairs_of(x, labels):
    """All pairs of a batch."""
    x, labels = keras.ops.convert_to_tensor(x), keras.ops.convert_to_tensor(labels)
    return losses.Pairs(x, x, labels, labels, exclude_self=True)


def with_weights(loss, *weights, columns=None, seed=0):
    """Build a loss layer for embeddings of some columns, with these weights or random ones."""
    loss.build((None,), (None, weights[0].shape[1] if columns is None else columns))
    rng = np.random.default_rng(seed)
    weights = weights or [rng.normal(size=w.shape) for w in loss.trainable_weights]
    for weight, value in zip(loss.trainable_weights, weights, strict=True):
        weight.assign(value)
    return loss
