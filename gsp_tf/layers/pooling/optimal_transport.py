"""Optimal transport pooling (Mialon, Chen, d'Aspremont, Mairal, ICLR 2021)."""

import math
from typing import Any

from keras import ops

from gsp_tf._arguments import check_positive, check_sizes
from gsp_tf._backend import rounded
from gsp_tf._numerics import at_least_float32, softmax
from gsp_tf._typing import Tensor
from gsp_tf.layers._local_features import DataFormat, InitializerLike
from gsp_tf.layers.pooling._base import PrototypePooling
from gsp_tf.ops import l2_normalize, pairwise_distances


class OptimalTransportPooling(PrototypePooling):
    """Averages of the local features that an optimal transport plan moves to each prototype.

    "A Trainable Optimal Transport Embedding for Feature Aggregation and its Relationship to
    Attention" (ICLR 2021), definition 3.2. Each of the n local features f_j has the mass 1/n. The
    smoothed plan π moves all mass to the m prototypes ω_i in equal parts of 1/m, at the costs
    `c_ij = ||ω̂_i - f̂_j||` between L2-normalised vectors. The pooled feature is the concatenation
    of `√m Σ_j π_ij f_j`. The cost, the smoothing and the number of iterations are those of the GSP
    authors' code. Unlike in GSP, every feature is moved and every prototype gets its part.

    Args:
        num_prototypes: m, number of prototypes (the paper's reference).
        entropy_smoothing: ε > 0; a small value stays close to the average in each part, a large one
            is close to an assignment.
        num_iterations: Sinkhorn iterations, at least 1; a large ε needs more to fill equal parts.
        prototypes_initializer: initialiser of the prototypes; `adapt` takes them from data instead.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Weight: `prototypes (m, C)`.

    Input: a map or a set. Output: `(B, m * C)`, prototype by prototype. With a linear map to D / m
    channels before the layer, the embedding has D dimensions (thesis, section 5.3.5, with m = 8 and
    D = 128).

    Example:
        >>> import keras
        >>> features = keras.Input((7, 7, 16))
        >>> OptimalTransportPooling(num_prototypes=4)(features).shape
        (None, 64)
    """

    def __init__(
        self,
        num_prototypes: int = 64,
        entropy_smoothing: float = 2.0,
        num_iterations: int = 10,
        prototypes_initializer: InitializerLike = "glorot_uniform",
        data_format: DataFormat | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_prototypes, prototypes_initializer, data_format, **kwargs)
        check_sizes(num_iterations=num_iterations)
        check_positive(entropy_smoothing=entropy_smoothing)
        self.entropy_smoothing = entropy_smoothing
        self.num_iterations = num_iterations

    def normalize(self, features: Tensor) -> Tensor:
        return l2_normalize(features)

    def pool(self, features: Tensor, average: Tensor) -> Tensor:
        prototypes, vectors = self.normalize(self.prototypes), self.normalize(features)
        cost = pairwise_distances(prototypes, vectors, where=False)  # no near pair takes float64
        plan = _balanced_transport(cost, average, self.entropy_smoothing, self.num_iterations)
        pooled = self.num_prototypes**0.5 * ops.matmul(plan, features)
        return ops.reshape(pooled, (ops.shape(features)[0], -1))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.num_prototypes * self.num_channels(input_shape))


def _balanced_transport(cost, weights, entropy_smoothing, num_iterations):
    """Plan π `(..., m, n)` of all mass q `(..., n)` of features to m prototypes in equal parts."""
    # This is entropy-smoothed transport between two given distributions (Cuturi, NeurIPS 2013):
    # minimise Σ_ij c_ij π_ij + (1/ε) Σ_ij π_ij log π_ij subject to Σ_i π_ij = q_j, Σ_j π_ij = 1/m.
    # The plan is π_ij = q_j softmax_i(x_i - ε c_ij). Each of Sinkhorn's iterations adds the log of
    # (1/m) / Σ_j π_ij to x_i, which stays finite for any ε. The constraint on q holds after any
    # number of iterations, that on 1/m in the limit. The gradient goes through all iterations.
    cost = at_least_float32(cost)
    weights = ops.expand_dims(ops.cast(weights, cost.dtype), -2)
    # A set without features gets some mass, so that its potentials stay finite.
    is_empty = ops.logical_not(ops.any(weights > 0, axis=-1, keepdims=True))
    has_mass = ops.logical_or(weights > 0, is_empty)
    log_mass = ops.log(ops.where(weights > 0, weights, 1.0))
    logits = rounded(-entropy_smoothing * cost)
    potential = ops.zeros_like(logits[..., :1])
    for _ in range(num_iterations):
        log_plan = ops.where(
            has_mass, log_mass + ops.log_softmax(logits + potential, axis=-2), -math.inf
        )
        log_share = ops.logsumexp(log_plan, axis=-1, keepdims=True)
        potential = potential - math.log(cost.shape[-2]) - log_share
    return weights * softmax(logits + potential, axis=-2)
