"""Pooling layers: from local features to one vector an image."""

from gsp_tf.layers.pooling.gsp import GeneralizedSumPooling

__all__ = ["GeneralizedSumPooling"]
