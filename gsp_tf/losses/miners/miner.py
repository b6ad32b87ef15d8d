"""What every miner shares."""


class Miner:
    """Base of the miners: a weight for every positive and every negative pair.

    A subclass implements `__call__(pairs) -> (positives, negatives)`, weights `(A, R)` of the shape
    and type of `pairs.positives`, 0 for a pair that is not to count. Losses take them without a
    gradient.

    Example:
        >>> class NoNegatives(Miner):
        ...     def __call__(self, pairs):
        ...         return pairs.positives, 0.0 * pairs.negatives
        >>> import numpy as np
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> float(ContrastiveLoss(miner=NoNegatives())([0, 1], np.ones((2, 3))))
        0.0
    """

    def __call__(self, pairs):
        raise NotImplementedError

    def get_config(self):
        return {}

    @classmethod
    def from_config(cls, config):
        return cls(**config)
