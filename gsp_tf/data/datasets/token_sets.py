"""Synthetic data without images: sets of tokens, some from the class, the rest clutter."""

import math
from collections.abc import Sequence

import numpy as np

from gsp_tf._arguments import check_sizes, checked_seed


def synthetic_token_sets(
    samples_per_class: int,
    num_classes: int = 16,
    tokens_per_class: int = 4,
    num_background: int = 4,
    set_size: int = 50,
    background_share: tuple[float, float] = (0.5, 0.1),
    seed: int | Sequence[int] = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Draws sets of tokens from their class and from a background that all classes share.

    The synthetic study of Gürbüz, Şener, Alatan, "Generalized Sum Pooling for Metric Learning",
    ICCV 2023 (Fig. 3a). The fraction of background tokens is normally distributed and rounded to a
    number that leaves at least one token of each kind. Tokens of each kind are drawn uniformly with
    replacement. Ids `0 ... num_background - 1` are background, followed by the tokens of class 0,
    class 1 and so on. The vocabulary has `num_background + num_classes * tokens_per_class` tokens.

    Args:
        samples_per_class: Sets per class.
        num_classes: Number of classes.
        tokens_per_class: Tokens that occur only in sets of one class.
        num_background: Tokens that occur in sets of any class.
        set_size: n, tokens per set, at least 2; background tokens come first.
        background_share: Mean and standard deviation of the fraction of background tokens.
        seed: Seed of the draws, for `numpy.random.default_rng`.

    Returns:
        int32 tokens `(N, set_size)` and int32 labels `(N,)`, sorted by class, with
        `N = num_classes * samples_per_class`.

    Example:
        >>> tokens, labels = synthetic_token_sets(1, num_classes=2, set_size=6)
        >>> tokens.shape, labels.tolist()
        ((2, 6), [0, 1])
        >>> bool(np.isin(tokens[1], [0, 1, 2, 3, 8, 9, 10, 11]).all())
        True
    """
    check_sizes(samples_per_class=samples_per_class, num_classes=num_classes)
    check_sizes(tokens_per_class=tokens_per_class, num_background=num_background)
    check_sizes(2, set_size=set_size)  # a token of each kind
    mean, deviation = background_share
    if not (math.isfinite(mean) and deviation >= 0):
        raise ValueError(
            "background_share is a finite mean and a deviation of at least 0; "
            f"received {background_share}."
        )
    for part in np.ravel(seed).tolist():
        checked_seed(part)
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(num_classes, dtype=np.int32), samples_per_class)
    shape = len(labels), set_size
    share = rng.normal(mean, deviation, (len(labels), 1))
    background = np.clip(np.rint(share * set_size), 1, set_size - 1)
    clutter = rng.integers(num_background, size=shape)
    of_class = rng.integers(tokens_per_class, size=shape) + labels[:, None] * tokens_per_class
    tokens = np.where(np.arange(set_size) < background, clutter, num_background + of_class)
    return tokens.astype(np.int32), labels
