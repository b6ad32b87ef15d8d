"""Weighted sum of losses."""

from collections.abc import Sequence
from typing import Any

import keras

from gsp_tf.losses._layer import LossLayer, seeds_of


class WeightedSumLoss(LossLayer):
    """Sum of losses of the same labels and embeddings, each times a weight.

    `Σ_k w_k ℓ_k`. For regularisers such as `ThresholdConsistentMarginLoss` and `HIERLoss`, or to
    train with pairs and proxies at once. In a recipe the terms are names and arguments of losses:
    `{name: weighted_sum, terms: [{name: contrastive}, {name: triplet, margin: 0.2}]}`.

    Args:
        terms: the ℓ_k, losses of this package.
        term_weights: the w_k; `None` is 1 for all.

    Weights: those of the losses.

    Raises:
        ValueError: if there is no loss, or not one weight for each, or if losses that are layers
            have different dtypes.

    Example:
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> loss = WeightedSumLoss([ContrastiveLoss(), ContrastiveLoss()], [1.0, 0.5])
        >>> round(float(loss([0, 1], [[1.0, 0.0], [1.0, 0.0]])), 3)
        0.75
    """

    def __init__(
        self,
        terms: Sequence[keras.losses.Loss],
        term_weights: Sequence[float] | None = None,
        **kwargs: Any,
    ) -> None:
        terms = list(terms)
        if not terms:
            raise ValueError("terms must hold at least one loss, received none.")
        term_weights = (1.0,) * len(terms) if term_weights is None else tuple(term_weights)
        if len(term_weights) != len(terms):
            raise ValueError(
                f"{len(terms)} losses need as many weights, received {len(term_weights)}."
            )
        super().__init__(inner=terms, calls_inner=True, **kwargs)
        self.terms, self.term_weights = terms, term_weights
        self.seed_generators_of_terms = seeds_of(terms)

    @property
    def relation(self):
        """How the losses relate labels: the first relation of label vectors, if there is one."""
        relations = [getattr(term, "relation", "equal") for term in self.terms]
        return next((relation for relation in relations if relation != "equal"), "equal")

    def call(self, labels, embeddings):
        return sum(
            weight * term(labels, embeddings)
            for term, weight in zip(self.terms, self.term_weights, strict=True)
        )
