"""Base of the losses that compare two views of each image."""

from keras import ops

from gsp_tf._backend import checked
from gsp_tf._typing import Tensor
from gsp_tf.losses._inputs import nan_unless
from gsp_tf.losses._layer import LossLayer


class TwoViewLoss(LossLayer):
    """Base of the losses of two views of each image; a batch holds every label exactly twice."""

    def views(self, first: Tensor, second: Tensor) -> Tensor:
        """Scalar loss of two tensors `(B, D)`, whose rows are views of the same images."""
        labels = ops.arange(ops.shape(first)[0])
        return self(ops.concatenate([labels, labels]), ops.concatenate([first, second]))

    def call(self, labels, embeddings, training=True):
        order = ops.argsort(labels)  # the earlier row of a label is its first view
        half = ops.shape(labels)[0] // 2
        pairs = ops.reshape(order[: 2 * half], (half, 2))
        numbers = ops.take(labels, pairs)
        is_met = ops.logical_and(
            ops.all(numbers[:, 0] == numbers[:, 1]),
            ops.logical_and(
                ops.all(numbers[1:, 0] != numbers[:-1, 0]), 2 * half == ops.shape(labels)[0]
            ),
        )
        message = f"{type(self).__name__} needs two views of each image, that is every label twice"
        pairs = checked(pairs, [(is_met, message + "; number of labels:", ops.size(labels))])
        first, second = (ops.take(embeddings, pairs[:, view], axis=0) for view in (0, 1))
        return nan_unless(is_met, self.views_loss(first, second))

    def views_loss(self, first: Tensor, second: Tensor) -> Tensor:
        """Scalar loss of the first and the second views `(B, D)`."""
        raise NotImplementedError
