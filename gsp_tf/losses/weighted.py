"""What every loss with weights of its own shares."""

import keras


class WeightedLoss(keras.layers.Layer):
    """Base of the losses that learn something for every class: a layer `loss(labels, inputs)`.

    It computes in float32 whatever the global dtype policy is, or in the `dtype` it is given.
    `MetricLearner` trains its weights with the model's.

    Args:
        num_classes: number of classes; labels are 0 to num_classes - 1.
    """

    def __init__(self, num_classes, **kwargs):
        kwargs.setdefault("dtype", "float32")
        super().__init__(**kwargs)
        if num_classes < 1:
            raise ValueError(f"num_classes must be at least 1, received {num_classes}.")
        self.num_classes = num_classes

    def compute_output_shape(self, labels_shape, embeddings_shape):
        return ()

    def get_config(self):
        return {**super().get_config(), "num_classes": self.num_classes}
