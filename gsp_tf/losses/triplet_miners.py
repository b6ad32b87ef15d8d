"""Miners that choose triplets of an anchor, a positive and a negative."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import keras
from keras import ops

from gsp_tf._config import elementary
from gsp_tf._typing import Tensor
from gsp_tf.losses._inputs import check_choice
from gsp_tf.losses._pairs import Pairs, TripletMiner
from gsp_tf.ops import pairwise_distances

Triplets = Literal["all", "hard", "semi_hard", "easy"]


@keras.saving.register_keras_serializable("gsp_tf")
@dataclass(eq=False)
class AngularMiner(TripletMiner):
    """Keeps the triplets whose negative sees the positive pair under a wide angle.

    A triplet stays if `atan(‖x_a - x_p‖ / (2 ‖x_n - c‖)) > α`, with the middle c of anchor and
    positive: the angle of "Deep Metric Learning with Angular Loss" (ICCV 2017), section 3.2. It
    needs the distances between all references, which it takes to be Euclidean.

    Args:
        angle: α, in degrees, between 0 and 90.

    Raises:
        ValueError: if the angle is out of range.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x, labels = np.array([[0.0], [1.0], [2.0], [5.0]]), np.array([0, 0, 1, 2])
        >>> _, negatives = AngularMiner(15.0)(Pairs(x, x, labels, labels, exclude_self=True))
        >>> negatives.numpy()[0].tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    angle: float = 20.0

    def __post_init__(self) -> None:
        if not 0 < self.angle < 90:
            raise ValueError(f"angle must lie between 0 and 90 degrees, received {self.angle}.")

    def chosen(self, pairs: Pairs) -> Callable[[Tensor], Tensor]:
        others = ops.square(pairs.euclidean_distances)
        is_batch = pairs.references is pairs.anchors
        between = others if is_batch else pairwise_distances(pairs.references, squared=True)
        square_tangent = elementary("tan", self.angle * (math.pi / 180.0)) ** 2

        def is_wide(columns):
            own = ops.take_along_axis(others, columns, axis=1)
            to_positive = ops.take(between, columns[:, 0], axis=0)
            to_center = 0.5 * (others + to_positive) - 0.25 * own  # the square of a median
            return own > 4.0 * square_tangent * to_center

        return is_wide


@keras.saving.register_keras_serializable("gsp_tf")
@dataclass(eq=False)
class TripletMarginMiner(TripletMiner):
    """Keeps the triplets that violate a margin, or do not.

    With `v = d_an - d_ap`: "all" triplets that violate the margin m have `v <= m`. The "hard" ones
    of them have `v <= 0`, the "semi_hard" ones `v > 0`. The "easy" triplets have `v > m`. "FaceNet"
    (Schroff, Kalenichenko, Philbin, CVPR 2015), section 3.2, names them.

    Args:
        margin: m, a distance.
        triplets: "all", "hard", "semi_hard" or "easy".

    Raises:
        ValueError: if `triplets` is none of these.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import Pairs
        >>> x, labels = np.array([[0.0], [1.0], [1.5], [5.0]]), np.array([0, 0, 1, 2])
        >>> _, negatives = TripletMarginMiner(0.6)(Pairs(x, x, labels, labels, exclude_self=True))
        >>> negatives.numpy()[0].tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    margin: float = 0.2
    triplets: Triplets = "all"

    def __post_init__(self) -> None:
        check_choice("triplets", self.triplets, Triplets)

    def chosen(self, pairs: Pairs) -> Callable[[Tensor], Tensor]:
        distances = pairs.distances

        def matches(columns):
            lead = distances - ops.take_along_axis(distances, columns, axis=1)
            violates = lead <= self.margin
            if self.triplets == "easy":
                return ops.logical_not(violates)
            if self.triplets == "hard":
                return ops.logical_and(violates, lead <= 0)
            if self.triplets == "semi_hard":
                return ops.logical_and(violates, lead > 0)
            return violates

        return matches
