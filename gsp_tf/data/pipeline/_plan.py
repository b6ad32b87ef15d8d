"""Which images make up each training batch, and under which labels."""

import numpy as np

from gsp_tf._integers import checked_seed
from gsp_tf.data.pipeline.sampler import Sampler, ShuffledSampler


class BatchPlan:
    """The images of each batch: those of a sampler, then those drawn whatever their class is."""

    # The second kind comes from the unlabelled images, whose indices follow those of the labelled
    # ones, or from all images without a sampler.

    def __init__(
        self,
        labels: np.ndarray,
        sampler: Sampler | None,
        seed: int,
        num_unlabelled: int = 0,
        unlabelled_per_batch: int = 0,
        views: int = 1,
    ):
        if views not in (1, 2):
            raise ValueError(f"views must be 1 or 2; received {views}.")
        if unlabelled_per_batch and views == 1:
            raise ValueError(
                "views must be 2 with unlabelled_per_batch: an image without a class is learned "
                "from by comparing two views of it; received 1."
            )
        if sampler is None and not unlabelled_per_batch:
            raise ValueError(
                "a batch needs images: give classes_per_batch or unlabelled_per_batch; received 0 "
                "for both."
            )
        self.seed, self._labels, self._views = checked_seed(seed), labels, views
        self._samplers = [] if sampler is None else [sampler]
        self._num_by_class = 0 if sampler is None else sampler.batch_size
        if unlabelled_per_batch:
            first = 0 if sampler is None else len(labels)
            pool = np.arange(first, len(labels) + num_unlabelled)
            self._samplers.append(ShuffledSampler(pool, unlabelled_per_batch, seed))
        self.size = views * (self._num_by_class + unlabelled_per_batch)
        self.label_shape = (self.size, 2) if self._num_by_class and views == 2 else (self.size,)

    def batch(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices and labels of one batch, as `training_dataset` describes them."""
        indices = np.concatenate([sampler.batch(number) for sampler in self._samplers])
        labels = numbers = np.arange(len(indices))
        if self._num_by_class:
            by_class = indices[: self._num_by_class]
            labels = np.full(len(indices), -1)
            labels[: len(by_class)] = self._labels[by_class]
            if self._views == 2:
                labels = np.stack([labels, numbers], axis=1)
        indices, labels = (np.repeat(array, self._views, axis=0) for array in (indices, labels))
        return indices, labels.astype(np.int32)
