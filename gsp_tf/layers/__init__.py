"""Keras layers for embeddings."""

from gsp_tf.layers.coded_residual import CodedResidualTransform
from gsp_tf.layers.coded_residual_branches import CodedResidualBranches
from gsp_tf.layers.dense_branches import DenseBranches
from gsp_tf.layers.frozen_batch_normalization import FrozenBatchNormalization
from gsp_tf.layers.global_local import GlobalLocalEmbedding
from gsp_tf.layers.grouping import AttentiveGrouping, ChannelGrouping, GateGrouping, LinearGrouping
from gsp_tf.layers.normalization import L2Normalization, LipschitzNormalization
from gsp_tf.layers.pixel_normalization import PixelNormalization
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
    NetVLAD,
    OptimalTransportPooling,
    SMKPooling,
    SolarPooling,
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
    "NetVLAD",
    "OptimalTransportPooling",
    "PixelNormalization",
    "SMKPooling",
    "SecondOrderAttention",
    "SolarPooling",
    "WeldonPooling",
]
