"""Distance-weighted sampling (Wu et al., ICCV 2017)."""

import keras
from keras import ops

from gsp_tf.losses.miners.miner import Miner
from gsp_tf.ops import weight_below


@keras.saving.register_keras_serializable("gsp_tf")
class DistanceWeightedMiner(Miner):
    """Draws negatives evenly over their distances, one for each positive pair.

    A negative of an anchor is drawn with probability proportional to `1 / q(max(d, cutoff))`, where
    `q(d) ∝ d^(D-2) (1 - d²/4)^((D-3)/2)` is how often a distance d occurs between points spread
    evenly on the unit sphere of D dimensions; negatives beyond `nonzero_loss_cutoff` are not drawn,
    unless the anchor has no others, then all are equally likely. A negative's weight is how often
    it was drawn. All positives stay. "Sampling Matters in Deep Embedding Learning" (ICCV 2017),
    section 4.

    Args:
        cutoff: smaller distances are taken for this one.
        nonzero_loss_cutoff: distance beyond which a negative costs nothing anyway.
        seed: integer seed of the draws, whose sequence is another one under XLA; `None` for another
            one each time.

    Call: `miner(pairs)`, gives the weights of the positive and of the negative pairs `(A, R)`.

    Raises:
        ValueError: if the cutoffs are not `0 < cutoff < nonzero_loss_cutoff`.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses.pairs import Pairs
        >>> x = np.array([[1, 0, 0], [0.8, 0.6, 0], [0.6, 0.8, 0], [-1, 0, 0]])
        >>> pairs = Pairs(x, x, np.arange(4) // 2, np.arange(4) // 2, exclude_self=True)
        >>> _, negatives = DistanceWeightedMiner(seed=0)(pairs)
        >>> negatives.numpy()[0].tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    def __init__(
        self, cutoff: float = 0.5, nonzero_loss_cutoff: float = 1.4, seed: int | None = None
    ) -> None:
        if not 0 < cutoff < nonzero_loss_cutoff:
            raise ValueError(
                "The cutoffs must be 0 < cutoff < nonzero_loss_cutoff, received "
                f"cutoff={cutoff} and nonzero_loss_cutoff={nonzero_loss_cutoff}."
            )
        self.cutoff = cutoff
        self.nonzero_loss_cutoff = nonzero_loss_cutoff
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def __call__(self, pairs):
        probabilities = self.probabilities(pairs)
        cumulated = ops.cumsum(probabilities, axis=1)
        draws = keras.random.uniform(
            ops.shape(cumulated), dtype=cumulated.dtype, seed=self.seed_generator
        )
        draws = draws * cumulated[:, -1:]
        # A draw falls to the first negative whose cumulated probability exceeds it.
        drawn_until = weight_below(draws, pairs.positives, cumulated)
        counts = drawn_until - ops.pad(drawn_until[:, :-1], [[0, 0], [1, 0]])
        return pairs.positives, ops.where(probabilities > 0, counts, 0.0)

    def probabilities(self, pairs):
        """Probability of each negative to be drawn for its anchor.

        Args:
            pairs: `Pairs`.

        Returns:
            tensor `(A, R)` whose rows sum to 1, or to 0 where the anchor has no negative.
        """
        dim = float(pairs.anchors.shape[-1])
        distances = ops.clip(pairs.distances, self.cutoff, self.nonzero_loss_cutoff)
        inside = 1.0 - 0.25 * ops.square(ops.minimum(distances, 1.99))
        log_weights = (2.0 - dim) * ops.log(distances) - 0.5 * (dim - 3.0) * ops.log(inside)
        near = pairs.negatives * ops.cast(
            pairs.distances < self.nonzero_loss_cutoff, pairs.negatives.dtype
        )
        lowest = ops.min(log_weights, axis=1, keepdims=True)
        largest = ops.max(ops.where(near > 0, log_weights, lowest), axis=1, keepdims=True)
        weights = near * ops.exp(ops.minimum(log_weights - largest, 0.0))
        some_near = ops.any(near > 0, axis=1, keepdims=True)
        weights = ops.where(some_near, weights, pairs.negatives)
        total = ops.sum(weights, axis=1, keepdims=True)
        return weights / ops.where(total > 0, total, 1.0)

    def get_config(self):
        return {
            "cutoff": self.cutoff,
            "nonzero_loss_cutoff": self.nonzero_loss_cutoff,
            "seed": self.seed,
        }
