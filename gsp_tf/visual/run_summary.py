"""The results of a run that a report shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gsp_tf.evaluation import checked_embeddings, checked_labels

_Measured = tuple[Mapping[str, float], Mapping[str, Sequence[float]]]


@dataclass
class RunSummary:
    """One evaluated run.

    Args:
        name: name of the run in the report.
        metrics: metrics of `retrieval_metrics`, possibly with others.
        history: values per epoch by name; empty if nothing was recorded.
        images: the N evaluated images, uint8 `(H, W, 1)` or `(H, W, 3)`: an array, or an object
            with a length that returns an image by index. Only the images on the page are read.
        labels: integers `(N,)`.
        class_names: name of each label.
        embeddings: floats `(N, D)`.
        pooling_weights: per image, non-negative floats `(h, w)`, or `(h, w, maps)` for several maps
            such as those of groups; an array, or a dict from some indices to maps.
        correlations: per image, floats `(h, w, K)`, the correlations of local features with
            prototypes; an array, or a dict by index.
        paths: file name of each image.
        recipe: the resolved recipe as text.
        projections: problems of CCP training, as recorded by `ChanceConstrainedTrainer`; empty for
            other training.
        notes: warnings for readers of the results, such as an interruption.
        intervals: ends of the intervals of metrics, by name.
        by_dim: metrics of prefixes of the embeddings, and ends of their intervals, by their
            dimension.
        baselines: metrics, and ends of their intervals, of what the run is compared with on the
            same images, such as the network before training, by name.
        untrained: values by name before training, the epoch 0 of `history`.

    Raises:
        ValueError: if the arrays do not fit together or a label has no name.

    Example:
        >>> RunSummary("gap", {}, {}, np.zeros((2, 8, 8), np.uint8), [0, 0], ["a"], np.eye(2))
        Traceback (most recent call last):
            ...
        ValueError: images must be uint8 (H, W, 1) or (H, W, 3); the first of 2 is uint8 (8, 8).
    """

    name: str
    metrics: dict[str, float | int]
    history: dict[str, list[float]]
    images: Sequence[np.ndarray] | np.ndarray
    labels: np.ndarray
    class_names: Sequence[str] | Mapping[int, str]
    embeddings: np.ndarray
    pooling_weights: Mapping[int, np.ndarray] | np.ndarray | None = None
    correlations: Mapping[int, np.ndarray] | np.ndarray | None = None
    paths: Sequence[str] | None = None
    recipe: str = ""
    projections: list[dict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    intervals: Mapping[str, Sequence[float]] = field(default_factory=dict)
    by_dim: Mapping[int, _Measured] = field(default_factory=dict)
    baselines: Mapping[str, _Measured] = field(default_factory=dict)
    untrained: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self):
        count = len(self.images)
        first = np.asarray(self.images[0]) if count else np.empty(0)
        if first.dtype != np.uint8 or first.ndim != 3 or first.shape[-1] not in (1, 3):
            raise ValueError(
                f"images must be uint8 (H, W, 1) or (H, W, 3); the first of {count} is "
                f"{first.dtype} {first.shape}."
            )
        self.labels = checked_labels(self.labels, count, "labels")
        self.embeddings = checked_embeddings(self.embeddings, "embeddings")
        if len(self.embeddings) != count:
            raise ValueError(
                f"embeddings must be one per image; received {len(self.embeddings)} for "
                f"{count} images."
            )
        self.pooling_weights = self._checked_maps("pooling_weights", (2, 3))
        self.correlations = self._checked_maps("correlations", (3,))
        self._check_names()

    def class_name(self, label: int) -> str:
        """The class name of a label as text."""
        return str(self.class_names[int(label)])

    def path(self, index: int) -> str:
        """The file name of an image, empty if it is unknown."""
        return "" if self.paths is None else str(self.paths[int(index)])

    def _checked_maps(self, name, accepted_ndim):
        """The maps as a dict from indices to arrays of rank 3, or None."""
        maps = getattr(self, name)
        if maps is None:
            return None
        if not isinstance(maps, Mapping):
            if len(maps) != len(self.images):
                raise ValueError(
                    f"{name} must be one per image; received {len(maps)} for {len(self.images)} "
                    "images."
                )
            maps = dict(enumerate(np.asarray(maps)))
        for image in maps.values():
            if np.ndim(image) not in accepted_ndim:
                raise ValueError(
                    f"{name} of an image must have shape (h, w, maps); received {np.shape(image)}."
                )
        return {index: np.atleast_3d(image) for index, image in maps.items()}

    def _check_names(self):
        """Raises if a label has no name."""
        named = self.class_names
        known = named if isinstance(named, Mapping) else range(len(named))
        nameless = [int(label) for label in np.unique(self.labels) if int(label) not in known]
        if nameless:
            raise ValueError(
                f"class_names must name every label; it has {len(named)} names and none for "
                f"{', '.join(map(str, nameless[:5]))}{', ...' if len(nameless) > 5 else ''}."
            )
