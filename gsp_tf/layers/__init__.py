"""Keras layers for embeddings."""

from gsp_tf.layers.frozen_batch_normalization import FrozenBatchNormalization
from gsp_tf.layers.global_local import GlobalLocalEmbedding
from gsp_tf.layers.normalization import L2Normalization, LipschitzNormalization
from gsp_tf.layers.pixel_normalization import PixelNormalization
from gsp_tf.layers.pooling import (
    CBAMPooling,
    DelfPooling,
    GeneralizedSumPooling,
    GSoPPooling,
    SolarPooling,
)
from gsp_tf.layers.second_order_attention import SecondOrderAttention

__all__ = [
    "CBAMPooling",
    "DelfPooling",
    "FrozenBatchNormalization",
    "GSoPPooling",
    "GeneralizedSumPooling",
    "GlobalLocalEmbedding",
    "L2Normalization",
    "LipschitzNormalization",
    "PixelNormalization",
    "SecondOrderAttention",
    "SolarPooling",
]
