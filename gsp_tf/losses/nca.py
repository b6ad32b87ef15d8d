"""Neighbourhood components analysis (Goldberger et al., NeurIPS 2004)."""

from collections.abc import Iterable
from typing import Unpack

import keras

from gsp_tf._typing import Tensor
from gsp_tf.losses._pair_loss import PairArguments, PairLoss
from gsp_tf.losses._pairs import Pairs
from gsp_tf.losses.soft_nearest_neighbor import neighbor_terms


@keras.saving.register_keras_serializable("gsp_tf")
class NCALoss(PairLoss):
    """Log-likelihood of drawing a neighbour of one's own class by squared distance (NCA).

    `mean_i -log( Σ_positives exp(-σ d_ij²) / Σ_{j≠i} exp(-σ d_ij²) )` over the anchors that have a
    positive, with Euclidean distances d. "Neighbourhood Components Analysis" (NeurIPS 2004),
    section 2, the form with logarithms, whose distances are those of the network's embeddings. It
    is `SoftNearestNeighborLoss` at a temperature of 1 / σ. pytorch-metric-learning also leaves out
    the anchors whose probability is 0 in float32.

    Args:
        scale: σ > 0.
        kwargs: arguments of `PairLoss`, such as `miner`, `distance` and `reduction`.

    Raises:
        ValueError: if the scale is not positive.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]], "float32")
        >>> round(float(NCALoss()(np.array([0, 0, 1]), embeddings)), 3)
        0.063
    """

    takes_grades = True

    def __init__(
        self,
        scale: float = 1.0,
        **kwargs: Unpack[PairArguments],
    ) -> None:
        super().__init__(**kwargs)
        if not scale > 0:
            raise ValueError(f"scale must be positive, received {scale}.")
        self.scale = scale

    def terms(self, pairs: Pairs) -> Iterable[tuple[Tensor, Tensor]]:
        yield neighbor_terms(-self.scale * pairs.squared_distances, pairs)
