"""Image sets in memory."""

import numpy as np

from gsp_tf.data.image_set import ArrayImages
from gsp_tf.data.pipeline import evaluation_dataset


def as_arrays(images, size):
    """The same images in memory, all of one size, such as the tiles of collages have to be.

    Args:
        images: `ImageSet`.
        size: side of the square images, in pixels; the shorter side is resized to it and the centre
            is cropped.

    Returns:
        `ArrayImages` with images `(N, size, size, channels)`.

    Example:
        >>> from gsp_tf.data import ArrayImages
        >>> small = ArrayImages(np.zeros((4, 8, 6, 1), np.uint8), [0, 0, 1, 1], ["a", "b"])
        >>> as_arrays(small, size=4).images.shape
        (4, 4, 4, 1)
    """
    batches = [batch.numpy() for batch, _ in evaluation_dataset(images, size, batch_size=64)]
    pixels = np.clip(np.rint(np.concatenate(batches)), 0, 255).astype(np.uint8)
    return ArrayImages(pixels, images.labels, images.class_names, images.groups)
