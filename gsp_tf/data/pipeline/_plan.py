"""Which images make up each training batch, and under which labels."""

from collections.abc import Sequence

import numpy as np

from gsp_tf.data.pipeline.sampler import ClassBalancedSampler, Sampler, ShuffledSampler


class BatchPlan:
    """The images of each batch: first those drawn by class, then those drawn whatever it is."""

    # The second kind comes from the unlabelled images, whose indices follow those of the labelled
    # ones, or from all images if none is drawn by its class.

    def __init__(
        self,
        labels: np.ndarray,
        classes_per_batch: int,
        images_per_class: int,
        seed: int,
        class_names: Sequence[str] | None = None,
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
        if not classes_per_batch and not unlabelled_per_batch:
            raise ValueError(
                "a batch needs images: give classes_per_batch or unlabelled_per_batch; received 0 "
                "for both."
            )
        self.seed, self._labels, self._views = seed, labels, views
        self._samplers = []
        if classes_per_batch:
            self._samplers.append(
                ClassBalancedSampler(labels, classes_per_batch, images_per_class, seed, class_names)
            )
        if unlabelled_per_batch:
            first = len(labels) if classes_per_batch else 0
            pool = np.arange(first, len(labels) + num_unlabelled)
            self._samplers.append(ShuffledSampler(pool, unlabelled_per_batch, seed))
        self._num_by_class = classes_per_batch * images_per_class
        self.size = views * (self._num_by_class + unlabelled_per_batch)

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


class SampledPlan:
    """The images of each batch of a sampler, under the labels of their classes."""

    def __init__(self, labels: np.ndarray, sampler: Sampler):
        self.seed, self.size = sampler.seed, sampler.batch_size
        self._labels, self._sampler = labels, sampler

    def batch(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices and labels of one batch."""
        indices = self._sampler.batch(number)
        return indices, self._labels[indices].astype(np.int32)
