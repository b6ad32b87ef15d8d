"""A loss of classes and a loss of views for images of which some have no class."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_at_least, check_sizes
from gsp_tf._backend import checked
from gsp_tf._typing import Tensor
from gsp_tf.losses._inputs import label_tensor, nan_unless
from gsp_tf.losses._layer import LossLayer, seeds_of


class SemiSupervisedLoss(LossLayer):
    """A loss over the images with a class, plus a weighted loss over two views of every image.

    `ℓ(labelled images) + w ℓ_views(all images)`: "S4L: Self-Supervised Semi-Supervised Learning"
    (Zhai et al., ICCV 2019), eq. 1, whose self-supervision may here be any loss of two views. Both
    views of a labelled image are samples of its class.

    Args:
        loss: ℓ, any loss of classes.
        view_loss: ℓ_views, such as `NTXentLoss()` (SimCLR) or `VICRegLoss()`: a loss without
            classes of its own, whose labels are the numbers of the images.
        num_labelled: rows of a batch with a class; every batch has as many.
        view_weight: w >= 0.

    Call: `loss(labels, embeddings)` with labels `(B, 2)` as `gsp_tf.data.training_dataset` gives
        them: the class, or -1 for none, and the number of the image, which two rows share.

    Weights: those of the two losses.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import ContrastiveLoss, NTXentLoss
        >>> views = NTXentLoss(1.0)
        >>> loss = SemiSupervisedLoss(ContrastiveLoss(), views, num_labelled=2, view_weight=0.5)
        >>> labels = [[3, 0], [3, 0], [-1, 1], [-1, 1]]
        >>> round(float(loss(labels, np.repeat(np.eye(2, dtype="float32"), 2, axis=0))), 3)
        0.276
    """

    def __init__(
        self,
        loss: keras.losses.Loss,
        view_loss: keras.losses.Loss,
        num_labelled: int,
        view_weight: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(inner=[loss, view_loss], calls_inner=True, **kwargs)
        if getattr(view_loss, "num_classes", None) is not None:
            raise ValueError(
                "view_loss must do without classes, such as NTXentLoss() or VICRegLoss(), received "
                f"{view_loss!r}."
            )
        check_sizes(num_labelled=num_labelled)
        check_at_least(0, view_weight=view_weight)
        self.loss, self.view_loss = loss, view_loss
        self.num_labelled, self.view_weight = num_labelled, view_weight
        self.normalize = all(getattr(part, "normalize", True) for part in (loss, view_loss))
        self.seed_generators_of_losses = seeds_of([loss, view_loss])

    def __call__(self, labels: Tensor, embeddings: Tensor, **kwargs: Any) -> Tensor:
        labels = label_tensor(labels)
        if len(labels.shape) != 2 or labels.shape[1] != 2:
            raise ValueError(
                "SemiSupervisedLoss takes labels (B, 2), the class or -1 and the number of the "
                f"image, received shape {tuple(labels.shape)}."
            )
        return super().__call__(labels[:, 1], embeddings, classes=labels[:, 0], **kwargs)

    def call(self, labels, embeddings, classes):
        has_class = classes >= 0
        count = ops.sum(ops.cast(has_class, "int32"))
        is_met = count == self.num_labelled
        message = f"SemiSupervisedLoss expects {self.num_labelled} rows with a class, received"
        classes = checked(classes, [(is_met, message, count)])
        rows = ops.argsort(ops.cast(ops.logical_not(has_class), "int32"))[: self.num_labelled]
        own = ops.take(classes, rows), ops.take(embeddings, rows, axis=0)
        total = self.loss(*own) + self.view_weight * self.view_loss(labels, embeddings)
        return nan_unless(is_met, total)
