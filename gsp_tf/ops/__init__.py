"""Mathematics without state.

An argument that is not of the shape or the range that its documentation names raises a ValueError.
"""

from gsp_tf.ops.distances import pairwise_distances
from gsp_tf.ops.k_center import greedy_k_center
from gsp_tf.ops.linear_systems import ridge_regression
from gsp_tf.ops.normalization import l2_normalize, lipschitz_normalize
from gsp_tf.ops.pooling import attribute_maps, generalized_sum_pooling
from gsp_tf.ops.regularizers import prototype_diversity, similarity_consistency
from gsp_tf.ops.relations import label_relation
from gsp_tf.ops.set_transport import partial_set_transport
from gsp_tf.ops.transport import partial_transport

__all__ = [
    "generalized_sum_pooling",
    "greedy_k_center",
    "l2_normalize",
    "label_relation",
    "lipschitz_normalize",
    "pairwise_distances",
    "partial_set_transport",
    "partial_transport",
    "prototype_diversity",
    "ridge_regression",
    "similarity_consistency",
]
