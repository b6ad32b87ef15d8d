"""Embeddings of images of some classes."""

import numpy as np


def clusters(count, seed=0, dim=8, num_classes=10):
    """Embeddings of length 1 around the first of ten centres, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(num_classes, size=count)
    centres = np.random.default_rng(9).normal(size=(10, dim))
    embeddings = centres[labels] + 0.8 * rng.normal(size=(count, dim))
    return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True), labels


def around_centres(num_classes, size=8, dim=6, spread=0.5, seed=0):
    """Embeddings around the centre of each of the classes, all of one size, and their labels.

    The spread is one number, or one for each class.
    """
    rng = np.random.default_rng(seed)
    labels = np.arange(num_classes * size) // size
    centres = rng.normal(size=(num_classes, dim))
    spread = np.broadcast_to(spread, num_classes)[labels, None]
    return centres[labels] + spread * rng.normal(size=(len(labels), dim)), labels


def around_many_centres(count, dim, seed=0):
    """Unit vectors in float32, about fifty around each of many centres."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((count // 50, dim))
    vectors = centres[rng.integers(0, len(centres), count)] + 0.35 * rng.normal(size=(count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("float32")


def tight_classes(spread, count):
    """Unit vectors in float32, of dimension 128, ten in each class that is about `spread` wide."""
    rng = np.random.default_rng(0)
    num_classes = count // 10
    centres = rng.normal(size=(num_classes, 128))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    noise = spread / 128**0.5 * rng.normal(size=(count, 128))
    vectors = centres[np.arange(count) % num_classes] + noise
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("float32")
