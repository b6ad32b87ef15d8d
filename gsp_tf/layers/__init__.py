"""Keras layers for embeddings."""

from gsp_tf.layers.coded_residual import CodedResidualTransform
from gsp_tf.layers.coded_residual_branches import CodedResidualBranches
from gsp_tf.layers.frozen_batch_normalization import FrozenBatchNormalization
from gsp_tf.layers.normalization import L2Normalization, LipschitzNormalization
from gsp_tf.layers.pixel_normalization import PixelNormalization
from gsp_tf.layers.pooling import GeneralizedSumPooling

__all__ = [
    "CodedResidualBranches",
    "CodedResidualTransform",
    "FrozenBatchNormalization",
    "GeneralizedSumPooling",
    "L2Normalization",
    "LipschitzNormalization",
    "PixelNormalization",
]
