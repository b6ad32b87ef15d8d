"""Mathematics without state."""

from gsp_tf.ops.average_weights import average_weights
from gsp_tf.ops.balanced_transport import balanced_transport
from gsp_tf.ops.distances import pairwise_distances
from gsp_tf.ops.generalized_mean import generalized_mean
from gsp_tf.ops.generalized_sum_pooling import attribute_maps, generalized_sum_pooling
from gsp_tf.ops.k_center import greedy_k_center
from gsp_tf.ops.marked import fold_marked
from gsp_tf.ops.masked_softmax import masked_softmax
from gsp_tf.ops.normalization import l2_normalize, lipschitz_normalize
from gsp_tf.ops.positive_definite import solve_positive_definite
from gsp_tf.ops.precision import at_least_float32
from gsp_tf.ops.ranks import smallest_above, weight_at, weight_below
from gsp_tf.ops.ridge import ridge_regression
from gsp_tf.ops.transport import check_transport, partial_transport

__all__ = [
    "at_least_float32",
    "attribute_maps",
    "average_weights",
    "balanced_transport",
    "check_transport",
    "fold_marked",
    "generalized_mean",
    "generalized_sum_pooling",
    "greedy_k_center",
    "l2_normalize",
    "lipschitz_normalize",
    "masked_softmax",
    "pairwise_distances",
    "partial_transport",
    "ridge_regression",
    "smallest_above",
    "solve_positive_definite",
    "weight_at",
    "weight_below",
]
