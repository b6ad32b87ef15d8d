"""The images from which CCP chooses its proxies."""

from collections.abc import Callable, Sequence

import numpy as np

from gsp_tf._integers import checked_seed
from gsp_tf._typing import Tensor
from gsp_tf.training.embedding import Batches, embed


class ProxyPool:
    """Draws some images of every class and embeds them.

    Images are loaded and embedded as a stream, so memory holds only the embeddings of the pool.

    Args:
        labels: integers `(N,)`, the class of every image, 0 to C - 1, each at least once.
        load: function from image indices, an integer array `(n,)`, to batches
            `(images, labels)` of exactly these images, in this order.
        seed: seed of the draws.

    Raises:
        ValueError: if a class has no image.

    Example:
        >>> import tensorflow as tf
        >>> points, labels = np.eye(4, dtype="float32"), np.array([0, 0, 1, 1])
        >>> def load(indices):
        ...     return tf.data.Dataset.from_tensor_slices((points[indices], indices)).batch(2)
        >>> pool, indices = ProxyPool(labels, load).draw(lambda x: x, images_per_class=2)
        >>> pool.shape, np.sort(indices).tolist()
        ((2, 2, 4), [[0, 1], [2, 3]])
    """

    def __init__(
        self,
        labels: Sequence[int] | np.ndarray,
        load: Callable[[np.ndarray], Batches],
        seed: int = 0,
    ):
        labels = np.asarray(labels)
        self.num_classes = int(labels.max()) + 1
        counts = np.bincount(labels, minlength=self.num_classes)
        if not counts.all():
            raise ValueError(
                f"Every class needs an image, but class {int(counts.argmin())} of "
                f"{self.num_classes} has none."
            )
        self._members = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
        self._load = load
        self._rng = np.random.default_rng(checked_seed(seed))

    def draw(
        self, forward: Callable[[Tensor], Tensor], images_per_class: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws and embeds b images of every class.

        A class with fewer than b images repeats some of them.

        Args:
            forward: function from images to embeddings, such as `inference(embedder)`.
            images_per_class: b.

        Returns:
            Embeddings, a float32 array `(C, b, D)`, and image indices `(C, b)`.
        """
        indices = np.stack([self._draw(members, images_per_class) for members in self._members])
        embeddings, _ = embed(forward, self._load(indices.reshape(-1)))
        return embeddings.reshape(*indices.shape, -1), indices

    def state(self) -> dict:
        """The state of the random generator, a dict of JSON values."""
        return self._rng.bit_generator.state

    def restore(self, state: dict):
        """Restore a dict from `state`."""
        self._rng.bit_generator.state = state

    def _draw(self, members, count):
        rounds = -(-count // len(members))
        return np.concatenate([self._rng.permutation(members) for _ in range(rounds)])[:count]
