"""Prototypes from data: a sample of local features, and those of it that cover the rest."""

import numpy as np
from keras import ops

from gsp_tf.ops import at_least_float32, greedy_k_center

_POOL_SIZE = 2**16


def sample_local_features(pooling, features, needed, seed=0):
    """Local features of a data set, a random sample of 65,536 of them if there are more.

    Args:
        pooling: a `LocalFeaturePooling`, which knows the layout of the features.
        features: array of maps or sets, or an iterable of them such as a `tf.data.Dataset`; of
            tuples the first entry counts. What a Keras mask leaves out is no local feature.
        needed: name of the attribute of `pooling` that says how many are needed at least.
        seed: seed of the random sample.

    Returns:
        array `(at most 65536, C)`.

    Raises:
        ValueError: if there are fewer than needed, or one is not finite.

    Example:
        >>> from gsp_tf.layers import NetVLAD
        >>> images = np.ones((2, 3, 3, 5), "float32")
        >>> sample_local_features(NetVLAD(num_clusters=4), images, "num_clusters").shape
        (18, 5)
    """
    if hasattr(features, "shape"):
        features = [features]
    rng = np.random.default_rng(seed)
    pool, keys = [], []
    for batch in features:
        batch = batch[0] if isinstance(batch, (tuple, list)) else batch
        local, mask, _ = pooling.as_set(batch, getattr(batch, "_keras_mask", None))
        local = ops.convert_to_numpy(at_least_float32(local))
        kept = slice(None) if mask is None else ops.convert_to_numpy(mask).astype(bool)
        local = local[kept].reshape(-1, local.shape[-1])
        pool = np.concatenate([pool, local]) if len(pool) else local
        keys = np.concatenate([keys, rng.random(len(local))])
        if len(pool) > _POOL_SIZE:
            kept = np.sort(np.argpartition(keys, _POOL_SIZE)[:_POOL_SIZE])
            pool, keys = pool[kept], keys[kept]
    if len(pool) < getattr(pooling, needed):
        raise ValueError(
            f"adapt needs at least {needed}={getattr(pooling, needed)} local features, "
            f"received {len(pool)}."
        )
    if not np.isfinite(pool).all():
        raise ValueError("adapt needs finite features, received NaN or infinity.")
    if not pooling.built:
        pooling.build((None, None, pool.shape[-1]))
    return pool


def cover(pool, k):
    """The k points that greedy k-center chooses (thesis, Algorithm 2), from the mean on.

    The first is the point farthest from the mean of all, each further one the farthest from those
    chosen.

    Args:
        pool: float array `(b, D)`.
        k: number of points, 1 to b.

    Returns:
        array `(k, D)`.

    Example:
        >>> cover(np.array([[0.0], [1.0], [5.0], [9.0]], "float32"), 2).tolist()
        [[9.0], [0.0]]
    """
    mean = pool.mean(axis=0, keepdims=True)
    return pool[ops.convert_to_numpy(greedy_k_center(pool, mean, k))]
