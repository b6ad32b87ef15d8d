"""Hierarchical regulariser in hyperbolic space (Kim, Jeong, Kwak, CVPR 2023)."""

import math
from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_at_least, check_positive, check_sizes, checked_seed
from gsp_tf._numerics import at_least_float32, softmax
from gsp_tf._typing import Tensor
from gsp_tf.losses._layer import LossLayer
from gsp_tf.losses.reduction import weighted_mean
from gsp_tf.ops import l2_normalize, pairwise_distances


class HIERLoss(LossLayer):
    """Arranges samples under learned proxies, the nodes of a hierarchy that no label tells.

    `mean over triplets of [d_i,ij - d_i,ijk + m]_+ + [d_j,ij - d_j,ijk + m]_+ + [d_k,ijk - d_k,ij +
    m]_+`, 0 if both nodes are one, for related samples i, j and an unrelated sample k. d_i,ij is
    the distance of i to the lowest common ancestor of i and j, the proxy that is drawn with
    logits `-max(d_i, d_j) / τ`, by straight-through Gumbel-softmax; that of i, j and k likewise.
    The same term for triplets of proxies is added. "HIER: Metric Learning Beyond Class Labels via
    Hierarchical Regularization" (CVPR 2023), to add to a loss with `WeightedSumLoss`.

    Samples of a class, and otherwise near ones, are related if each is among the `num_neighbors`
    nearest of the other. Embeddings and proxies are shortened to length r and lie in the Poincaré
    ball of curvature c, by the exponential map at 0. With c = 0 they lie on the unit sphere, with
    squared Euclidean distances. As in the authors' program an anchor has two related samples or
    more, here without its scaling of gradients by the metric of the ball.

    The triplets take `(B + num_proxies) * triplets_per_anchor * num_proxies` numbers.

    Args:
        num_proxies: number of proxies.
        margin: m, a distance.
        temperature: τ > 0.
        curvature: c >= 0.
        clip_radius: r > 0.
        num_neighbors: number of nearest neighbours, itself included.
        triplets_per_anchor: number of triplets to draw for each sample and each proxy; 50 in
            the program.
        seed: of the draws.

    Weight: `proxies (num_proxies, D)`.

    Example:
        >>> import numpy as np
        >>> loss = HIERLoss(num_proxies=4, num_neighbors=3, seed=0)
        >>> embeddings = np.random.default_rng(0).normal(size=(8, 2)).astype("float32")
        >>> float(loss(np.arange(8) // 4, embeddings)) >= 0
        True
    """

    unscheduled = ("curvature",)

    def __init__(
        self,
        num_proxies: int = 512,
        margin: float = 0.1,
        temperature: float = 0.1,
        curvature: float = 0.1,
        clip_radius: float = 2.3,
        num_neighbors: int = 20,
        triplets_per_anchor: int = 10,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(temperature=temperature, clip_radius=clip_radius)
        check_at_least(0, curvature=curvature)
        check_sizes(
            num_proxies=num_proxies,
            num_neighbors=num_neighbors,
            triplets_per_anchor=triplets_per_anchor,
        )
        self.num_proxies = num_proxies
        self.margin = margin
        self.temperature = temperature
        self.curvature = curvature
        self.clip_radius = clip_radius
        self.num_neighbors = num_neighbors
        self.triplets_per_anchor = triplets_per_anchor
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(checked_seed(seed))

    def build(self, labels_shape, embeddings_shape):
        deviation = 0.9 * self.clip_radius / math.sqrt(embeddings_shape[-1])
        self.proxies = self.add_weight(
            name="proxies",
            shape=(self.num_proxies, embeddings_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=deviation),
        )

    def call(self, labels, embeddings):
        samples, proxies = (
            self._in_ball(x) for x in (embeddings, ops.convert_to_tensor(self.proxies))
        )
        to_proxies = self.distances(samples, proxies)
        between = self.distances(proxies, proxies)
        same = ops.cast(labels[:, None] == labels[None, :], to_proxies.dtype)
        likeness = ops.exp(-self.distances(samples, samples)) + same
        return self._term(likeness, to_proxies) + self._term(ops.exp(-between), between)

    def distances(self, x: Tensor, y: Tensor) -> Tensor:
        """Distances `(a, b)` of points of the ball, or squared distances if it is flat."""
        if self.curvature == 0:
            return pairwise_distances(x, y, squared=True)
        c = self.curvature
        # Rounding puts points of a strong curvature on the boundary of the ball.
        gaps = [
            ops.maximum(1.0 - c * ops.sum(ops.square(point), axis=1), keras.config.epsilon())
            for point in (x, y)
        ]
        ratios = pairwise_distances(x, y) * ops.rsqrt(gaps[0][:, None] * gaps[1])
        return 2.0 / math.sqrt(c) * ops.arcsinh(math.sqrt(c) * ratios)

    def _in_ball(self, x):
        x = at_least_float32(x)
        units = l2_normalize(x)
        if self.curvature == 0:
            return units
        lengths = ops.minimum(ops.sum(units * x, axis=1, keepdims=True), self.clip_radius)
        root = math.sqrt(self.curvature)
        # The gradient of the map is the identity at 0, where that of unit vectors is 0.
        return ops.where(lengths > 0, units * ops.tanh(root * lengths) / root, x)

    def _term(self, likeness, distances):
        """Mean cost of drawn triplets of rows of `distances (n, num_proxies)`."""
        size = ops.shape(distances)[0]
        is_related, is_unrelated = self.relations(likeness)
        i = ops.repeat(ops.arange(size), self.triplets_per_anchor)
        j, k = (ops.reshape(self._drawn(x), (-1,)) for x in (is_related, is_unrelated))
        shape = 2, ops.shape(i)[0], self.num_proxies
        noise = -ops.log(-ops.log(keras.random.uniform(shape, 1e-7, 1.0, seed=self.seed_generator)))
        costs = self.costs(distances, (i, j, k), ops.cast(noise, distances.dtype))
        num_related = ops.sum(ops.cast(is_related, "int32"), axis=1)
        counted = ops.logical_and(num_related > 1, ops.any(is_unrelated, axis=1))
        return weighted_mean(costs, ops.take(counted, i))

    def relations(self, likeness: Tensor) -> tuple[Tensor, Tensor]:
        """Boolean tensors `(n, n)` of the related and of the unrelated others of each row."""
        likeness = ops.stop_gradient(likeness)
        size = ops.shape(likeness)[0]
        last = ops.maximum(size - self.num_neighbors, 0)
        is_near = likeness >= ops.take(ops.sort(likeness, axis=1), last, axis=1)[:, None]
        others = ops.logical_not(ops.eye(size, dtype="bool"))
        is_related = ops.logical_and(ops.logical_and(is_near, ops.transpose(is_near)), others)
        return is_related, ops.logical_and(ops.logical_not(is_related), others)

    def _drawn(self, mask):
        logits = ops.where(mask, 0.0, -1e9)
        return keras.random.categorical(
            logits, self.triplets_per_anchor, dtype="int32", seed=self.seed_generator
        )

    def costs(
        self, distances: Tensor, triplets: tuple[Tensor, Tensor, Tensor], noise: Tensor
    ) -> Tensor:
        """Cost of each triplet `(i, j, k)`, with Gumbel noise `(2, number, num_proxies)`."""
        of_i, of_j, of_k = (ops.take(distances, index, axis=0) for index in triplets)
        of_pair = ops.maximum(of_i, of_j)
        (pair, pair_node), (triple, triple_node) = (
            _straight_through(-x / self.temperature + gumbel)
            for x, gumbel in ((of_pair, noise[0]), (ops.maximum(of_pair, of_k), noise[1]))
        )
        nearer = [
            ops.sum(x * (pair - triple), axis=1) * sign
            for x, sign in ((of_i, 1.0), (of_j, 1.0), (of_k, -1.0))
        ]
        costs = sum(ops.relu(difference + self.margin) for difference in nearer)
        return ops.where(pair_node != triple_node, costs, 0.0)


def _straight_through(logits):
    """One-hot rows with the gradient of their softmax, and where they are 1."""
    soft, node = softmax(logits), ops.argmax(logits, axis=1)
    hard = ops.one_hot(node, ops.shape(logits)[1], dtype=soft.dtype)
    return soft + ops.stop_gradient(hard - soft), node
