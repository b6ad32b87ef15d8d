"""Seeds: those that NumPy, Keras or scikit-learn would not take are refused in one sentence."""

import numpy as np
import pytest

from gsp_tf import data, evaluation, layers, losses, training, visual

VECTORS = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
LABELS = np.arange(12) // 3
SEEDED = {
    "clustering_metrics": lambda s: evaluation.clustering_metrics(VECTORS, LABELS, seed=s),
    "PairDistances": lambda s: evaluation.PairDistances(VECTORS, LABELS, seed=s),
    "ClassBalancedSampler": lambda s: data.ClassBalancedSampler(LABELS, 2, 2, seed=s),
    "adapt": lambda s: layers.GeneralizedSumPooling(2).adapt(VECTORS[None], seed=s),
    "ProxyPool": lambda s: training.ProxyPool(LABELS, lambda indices: [], seed=s),
    "DistanceWeightedMiner": lambda s: losses.DistanceWeightedMiner(seed=s),
    "PartialFC": lambda s: losses.PartialFC(losses.ArcFaceLoss(4), 0.5, seed=s),
    "TripletLoss that draws": lambda s: losses.TripletLoss(triplets_per_anchor=1, seed=s),
    "project": lambda s: visual.project(VECTORS, seed=s),
}


@pytest.mark.parametrize("call", SEEDED.values(), ids=SEEDED)
def test_a_seed_out_of_range_is_refused_and_the_largest_is_taken(call):
    for seed in (-1, 2**32, 0.5):
        with pytest.raises(ValueError, match="seed must be an integer between 0 and 4294967295; r"):
            call(seed)
    call(2**32 - 1)
    call(np.int64(2**32 - 1))
