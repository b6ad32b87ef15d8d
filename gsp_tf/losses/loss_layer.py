"""What every loss with variables of its own shares."""

import keras

from gsp_tf.losses.inputs import checked, nan_unless

NOT_GIVEN = object()


class LossLayer(keras.layers.Layer, keras.losses.Loss):
    """Base of the losses that hold variables: a layer `loss(labels, embeddings) -> scalar`.

    It computes in float32 whatever the global dtype policy is, or in the `dtype` it is given.
    `MetricLearner` trains and saves its variables with the model's. A subclass implements
    `call(labels, embeddings)`, of labels and embeddings as `gsp_tf.losses.inputs.checked` returns
    them.

    Args:
        around: a loss that this one holds. If it is a layer, its dtype is the default.
        kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Raises:
        ValueError: if the dtype is another than that of the loss it holds.

    Attributes:
        num_classes: labels must be below it; `None` for any label.
        normalize: whether the norm of the embeddings does not matter.
    """

    num_classes = None
    normalize = True

    def __init__(self, around=None, **kwargs):
        held = around.dtype_policy if isinstance(around, LossLayer) else None
        kwargs.setdefault("dtype", held or "float32")
        super().__init__(**kwargs)
        if held not in (None, self.dtype_policy):
            raise ValueError(
                f"{type(self).__name__} must have the dtype of its {type(around).__name__}, "
                f"{held.name}, received {self.dtype_policy.name}. Give both the same dtype."
            )

    def __call__(self, labels, embeddings, sample_weight=NOT_GIVEN, **kwargs):
        """Loss of a batch.

        Args:
            labels: integer tensor `(B,)` or `(B, 1)`.
            embeddings: float tensor `(B, D)`.
            sample_weight: given, and `None`, by `compile(loss=...)` of a plain Keras model alone.
            kwargs: further arguments of `call`, such as `training`.

        Returns:
            scalar.

        Raises:
            ValueError: as `gsp_tf.losses.inputs.checked`, if `sample_weight` is not `None`, or if
                `compile(loss=...)` would leave weights of this loss untrained.
        """
        if isinstance(embeddings, keras.KerasTensor):
            return super().__call__(labels, embeddings, **kwargs)
        if sample_weight is not NOT_GIVEN and sample_weight is not None:
            raise ValueError(f"{type(self).__name__} compares samples and takes no sample_weight.")
        labels, embeddings, is_valid = checked(
            labels, embeddings, self.num_classes, self.normalize, self.compute_dtype
        )
        if sample_weight is not NOT_GIVEN:
            self._refuse_to_stay_untrained(labels.shape, embeddings.shape)
        value = super().__call__(labels, embeddings, **kwargs)
        return nan_unless(is_valid, value)

    def _refuse_to_stay_untrained(self, *shapes):
        """Refuse weights that no optimizer has; this loss is not built, so that it serves later."""
        loss = self
        if not self.built:
            loss = self.from_config(self.get_config())
            loss.build(*shapes)
        if loss.weights:
            names = ", ".join(dict.fromkeys(weight.name for weight in loss.weights))
            raise ValueError(
                f"{type(self).__name__} has weights of its own ({names}), which compile(loss=...) "
                "of a plain model neither trains nor saves. Train with "
                "gsp_tf.training.MetricLearner(model, loss), and compile that without a loss."
            )

    def compute_output_shape(self, *shapes, **named_shapes):
        return ()
