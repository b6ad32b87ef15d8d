"""Mathematics without state."""

from gsp_tf.ops.distances import lp_distances, pairwise_distances, safe_sqrt
from gsp_tf.ops.k_center import greedy_k_center
from gsp_tf.ops.linear_systems import ridge_regression, solve_positive_definite
from gsp_tf.ops.normalization import (
    at_least_float32,
    l2_normalize,
    lipschitz_normalize,
    scaled_back,
    scaled_down,
)
from gsp_tf.ops.pooling import (
    attribute_maps,
    average_weights,
    generalized_mean,
    generalized_sum_pooling,
    masked_softmax,
)
from gsp_tf.ops.regularizers import prototype_diversity, similarity_consistency
from gsp_tf.ops.relations import check_relation, label_relation
from gsp_tf.ops.set_transport import partial_set_transport
from gsp_tf.ops.transport import balanced_transport, check_transport, partial_transport

__all__ = [
    "at_least_float32",
    "attribute_maps",
    "average_weights",
    "balanced_transport",
    "check_relation",
    "check_transport",
    "generalized_mean",
    "generalized_sum_pooling",
    "greedy_k_center",
    "l2_normalize",
    "label_relation",
    "lipschitz_normalize",
    "lp_distances",
    "masked_softmax",
    "pairwise_distances",
    "partial_set_transport",
    "partial_transport",
    "prototype_diversity",
    "ridge_regression",
    "safe_sqrt",
    "scaled_back",
    "scaled_down",
    "similarity_consistency",
    "solve_positive_definite",
]
