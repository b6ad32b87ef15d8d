"""Keras layers for embeddings.

The poolings, groupings, transforms and attention take local features as a map `(B, H, W, C)`, or
`(B, C, H, W)` with `data_format="channels_first"`, or as a set `(B, n, C)`. The Keras mask `(B, n)`
of a set leaves features out: they have weight 0 and get no gradient. Any other shape, and an
argument out of the range that its documentation names, raises a ValueError. Sizes are integers of
at least 1.
"""

from gsp_tf._config import register
from gsp_tf.layers._frozen_network import FrozenNetwork
from gsp_tf.layers.batch_losses import add_batch_loss, collected_batch_losses
from gsp_tf.layers.coded_residual import (
    CodedResidualBranches,
    CodedResidualTransform,
    DenseBranches,
)
from gsp_tf.layers.global_local import GlobalLocalEmbedding
from gsp_tf.layers.grouping import (
    AttentiveGrouping,
    ChannelGrouping,
    GateGrouping,
    LinearGrouping,
)
from gsp_tf.layers.normalization import (
    FrozenBatchNormalization,
    L2Normalization,
    LipschitzNormalization,
    PixelNormalization,
)
from gsp_tf.layers.pooling._base import LocalFeaturePooling
from gsp_tf.layers.pooling.average_max import AverageMaxPooling
from gsp_tf.layers.pooling.cbam import CBAMPooling
from gsp_tf.layers.pooling.crow import CrowPooling
from gsp_tf.layers.pooling.delf import DelfPooling
from gsp_tf.layers.pooling.generalized_max import GeneralizedMaxPooling
from gsp_tf.layers.pooling.generalized_mean import GeneralizedMeanPooling
from gsp_tf.layers.pooling.gsop import GSoPPooling
from gsp_tf.layers.pooling.gsp import (
    GeneralizedSumMaxPooling,
    GeneralizedSumMeanPooling,
    GeneralizedSumPooling,
)
from gsp_tf.layers.pooling.net_vlad import NetVLAD
from gsp_tf.layers.pooling.optimal_transport import OptimalTransportPooling
from gsp_tf.layers.pooling.smk import SMKPooling
from gsp_tf.layers.pooling.solar import SolarPooling
from gsp_tf.layers.pooling.weldon import WeldonPooling
from gsp_tf.layers.second_order_attention import SecondOrderAttention

register(globals())

__all__ = [
    "AttentiveGrouping",
    "AverageMaxPooling",
    "CBAMPooling",
    "ChannelGrouping",
    "CodedResidualBranches",
    "CodedResidualTransform",
    "CrowPooling",
    "DelfPooling",
    "DenseBranches",
    "FrozenBatchNormalization",
    "GSoPPooling",
    "GateGrouping",
    "GeneralizedMaxPooling",
    "GeneralizedMeanPooling",
    "GeneralizedSumMaxPooling",
    "GeneralizedSumMeanPooling",
    "GeneralizedSumPooling",
    "GlobalLocalEmbedding",
    "L2Normalization",
    "LinearGrouping",
    "LipschitzNormalization",
    "LocalFeaturePooling",
    "NetVLAD",
    "OptimalTransportPooling",
    "PixelNormalization",
    "SMKPooling",
    "SecondOrderAttention",
    "SolarPooling",
    "WeldonPooling",
    "add_batch_loss",
]
