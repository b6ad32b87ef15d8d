"""Images that passed the check with Pillow and that TensorFlow does not decode."""

import numpy as np
import tensorflow as tf

NOT_DECODED = "TensorFlow cannot decode it"


def embed_decodable(embed, images, dim):
    """Embed images of which some may fail to be decoded.

    Args:
        embed: function from a list of images to their embeddings.
        images: list of N images.
        dim: D, dimension of the embeddings.

    Returns:
        float32 `(N, D)`, NaN for those that failed, and the list of their rows.

    Example:
        >>> def embed(images):
        ...     return tf.io.parse_tensor(images[0], tf.float32).numpy()[None]
        >>> embeddings, failed = embed_decodable(embed, [b"broken"], dim=2)
        >>> embeddings, failed
        (array([[nan, nan]], dtype=float32), [0])
    """
    if not images:
        return np.empty((0, dim), np.float32), []
    try:
        return embed(images), []
    except tf.errors.InvalidArgumentError:
        if len(images) == 1:
            return np.full((1, dim), np.nan, np.float32), [0]
    half = len(images) // 2
    first, first_failed = embed_decodable(embed, images[:half], dim)
    second, second_failed = embed_decodable(embed, images[half:], dim)
    return np.concatenate([first, second]), first_failed + [half + row for row in second_failed]
