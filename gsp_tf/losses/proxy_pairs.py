"""Pair loss between samples and learned proxies."""

from typing import Any

from keras import ops

from gsp_tf._arguments import check_at_least, check_sizes
from gsp_tf._config import is_zero
from gsp_tf._typing import Tensor
from gsp_tf.losses._pair_loss import PairLoss, PairWrapper
from gsp_tf.losses._proxy import ProxyLayer


class ProxyPairsLoss(PairWrapper):
    """Pair loss with the samples as anchors and k learned proxies per class as references.

    `loss(batch, proxies) + batch_weight · loss(batch, batch)`. This is the objective of one problem
    of CCP (Gürbüz, thesis 2022, eq. 3.2.5); `ProjectionLearner` does its projection. The second
    term comes from the authors' code; a `batch_weight` of 0 gives the equation of the thesis.

    Args:
        loss: any pair loss.
        num_classes: number of classes; labels are 0 to num_classes - 1.
        proxies_per_class: k, number of proxies per class.
        batch_weight: weight of the loss within the batch, not negative.

    Weight: `proxies (num_classes * k, D)`, class by class.

    Example:
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> loss = ProxyPairsLoss(ContrastiveLoss(), num_classes=2)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
        >>> float(loss([0, 1], [[1.0, 0.0], [0.0, 1.0]]))
        0.0
    """

    takes_relations = False

    def __init__(
        self,
        loss: PairLoss,
        num_classes: int,
        proxies_per_class: int = 1,
        batch_weight: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(loss, num_classes=num_classes, **kwargs)
        check_sizes(proxies_per_class=proxies_per_class)
        check_at_least(0, batch_weight=batch_weight)
        self.proxies_per_class = proxies_per_class
        self.batch_weight = batch_weight

    build = ProxyLayer.build

    def call(self, labels, embeddings):
        return self.proxies_loss(labels, embeddings, self.proxies)

    def proxies_loss(self, labels: Tensor, embeddings: Tensor, proxies: Tensor) -> Tensor:
        """Loss with other proxies, as in `ProxyLoss`."""
        proxy_labels = ops.repeat(ops.arange(self.num_classes), self.proxies_per_class)
        total = self.loss.pairwise(labels, embeddings, proxy_labels, proxies)
        if not is_zero(self.batch_weight):
            total = total + self.batch_weight * self.loss(labels, embeddings)
        return total
