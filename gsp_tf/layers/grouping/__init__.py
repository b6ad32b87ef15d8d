"""Grouping layers: from local features to several vectors per image (Xu et al., TPAMI 2022)."""

from gsp_tf.layers.grouping.attentive import AttentiveGrouping
from gsp_tf.layers.grouping.base import LocalFeatureGrouping
from gsp_tf.layers.grouping.channel import ChannelGrouping
from gsp_tf.layers.grouping.gate import GateGrouping
from gsp_tf.layers.grouping.linear import LinearGrouping

__all__ = [
    "AttentiveGrouping",
    "ChannelGrouping",
    "GateGrouping",
    "LinearGrouping",
    "LocalFeatureGrouping",
]
