"""What every loss with variables of its own shares."""

import keras


class LossLayer(keras.layers.Layer):
    """Base of the losses that hold variables: a layer `loss(labels, embeddings) -> scalar`.

    It computes in float32 whatever the global dtype policy is, or in the `dtype` it is given.
    `MetricLearner` trains and saves its variables with the model's.

    Args:
        kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    def __init__(self, **kwargs):
        kwargs.setdefault("dtype", "float32")
        super().__init__(**kwargs)

    def compute_output_shape(self, labels_shape, embeddings_shape):
        return ()
