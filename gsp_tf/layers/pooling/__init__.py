"""Pooling layers: from local features to one vector per image."""

from gsp_tf.layers.pooling.average_max import AverageMaxPooling
from gsp_tf.layers.pooling.base import LocalFeaturePooling, WeightedPooling
from gsp_tf.layers.pooling.cbam import CBAMPooling
from gsp_tf.layers.pooling.crow import CrowPooling
from gsp_tf.layers.pooling.delf import DelfPooling
from gsp_tf.layers.pooling.generalized_max import GeneralizedMaxPooling
from gsp_tf.layers.pooling.generalized_mean import GeneralizedMeanPooling
from gsp_tf.layers.pooling.gsop import GSoPPooling
from gsp_tf.layers.pooling.gsp import GeneralizedSumPooling
from gsp_tf.layers.pooling.gsp_max import GeneralizedSumMaxPooling
from gsp_tf.layers.pooling.gsp_mean import GeneralizedSumMeanPooling
from gsp_tf.layers.pooling.net_vlad import NetVLAD
from gsp_tf.layers.pooling.optimal_transport import OptimalTransportPooling
from gsp_tf.layers.pooling.prototypes import PrototypePooling
from gsp_tf.layers.pooling.smk import SMKPooling
from gsp_tf.layers.pooling.solar import SolarPooling
from gsp_tf.layers.pooling.weldon import WeldonPooling

__all__ = [
    "AverageMaxPooling",
    "CBAMPooling",
    "CrowPooling",
    "DelfPooling",
    "GSoPPooling",
    "GeneralizedMaxPooling",
    "GeneralizedMeanPooling",
    "GeneralizedSumMaxPooling",
    "GeneralizedSumMeanPooling",
    "GeneralizedSumPooling",
    "LocalFeaturePooling",
    "NetVLAD",
    "OptimalTransportPooling",
    "PrototypePooling",
    "SMKPooling",
    "SolarPooling",
    "WeightedPooling",
    "WeldonPooling",
]
