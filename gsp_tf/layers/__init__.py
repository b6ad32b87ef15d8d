"""Keras layers for embeddings.

The poolings, groupings, transforms and attention take local features as a map `(B, H, W, C)`, or
`(B, C, H, W)` with `data_format="channels_first"`, or as a set `(B, n, C)`. The Keras mask `(B, n)`
of a set leaves features out: they have weight 0 and get no gradient. Any other shape, or a size
that is not an integer of at least 1, raises a ValueError.
"""

from gsp_tf.layers.batch_losses import add_batch_loss, collected_batch_losses
from gsp_tf.layers.coded_residual import CodedResidualTransform
from gsp_tf.layers.coded_residual_branches import CodedResidualBranches
from gsp_tf.layers.dense_branches import DenseBranches
from gsp_tf.layers.frozen_network import FrozenNetwork
from gsp_tf.layers.global_local import GlobalLocalEmbedding
from gsp_tf.layers.grouping import (
    AttentiveGrouping,
    ChannelGrouping,
    GateGrouping,
    LinearGrouping,
    LocalFeatureGrouping,
)
from gsp_tf.layers.local_features import LocalFeatureLayer
from gsp_tf.layers.normalization import (
    FrozenBatchNormalization,
    L2Normalization,
    LipschitzNormalization,
    PixelNormalization,
)
from gsp_tf.layers.patch_tokens import PatchTokens
from gsp_tf.layers.pooling import (
    AverageMaxPooling,
    CBAMPooling,
    CrowPooling,
    DelfPooling,
    GeneralizedMaxPooling,
    GeneralizedMeanPooling,
    GeneralizedSumMaxPooling,
    GeneralizedSumMeanPooling,
    GeneralizedSumPooling,
    GSoPPooling,
    LocalFeaturePooling,
    NetVLAD,
    OptimalTransportPooling,
    PrototypePooling,
    SMKPooling,
    SolarPooling,
    WeightedPooling,
    WeldonPooling,
)
from gsp_tf.layers.second_order_attention import SecondOrderAttention

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
    "FrozenNetwork",
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
    "LocalFeatureGrouping",
    "LocalFeatureLayer",
    "LocalFeaturePooling",
    "NetVLAD",
    "OptimalTransportPooling",
    "PatchTokens",
    "PixelNormalization",
    "PrototypePooling",
    "SMKPooling",
    "SecondOrderAttention",
    "SolarPooling",
    "WeightedPooling",
    "WeldonPooling",
    "add_batch_loss",
    "collected_batch_losses",
]
