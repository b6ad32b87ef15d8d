"""Keras layers for embeddings."""

from gsp_tf.layers.frozen_batch_normalization import FrozenBatchNormalization
from gsp_tf.layers.grouping import (
    AttentiveGrouping,
    ChannelGrouping,
    GateGrouping,
    LinearGrouping,
)
from gsp_tf.layers.normalization import L2Normalization, LipschitzNormalization
from gsp_tf.layers.pixel_normalization import PixelNormalization
from gsp_tf.layers.pooling import GeneralizedSumPooling

__all__ = [
    "AttentiveGrouping",
    "ChannelGrouping",
    "FrozenBatchNormalization",
    "GateGrouping",
    "GeneralizedSumPooling",
    "L2Normalization",
    "LinearGrouping",
    "LipschitzNormalization",
    "PixelNormalization",
]
