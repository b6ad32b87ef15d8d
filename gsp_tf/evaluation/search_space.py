"""The vectors that faiss searches, chosen so that float32 does embeddings no harm."""

from dataclasses import dataclass
from typing import Literal, get_args

import faiss
import numpy as np

from gsp_tf.evaluation.vectors import unit_vectors

Metric = Literal["euclidean", "cosine"]


@dataclass(frozen=True)
class SearchSpace:
    """The vectors and scores of faiss that represent embeddings and their distances.

    Euclidean distances are taken from an origin and in units of a power of two, which changes no
    distance but keeps float32 from cancelling far from zero and its squares from overflowing. The
    cosine distance is 1 - cosine similarity; a zero vector has similarity 0 to everything.

    Args:
        metric: the distance.
        origin: float32 `(D,)`, in units of `scale`.
        scale: the unit, a power of two.

    Raises:
        ValueError: for an unknown metric.

    Example:
        >>> space = SearchSpace.around(np.array([[4.0, 4.0], [5.0, 6.0]], np.float32))
        >>> space.vectors(np.array([[8.0, 4.0]], np.float32))
        array([[1., 0.]], dtype=float32)
        >>> space.distances(np.array([1.0], np.float32))
        array([4.], dtype=float32)
    """

    metric: Metric
    origin: np.ndarray
    scale: float

    def __post_init__(self):
        if self.metric not in get_args(Metric):
            raise ValueError(f"metric must be one of {get_args(Metric)}; received {self.metric!r}.")

    @classmethod
    def around(cls, references: np.ndarray, metric: Metric = "euclidean") -> "SearchSpace":
        """The space for searching float32 references `(N, D)`; the first is its origin.

        The references may be any rows that reach as far as all.
        """
        scale = power_of_two_below(max(references.max(), -references.min()))
        return cls(metric, references[0] / scale, scale)

    @property
    def faiss_metric(self) -> int:
        """The metric of faiss whose scores `distances` takes."""
        return faiss.METRIC_L2 if self.metric == "euclidean" else faiss.METRIC_INNER_PRODUCT

    def vectors(self, embeddings: np.ndarray) -> np.ndarray:
        """The vectors `(N, D)` that represent float32 embeddings `(N, D)`."""
        if self.metric == "euclidean":
            return embeddings / self.scale - self.origin
        return unit_vectors(embeddings).astype(np.float32)

    def distances(self, scores: np.ndarray) -> np.ndarray:
        """The float32 distances that scores of faiss represent, approximate ones too."""
        if self.metric == "cosine":
            return np.maximum(1 - scores, 0)
        return np.sqrt(np.maximum(scores, 0)) * self.scale


def power_of_two_below(value: np.float32) -> np.float32:
    """The largest power of two that is at most `value`, or 1 for 0."""
    return np.ldexp(np.float32(1), np.frexp(value)[1] - 1) if value else np.float32(1)
