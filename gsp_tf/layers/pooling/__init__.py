"""Pooling layers: from local features to one vector an image."""

from gsp_tf.layers.pooling.cbam import CBAMPooling
from gsp_tf.layers.pooling.delf import DelfPooling
from gsp_tf.layers.pooling.gsop import GSoPPooling
from gsp_tf.layers.pooling.gsp import GeneralizedSumPooling
from gsp_tf.layers.pooling.solar import SolarPooling

__all__ = ["CBAMPooling", "DelfPooling", "GSoPPooling", "GeneralizedSumPooling", "SolarPooling"]
