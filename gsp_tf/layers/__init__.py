"""Keras layers for embeddings."""

from gsp_tf.layers.frozen_batch_normalization import FrozenBatchNormalization
from gsp_tf.layers.normalization import L2Normalization, LipschitzNormalization
from gsp_tf.layers.pixel_normalization import PixelNormalization
from gsp_tf.layers.pooling import (
    AverageMaxPooling,
    CrowPooling,
    GeneralizedMaxPooling,
    GeneralizedMeanPooling,
    GeneralizedSumMaxPooling,
    GeneralizedSumMeanPooling,
    GeneralizedSumPooling,
    NetVLAD,
    OptimalTransportPooling,
    SMKPooling,
    WeldonPooling,
)

__all__ = [
    "AverageMaxPooling",
    "CrowPooling",
    "FrozenBatchNormalization",
    "GeneralizedMaxPooling",
    "GeneralizedMeanPooling",
    "GeneralizedSumMaxPooling",
    "GeneralizedSumMeanPooling",
    "GeneralizedSumPooling",
    "L2Normalization",
    "LipschitzNormalization",
    "NetVLAD",
    "OptimalTransportPooling",
    "PixelNormalization",
    "SMKPooling",
    "WeldonPooling",
]
