"""Seeds: those that NumPy, Keras or scikit-learn would not take are refused in one sentence."""

import numpy as np
import pytest

from gsp_tf import data, evaluation, layers, losses, training, visual

VECTORS = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
LABELS = np.arange(12) // 3
PAIRS = evaluation.PairDistances(VECTORS, LABELS)
IMAGES = data.ArrayImages(np.zeros((12, 4, 4, 1), "uint8"), LABELS, list("abcd"))
SEEDED = {
    "calibrate_thresholds": lambda s: evaluation.calibrate_thresholds(PAIRS, 0.5, seed=s),
    "clustering_metrics": lambda s: evaluation.clustering_metrics(VECTORS, LABELS, seed=s),
    "conformal_threshold": lambda s: evaluation.conformal_threshold(VECTORS, LABELS, 0.5, seed=s),
    "grouped_recall": lambda s: evaluation.grouped_recall(VECTORS, LABELS, 2, seed=s),
    "opis": lambda s: evaluation.opis(PAIRS).estimate(seed=s),
    "open_set": lambda s: evaluation.open_set_identification(
        VECTORS, LABELS, VECTORS[:6] + 1, LABELS[:6], [0.5], seed=s
    ),
    "PairDistances": lambda s: evaluation.PairDistances(VECTORS, LABELS, seed=s),
    "verification_metrics": lambda s: evaluation.verification_metrics(PAIRS, [0.5], seed=s),
    "split_images": lambda s: data.split_images(IMAGES, (0.4, 0.3, 0.3), seed=s),
    "ClassBalancedSampler": lambda s: data.ClassBalancedSampler(LABELS, 2, 2, seed=s),
    "WeightedSampler": lambda s: data.WeightedSampler(np.ones(12), 4, seed=s),
    "training_dataset": lambda s: data.training_dataset(IMAGES, 4, 2, 2, seed=s),
    "adapt": lambda s: layers.GeneralizedSumPooling(2).adapt(VECTORS[None], seed=s),
    "NetVLAD": lambda s: layers.NetVLAD(2).adapt(VECTORS[None], seed=s),
    "ProxyPool": lambda s: training.ProxyPool(LABELS, lambda indices: [], seed=s),
    "DistanceWeightedMiner": lambda s: losses.DistanceWeightedMiner(seed=s),
    "HIERLoss": lambda s: losses.HIERLoss(seed=s),
    "PartialFC": lambda s: losses.PartialFC(losses.ArcFaceLoss(4), 0.5, seed=s),
    "ProxySynthesis": lambda s: losses.ProxySynthesis(losses.ProxyNCALoss(4), seed=s),
    "SimilarityMixup": lambda s: losses.SimilarityMixup(losses.ContrastiveLoss(), seed=s),
    "TripletLoss": lambda s: losses.TripletLoss(seed=s),
    "TripletLoss that draws": lambda s: losses.TripletLoss(triplets_per_anchor=1, seed=s),
    "project": lambda s: visual.project(VECTORS, seed=s),
}


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5])
@pytest.mark.parametrize("call", SEEDED.values(), ids=SEEDED)
def test_a_seed_out_of_range_is_refused(call, seed):
    with pytest.raises(ValueError, match="seed must be an integer between 0 and 4294967295; rec"):
        call(seed)


@pytest.mark.parametrize("call", SEEDED.values(), ids=SEEDED)
def test_the_largest_seed_is_taken_as_an_integer_of_python_or_numpy(call):
    call(2**32 - 1)
    call(np.int64(2**32 - 1))
