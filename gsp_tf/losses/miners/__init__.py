"""Miners: which pairs a loss is to count, and how often."""

from gsp_tf.losses.miners.distance_weighted import DistanceWeightedMiner
from gsp_tf.losses.miners.hard_negative import HardNegativeMiner
from gsp_tf.losses.miners.miner import Miner
from gsp_tf.losses.miners.multi_similarity import MultiSimilarityMiner
from gsp_tf.losses.miners.semi_hard_negative import SemiHardNegativeMiner

__all__ = [
    "DistanceWeightedMiner",
    "HardNegativeMiner",
    "Miner",
    "MultiSimilarityMiner",
    "SemiHardNegativeMiner",
]
