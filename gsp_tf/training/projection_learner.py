"""One problem of CCP as a Keras model."""

import keras
import numpy as np
from keras import ops

from gsp_tf.training.distribute import divide_by_replicas
from gsp_tf.training.low_rank import is_of_lora
from gsp_tf.training.metric_learner import MetricLearner


@keras.saving.register_keras_serializable("gsp_tf")
class ProjectionLearner(MetricLearner):
    """A `MetricLearner` that keeps its embedder's weights near a fixed point.

    The total loss is that of `MetricLearner` plus `(λ/2) ||θ - θ*||²` over the trainable weights θ
    of the embedder; weights of the losses are left out. This is the projection of eq. 3.2.9 with a
    loss instead of its constraint (Gürbüz, thesis 2022, eq. 3.2.10 with samples, eq. 3.2.11 with
    proxies). The gradient of the added term is λ(θ - θ*); Algorithm 1 prints it with the opposite
    sign. The arguments are those of `MetricLearner`.

    Attributes:
        projection_weight: λ, a non-trainable weight; 0 before `project_from_here`.
        anchors: θ*, non-trainable weights.

    Example:
        >>> import keras, numpy as np
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> embedder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        >>> learner = ProjectionLearner(embedder, ContrastiveLoss())
        >>> learner.project_from_here(projection_weight=0.1)
        >>> learner.distance_moved()
        0.0
    """

    def build(self, input_shape):
        super().build(input_shape)
        self.projection_weight = self.add_weight(
            name="projection_weight", shape=(), initializer="zeros", trainable=False
        )
        self.anchors = [
            self.add_weight(
                name=f"anchor_{i}",
                shape=variable.shape,
                dtype=variable.dtype,
                initializer="zeros",
                trainable=False,
            )
            for i, variable in enumerate(self.embedder.trainable_variables)
        ]

    def save_own_variables(self, store):
        # A saved embedder has no low-rank matrices, so that θ* would be of weights it lacks.
        if not any(is_of_lora(variable) for variable in self.embedder.trainable_variables):
            super().save_own_variables(store)

    def load_own_variables(self, store):
        if store.keys():
            super().load_own_variables(store)

    def project_from_here(self, projection_weight: float):
        """Set θ* to the embedder's current weights and λ to `projection_weight`."""
        for anchor, variable in zip(self.anchors, self.embedder.trainable_variables, strict=True):
            anchor.assign(ops.copy(variable))  # JAX trains in the memory of the variable
        self.projection_weight.assign(projection_weight)

    def distance_moved(self) -> float:
        """The distance ||θ - θ*||."""
        return float(np.sqrt(ops.convert_to_numpy(self._square_distance())))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        total = super().compute_loss(x, y, y_pred, sample_weight, training)
        projection = 0.5 * self.projection_weight * self._square_distance()
        return total + ops.cast(divide_by_replicas(projection), total.dtype)

    def _square_distance(self):
        return sum(
            ops.sum(ops.square(ops.convert_to_tensor(variable) - anchor))
            for anchor, variable in zip(
                self.anchors, self.embedder.trainable_variables, strict=True
            )
        )
