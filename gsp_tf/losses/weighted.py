"""What every loss that learns something for every class shares."""

from typing import Any

from gsp_tf.losses.loss_layer import LossLayer


class WeightedLoss(LossLayer):
    """Base of the losses that learn something for every class.

    Args:
        num_classes: number of classes; labels are 0 to num_classes - 1.
        kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Raises:
        ValueError: if there is no class.
    """

    def __init__(self, num_classes: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if num_classes < 1:
            raise ValueError(f"num_classes must be at least 1, received {num_classes}.")
        self.num_classes = num_classes

    def get_config(self):
        return {**super().get_config(), "num_classes": self.num_classes}
