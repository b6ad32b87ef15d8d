"""Margin-based loss with learned boundaries of the classes (Wu et al., ICCV 2017)."""

import keras
from keras import ops

from gsp_tf.losses.margin import MarginLoss, margin_terms
from gsp_tf.losses.pair import flat_labels, nan_unless_finite
from gsp_tf.losses.pairs import Pairs
from gsp_tf.losses.reductions import weighted_mean
from gsp_tf.losses.weighted import WeightedLoss
from gsp_tf.ops.normalization import l2_normalize


@keras.saving.register_keras_serializable("gsp_tf")
class ClassMarginLoss(WeightedLoss):
    """The margin-based loss with a learned boundary β_y for each class.

    `[α + d_ap - β_y]_+ + [α + β_y - d_an]_+ + ν β_y` over all triplets of an anchor of class y, a
    positive and a negative, divided by the number of hinges that are not 0; 0 where there is none.
    "Sampling Matters in Deep Embedding Learning" (ICCV 2017), with its boundaries `β^(class)`, and
    without those of single images. ν pulls the boundaries down, so that fewer negative and more
    positive pairs violate their margin. A-grouping (Xu et al.) takes ν = 0 and a learning rate of
    its own for the boundaries: `with_learning_rate_multipliers(optimizer, {"betas": 5})`.

    Args:
        num_classes: number of classes; labels are 0 to num_classes - 1.
        margin: α, half the width of the band around a boundary.
        beta: what the boundaries start from, a distance.
        nu: ν, weight of the boundaries in the loss, which keeps them from growing.
        normalize: L2-normalise the embeddings first.
        miner: chooses or weighs the pairs, such as `DistanceWeightedMiner()`; `None` takes all.

    Weight: `betas (num_classes,)`.

    Call: `loss(labels, embeddings)`, labels `(B,)` or `(B, 1)`, embeddings `(B, D)`; a scalar.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> import numpy as np
        >>> loss = ClassMarginLoss(num_classes=2)
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], "float32")
        >>> round(float(loss(np.array([0, 0, 1]), embeddings)), 3)
        0.942
    """

    def __init__(
        self, num_classes, margin=0.2, beta=1.2, nu=0.0, normalize=True, miner=None, **kwargs
    ):
        super().__init__(num_classes, **kwargs)
        if not nu >= 0:
            raise ValueError(f"nu must not be negative, received {nu}.")
        self.nu = nu
        self.margin_loss = MarginLoss(margin, beta, normalize, miner)
        self.seed_generator = self.margin_loss.seed_generator

    def build(self, labels_shape, embeddings_shape):
        self.betas = self.add_weight(
            name="betas",
            shape=(self.num_classes,),
            initializer=keras.initializers.Constant(self.margin_loss.beta),
        )

    def call(self, labels, embeddings):
        self.check(labels, embeddings)
        labels = flat_labels(labels)
        anchors = l2_normalize(embeddings) if self.margin_loss.normalize else embeddings
        pairs = self.margin_loss.mined(Pairs(anchors, anchors, labels, labels, exclude_self=True))
        betas = ops.take(self.betas, labels)[:, None]
        terms, triplets = margin_terms(pairs, self.margin_loss.margin, betas)
        counted = ops.where(ops.not_equal(terms, 0), triplets, 0.0)
        total = weighted_mean(terms, counted)
        if self.nu:
            num_triplets = ops.sum(pairs.positives, axis=1) * ops.sum(pairs.negatives, axis=1)
            num_terms = ops.sum(ops.sum(counted, axis=1))
            mean = ops.sum(num_triplets * betas[:, 0]) / ops.where(num_terms > 0, num_terms, 1.0)
            total = total + self.nu * ops.where(num_terms > 0, mean, 0.0)
        return nan_unless_finite(total, anchors)

    def get_config(self):
        return {
            **super().get_config(),
            "margin": self.margin_loss.margin,
            "beta": self.margin_loss.beta,
            "nu": self.nu,
            "normalize": self.margin_loss.normalize,
            "miner": keras.saving.serialize_keras_object(self.margin_loss.miner),
        }
