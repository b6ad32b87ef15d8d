"""What a report needs to know of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gsp_tf.evaluation.checks import checked_embeddings, checked_labels


@dataclass
class RunSummary:
    """One evaluated run.

    Args:
        name: what the run is called in the report.
        metrics: as returned by `retrieval_metrics`, possibly with others.
        history: from name to one value an epoch; empty where nothing was recorded.
        images: uint8 `(N, H, W, 1)` or `(N, H, W, 3)`, the evaluated images.
        labels: integers `(N,)`.
        class_names: sequence or mapping that gives the name of each label.
        embeddings: floats `(N, D)`.
        pooling_weights: None, or non-negative floats `(N, h, w)`, or `(N, h, w, maps)` for several
            maps of each image, such as those of groups.
        correlations: None, or floats `(N, h, w, K)`, the correlations of local features with
            prototypes.
        recipe: the resolved recipe as text.
        projections: the problems of CCP training as `ChanceConstrainedTrainer` writes them down;
            empty for other training.
        notes: what a reader of the results should know, such as an interruption.

    Raises:
        ValueError: if the arrays do not fit together or a label has no name.

    Example:
        >>> RunSummary("gap", {}, {}, np.zeros((2, 8, 8), np.uint8), [0, 0], ["a"], np.eye(2))
        Traceback (most recent call last):
            ...
        ValueError: images must be uint8 (N, H, W, 1) or (N, H, W, 3); received uint8 (2, 8, 8).
    """

    name: str
    metrics: dict[str, float | int]
    history: dict[str, list[float]]
    images: np.ndarray
    labels: np.ndarray
    class_names: Sequence[str] | Mapping[int, str]
    embeddings: np.ndarray
    pooling_weights: np.ndarray | None = None
    correlations: np.ndarray | None = None
    recipe: str = ""
    projections: list[dict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.images = np.asarray(self.images)
        shape, dtype = self.images.shape, self.images.dtype
        if dtype != np.uint8 or len(shape) != 4 or shape[-1] not in (1, 3) or 0 in shape:
            raise ValueError(
                f"images must be uint8 (N, H, W, 1) or (N, H, W, 3); received {dtype} {shape}."
            )
        self.labels = checked_labels(self.labels, len(self.images), "labels")
        self.embeddings = checked_embeddings(self.embeddings, "embeddings")
        if len(self.embeddings) != len(self.images):
            raise ValueError(
                f"embeddings must be one an image; received {len(self.embeddings)} for "
                f"{len(self.images)} images."
            )
        if self.pooling_weights is not None:
            self.pooling_weights = self._checked_maps("pooling_weights", (3, 4))
            if self.pooling_weights.ndim == 3:
                self.pooling_weights = self.pooling_weights[..., None]
        if self.correlations is not None:
            self.correlations = self._checked_maps("correlations", (4,))
        self._check_names()

    def class_name(self, label):
        """The name of a label, as text."""
        return str(self.class_names[int(label)])

    def _checked_maps(self, name, accepted_ndim):
        maps = np.asarray(getattr(self, name))
        if maps.ndim not in accepted_ndim or len(maps) != len(self.images):
            raise ValueError(
                f"{name} must have shape ({len(self.images)}, h, w, maps); received {maps.shape}."
            )
        return maps

    def _check_names(self):
        named = self.class_names
        known = named if isinstance(named, Mapping) else range(len(named))
        nameless = [int(label) for label in np.unique(self.labels) if int(label) not in known]
        if nameless:
            raise ValueError(
                f"class_names must name every label; it has {len(named)} names and none for "
                f"{', '.join(map(str, nameless[:5]))}{', ...' if len(nameless) > 5 else ''}."
            )
