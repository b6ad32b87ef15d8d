"""Manifold similarity loss (Aziere and Todorovic, CVPR 2019)."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_at_least, check_sizes
from gsp_tf._numerics import solve_positive_definite
from gsp_tf.losses._layer import LossLayer
from gsp_tf.losses._log_sums import log1p_sum_exp
from gsp_tf.losses._proxy import own_class_mask
from gsp_tf.ops import l2_normalize


class ManifoldLoss(LossLayer):
    """Compares samples and learned proxies by random walks over all of them.

    `F = (1 - α) (I - α D^-1/2 S D^-1/2)^-1` with `S_ij = exp(2 [cos(x_i, x_j)]_+)`, 0 on the
    diagonal, over the N samples and K proxies, and D its row sums. The loss is `L_int + λ L_ctx`:
    both are `mean_i log(1 + Σ_{k≠y} exp(v_ik))` over the violations `v_ik = a_ik - a_iy + m` that
    are not negative, with the affinities `a_ik = F_ik` of L_int, and the cosines of rows i and k of
    F in L_ctx. "Ensemble Deep Manifold Similarity Learning Using Hard Proxies" (CVPR 2019).

    Each proxy has one meta-class, a group of classes. Class c has proxy c modulo K; the paper deals
    the classes at random, and trains one such loss for each part of an embedding, as `GroupedLoss`
    does. The solution of N + K equations takes (N + K)^3 operations.

    Args:
        num_proxies: K.
        context_weight: λ >= 0 of L_ctx.
        alpha: α in 0 to 1, how far the walks go.
        margin: m.

    Weight: `proxies (num_proxies, D)`.

    Example:
        >>> loss = ManifoldLoss(num_proxies=2)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
        >>> round(float(loss([0, 1], [[0.6, 0.8], [0.8, 0.6]])), 3)
        1.404
    """

    def __init__(
        self,
        num_proxies: int = 50,
        context_weight: float = 1.0,
        alpha: float = 0.8,
        margin: float = 5e-4,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_sizes(num_proxies=num_proxies)
        check_at_least(0, context_weight=context_weight)
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must lie between 0 and 1, received {alpha}.")
        self.num_proxies = num_proxies
        self.context_weight = context_weight
        self.alpha = alpha
        self.margin = margin

    def build(self, labels_shape, embeddings_shape):
        self.proxies = self.add_weight(
            name="proxies",
            shape=(self.num_proxies, embeddings_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=1.0),
        )

    def call(self, labels, embeddings):
        nodes = l2_normalize(ops.concatenate([embeddings, self.proxies]))
        identity = ops.eye(ops.shape(nodes)[0], dtype=nodes.dtype)
        cosines = ops.relu(ops.matmul(nodes, ops.transpose(nodes)))
        similarities = (1.0 - identity) * ops.exp(2.0 * cosines)
        roots = ops.rsqrt(ops.sum(similarities, axis=1))
        similarities = similarities * roots[:, None] * roots
        walks = solve_positive_definite(identity - self.alpha * similarities, identity)
        walks = (1.0 - self.alpha) * walks
        size = ops.shape(embeddings)[0]
        of_samples, of_proxies = l2_normalize(walks[:size]), l2_normalize(walks[size:])
        contexts = ops.matmul(of_samples, ops.transpose(of_proxies))
        labels = ops.cast(labels % self.num_proxies, "int32")
        return self._loss(labels, walks[:size, size:]) + self.context_weight * self._loss(
            labels, contexts
        )

    def _loss(self, labels, affinities):
        own = ops.take_along_axis(affinities, labels[:, None], axis=1)
        violations = affinities - own + self.margin
        counted = ops.logical_not(own_class_mask(labels, self.num_proxies))
        counted = ops.cast(ops.logical_and(counted, violations >= 0), affinities.dtype)
        return ops.mean(log1p_sum_exp(violations, counted))
