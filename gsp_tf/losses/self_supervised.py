"""Pair losses of two views of each image."""

import operator
from typing import Any

from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._pair_loss import PairLoss, check_pair_loss
from gsp_tf.losses._views import TwoViewLoss


class SelfSupervisedLoss(TwoViewLoss):
    """Any pair loss with the two views of an image as a class.

    With `NTXentLoss` this is SimCLR: "A Simple Framework for Contrastive Learning of Visual
    Representations" (Chen et al., ICML 2020).

    Args:
        loss: any pair loss.
        symmetric: compare all views with each other. Otherwise the first views are anchors, and the
            second views are references.

    Call: `loss(labels, embeddings)` with every label twice, or `loss.views(first, second)`.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import NTXentLoss
        >>> loss = SelfSupervisedLoss(NTXentLoss(1.0))
        >>> round(float(loss.views(np.eye(2), np.eye(2))), 3)
        0.551
    """

    def __init__(self, loss: PairLoss, symmetric: bool = True, **kwargs: Any) -> None:
        super().__init__(inner=[loss], **kwargs)
        check_pair_loss(self, loss, takes_relations=False)
        if loss.num_classes is not None:
            raise ValueError(
                "A loss of views must do without classes and class_weights; received a "
                f"{type(loss).__name__} of {loss.num_classes} classes."
            )
        self.loss = loss
        self.symmetric = symmetric
        self.seed_generator = loss.seed_generator

    normalize = property(operator.attrgetter("loss.normalize"))

    def views_loss(self, first: Tensor, second: Tensor) -> Tensor:
        labels = ops.arange(ops.shape(first)[0])
        if self.symmetric:
            return self.loss(ops.concatenate([labels, labels]), ops.concatenate([first, second]))
        return self.loss.pairwise(labels, first, labels, second)
