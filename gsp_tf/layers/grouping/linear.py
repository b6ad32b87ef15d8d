"""Linear grouping, the plainest baseline of A-grouping (Xu et al., TPAMI 2022)."""

import keras
from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.layers.grouping.base import LocalFeatureGrouping, average


@keras.saving.register_keras_serializable("gsp_tf")
class LinearGrouping(LocalFeatureGrouping):
    """Global average pooling and one linear map per group: `V_g mean_j x_j`.

    This is M-grouping, the multi-linear module of "Towards Improved and Interpretable Deep Metric
    Learning via Attentive Grouping" (section 4.3). Every group weighs all positions equally, so the
    attention maps are uniform.

    Args:
        num_groups: P, number of groups.
        group_dim: dimension of each group.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Weight: `kernel (C, P * group_dim)`, group by group.

    Input: a map or a set. Output: `(B, P, group_dim)`.

    Raises:
        ValueError: if a size is not an integer of at least 1.

    Example:
        >>> import numpy as np
        >>> LinearGrouping(num_groups=3, group_dim=8)(np.ones((2, 5, 5, 16), "float32")).shape
        TensorShape([2, 3, 8])
    """

    def build(self, input_shape):
        self.kernel = self.add_kernel(
            "kernel", (self.num_channels(input_shape), self.num_groups * self.group_dim)
        )

    def pool_groups(self, features: Tensor, mask: Tensor | None) -> Tensor:
        groups = ops.matmul(average(features, mask), self.kernel)
        return ops.reshape(groups, (-1, self.num_groups, self.group_dim))
