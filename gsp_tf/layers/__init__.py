"""Keras layers for embeddings."""

from gsp_tf.layers.normalization import L2Normalization, LipschitzNormalization
from gsp_tf.layers.pooling import GeneralizedSumPooling

__all__ = ["GeneralizedSumPooling", "L2Normalization", "LipschitzNormalization"]
