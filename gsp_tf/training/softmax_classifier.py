"""A linear softmax classifier as a loss, to train a backbone on the classes of its images."""

from typing import Any

import keras
from keras import ops

from gsp_tf._typing import Tensor


@keras.saving.register_keras_serializable("gsp_tf")
class SoftmaxClassifier(keras.layers.Layer, keras.losses.Loss):
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
        ValueError: if `num_classes` is below 1, or a plain model is compiled with it as its loss.

    Example:
        >>> import numpy as np
        >>> classifier = SoftmaxClassifier(num_classes=4)
        >>> loss = classifier(np.array([3]), np.zeros((1, 2), "float32"))
        >>> round(float(loss), 4), classifier.logits(np.ones((5, 2), "float32")).shape
        (1.3863, TensorShape([5, 4]))
    """

    def __init__(self, num_classes: int, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})
        if num_classes < 1:
            raise ValueError(f"num_classes must be at least 1, received {num_classes}.")
        self.num_classes = num_classes

    def __call__(self, labels, features, *sample_weight, **kwargs):
        if sample_weight:  # compile(loss=...) alone passes it
            raise ValueError(
                "SoftmaxClassifier has weights of its own (kernel, bias), which compile(loss=...) "
                "of a plain model neither trains nor saves. Train with "
                "gsp_tf.training.MetricLearner(model, loss), and compile that without a loss."
            )
        return super().__call__(labels, features, **kwargs)

    def build(self, labels_shape, features_shape):
        shape = (features_shape[-1], self.num_classes)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="glorot_uniform")
        self.bias = self.add_weight(name="bias", shape=shape[1:], initializer="zeros")

    def logits(self, features: Tensor) -> Tensor:
        """The logits of the classes.

        Args:
            features: floats `(B, D)`.

        Returns:
            floats `(B, C)`.
        """
        return ops.matmul(ops.cast(features, self.compute_dtype), self.kernel) + self.bias

    def call(self, labels, features):
        labels = ops.reshape(labels, (-1,))
        losses = ops.sparse_categorical_crossentropy(
            labels, self.logits(features), from_logits=True
        )
        return ops.mean(losses)

    def compute_output_shape(self, labels_shape, features_shape):
        return ()

    def get_config(self):
        return {**super().get_config(), "num_classes": self.num_classes}
