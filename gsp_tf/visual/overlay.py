"""Pooling weights drawn over the image that they weigh."""

import matplotlib
import numpy as np
from PIL import Image

from gsp_tf.visual.images import rgb

COLOR_MAP = "coolwarm"
OCTAVES = 2.0
OPACITY = 0.75
NEAR_AVERAGE = 0.1
LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


def overlay_weights(image, weights):
    """Tints an image by how far its pooling weights are from those of average pooling.

    The colour stands for log2(n p_j), with p the weights scaled to sum 1 over the n positions: 0
    is the weight 1/n that global average pooling gives to each, and leaves the image untinted.
    Red is more, blue is less, and both saturate at four times more or less, so that colours mean
    the same in every image.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`; its luminance is shown.
        weights: non-negative `(h, w)`, resized bilinearly to `(H, W)`.

    Returns:
        uint8 `(H, W, 3)`.

    Raises:
        ValueError: for another kind of image, or weights that are not a finite, non-negative
            `(h, w)` with a positive sum.

    Example:
        >>> image = np.full((4, 4, 1), 100, np.uint8)
        >>> overlay_weights(image, np.full((2, 2), 0.25))[0, 0]
        array([100, 100, 100], dtype=uint8)
        >>> overlay_weights(image, [[1.0, 0.0], [0.0, 0.0]])[0, 0]
        array([160,  28,  54], dtype=uint8)
    """
    image = rgb(image)
    weights = np.asarray(weights, dtype=np.float32)
    if weights.ndim != 2 or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            "weights must be a finite, non-negative (h, w) array; "
            f"received shape {weights.shape} with {np.count_nonzero(~(weights >= 0))} "
            "negative or NaN values."
        )
    if not weights.sum() > 0:
        raise ValueError(f"weights must have a positive sum; received {weights.sum()}.")
    relative = resized(weights / weights.mean(), image)
    octaves = np.log2(np.maximum(relative, 2.0**-OCTAVES)).clip(max=OCTAVES) / OCTAVES
    return tinted(image, octaves)


def weight_spread(weights):
    """How far pooling weights are from those of average pooling.

    Args:
        weights: non-negative floats `(N, h, w, maps)`, each map with a positive sum.

    Returns:
        dict of floats: `std`, `min` and `max` of the weights over the average of their map; 0, 1
        and 1 are average pooling, and a `std` below `NEAR_AVERAGE` is close to it.

    Example:
        >>> weight_spread(np.array([0.75, 0.25]).reshape(1, 2, 1, 1))
        {'std': 0.5, 'min': 0.5, 'max': 1.5}
    """
    weights = np.asarray(weights, np.float64)
    relative = weights / weights.mean(axis=(1, 2), keepdims=True)
    return {name: float(getattr(relative, name)()) for name in ("std", "min", "max")}


def resized(values, image):
    """Values of the places `(h, w)` of an image, resized bilinearly to its pixels.

    Args:
        values: floats `(h, w)`.
        image: array `(H, W, channels)`.

    Returns:
        float32 `(H, W)`.

    Example:
        >>> resized([[1.0, 3.0]], np.zeros((1, 4, 3))).tolist()
        [[1.0, 1.5, 2.5, 3.0]]
    """
    picture = Image.fromarray(np.asarray(values, dtype=np.float32))
    return np.asarray(picture.resize(image.shape[1::-1], Image.Resampling.BILINEAR))


def tinted(image, strengths):
    """A grey image, tinted red where a strength is positive and blue where it is negative.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`; its luminance is shown.
        strengths: floats `(H, W)` in [-1, 1]; 0 leaves a pixel untinted.

    Returns:
        uint8 `(H, W, 3)`.

    Example:
        >>> tinted(np.full((1, 2, 1), 100, np.uint8), np.array([[0.0, 1.0]])).tolist()
        [[[100, 100, 100], [160, 28, 54]]]
    """
    grey = rgb(image) @ LUMINANCE
    tint = 255 * matplotlib.colormaps[COLOR_MAP](strengths / 2 + 0.5)[..., :3]
    opacity = OPACITY * np.abs(strengths)[..., None]
    blended = (1 - opacity) * grey[..., None] + opacity * tint
    return np.rint(blended).astype(np.uint8)


def color_scale(steps=9):
    """Colours of the overlay from a quarter to four times the uniform weight.

    Args:
        steps: number of colours.

    Returns:
        list of `steps` CSS colours.

    Example:
        >>> color_scale(3)
        ['#3b4cc0', '#dddcdc', '#b40426']
    """
    colors = matplotlib.colormaps[COLOR_MAP](np.linspace(0, 1, steps))
    return [matplotlib.colors.to_hex(color) for color in colors]
