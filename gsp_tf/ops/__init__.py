"""Mathematics without state."""

from gsp_tf.ops.distances import pairwise_distances
from gsp_tf.ops.generalized_mean import generalized_mean
from gsp_tf.ops.k_center import greedy_k_center
from gsp_tf.ops.normalization import l2_normalize, lipschitz_normalize
from gsp_tf.ops.ridge import ridge_regression
from gsp_tf.ops.transport import partial_transport

__all__ = [
    "generalized_mean",
    "greedy_k_center",
    "l2_normalize",
    "lipschitz_normalize",
    "pairwise_distances",
    "partial_transport",
    "ridge_regression",
]
