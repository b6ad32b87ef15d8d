"""A linear softmax classifier as a loss, to train a backbone on the classes of its images."""

from typing import Any

from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._layer import LossLayer
from gsp_tf.losses._proxy import cross_entropies


class SoftmaxClassifier(LossLayer):
    """Mean cross-entropy of a linear softmax classifier, a loss layer for `MetricLearner`.

    `L = -mean_i log softmax(x_i W + b)_{y_i}`, the classification loss of a network whose pooled
    features are x, as networks are pretrained (He et al., "Deep Residual Learning for Image
    Recognition", CVPR 2016, section 3.3: global average pooling, a fully connected layer and
    softmax).

    Args:
        num_classes: C; labels are 0 to C - 1.

    Call: `classifier(labels (B,), features (B, D)) -> scalar`. Weights: `kernel (D, C)`,
    `bias (C,)`, zeros at first.

    Raises:
        ValueError: if a plain model is compiled with it as its loss.

    Example:
        >>> import numpy as np
        >>> classifier = SoftmaxClassifier(num_classes=4)
        >>> loss = classifier([3], np.zeros((1, 2), "float32"))
        >>> round(float(loss), 4), classifier.logits(np.ones((5, 2), "float32")).shape
        (1.3863, TensorShape([5, 4]))
    """

    normalize = False

    def __init__(self, num_classes: int, **kwargs: Any) -> None:
        super().__init__(num_classes, **kwargs)

    def build(self, labels_shape, features_shape):
        shape = (features_shape[-1], self.num_classes)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="glorot_uniform")
        self.bias = self.add_weight(name="bias", shape=shape[1:], initializer="zeros")

    def logits(self, features: Tensor) -> Tensor:
        """The logits `(B, C)` of features `(B, D)`."""
        return ops.matmul(ops.cast(features, self.compute_dtype), self.kernel) + self.bias

    def call(self, labels, features):
        return ops.mean(cross_entropies(labels, self.logits(features)))
