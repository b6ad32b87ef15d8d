"""Images tinted by pooling weights, attention or prototypes, and lines between matched places."""

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image, ImageDraw

from gsp_tf.visual._pages import enlarged, rgb, thumbnail
from gsp_tf.visual._style import prototype_colors

NEAR_AVERAGE = 0.1
"""Standard deviation of weights over the average, below which pooling is close to averaging."""
OCTAVES = 2.0
OPACITY = 0.75
COLOR_MAP = "coolwarm"
_LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


def overlay_weights(image: np.ndarray, weights: ArrayLike) -> np.ndarray:
    """Tints an image by the difference between its pooling weights and average pooling.

    The colour shows log2(n p_j), where p are the weights scaled to sum 1 over the n positions. At
    0, the weight is 1/n as in global average pooling, and the image is untinted. Red is more, blue
    is less, and both saturate at a factor of four. Colours therefore mean the same in every image.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`; its luminance is shown.
        weights: finite and non-negative `(h, w)` with a positive sum, resized bilinearly to
            `(H, W)`.

    Returns:
        uint8 `(H, W, 3)`.

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
            f"received shape {weights.shape} with "
            f"{np.count_nonzero(~((weights >= 0) & np.isfinite(weights)))} negative or not finite "
            "values."
        )
    if not weights.sum() > 0:
        raise ValueError(f"weights must have a positive sum; received {weights.sum()}.")
    relative = resized(weights / weights.mean(), image)
    octaves = np.log2(np.maximum(relative, 2.0**-OCTAVES)).clip(max=OCTAVES) / OCTAVES
    return tinted(image, octaves)


def overlay_groups(image: np.ndarray, maps: ArrayLike) -> np.ndarray:
    """Tints an image once per group by the difference between its attention and uniform attention.

    "Towards Improved and Interpretable Deep Metric Learning via Attentive Grouping" (Xu et al.),
    eqs. 9 and 10. Every map is resized bilinearly to the image and has the colours of
    `overlay_weights`.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`; its luminance is shown.
        maps: non-negative `(h, w, groups)`, such as an image's `AttentiveGrouping.attention_maps`.

    Returns:
        uint8 `(groups, H, W, 3)`.

    Example:
        >>> image = np.full((4, 4, 1), 100, np.uint8)
        >>> pictures = overlay_groups(image, np.full((2, 2, 3), 0.25))
        >>> pictures.shape, pictures[0, 0, 0].tolist()
        ((3, 4, 4, 3), [100, 100, 100])
    """
    maps = np.asarray(maps)
    if maps.ndim != 3:
        raise ValueError(f"maps must be (h, w, groups); received shape {maps.shape}.")
    return np.stack([overlay_weights(image, group) for group in np.moveaxis(maps, -1, 0)])


def dominant_prototypes(images: np.ndarray, attribute_maps: ArrayLike) -> np.ndarray:
    """Colours each place of images by the prototype with the largest share of it.

    After Fig. 5 of Gürbüz, Şener, Alatan, "Generalized Sum Pooling for Metric Learning", ICCV 2023.
    Prototypes have the colours of `partition_maps`. A place has the full colour if its weight is at
    least that of average pooling, and a fainter colour if it is less. A place that is left out
    stays grey.

    Args:
        images: uint8 `(N, H, W, 1)` or `(N, H, W, 3)`; their luminance is shown.
        attribute_maps: non-negative floats `(N, h, w, m)`, such as
            `GeneralizedSumPooling.attribute_maps`.

    Returns:
        uint8 `(N, H, W, 3)`.

    Example:
        >>> image = np.full((1, 4, 4, 1), 100, np.uint8)
        >>> maps = np.zeros((1, 2, 2, 3))
        >>> maps[0, 0, 0, 1] = 1.0
        >>> picture = dominant_prototypes(image, maps)[0]
        >>> picture[0, 0].tolist(), picture[3, 3].tolist()
        ([206, 132, 57], [100, 100, 100])
    """
    maps = np.asarray(attribute_maps, dtype=np.float64)
    if maps.ndim != 4 or len(maps) != len(images):
        raise ValueError(
            f"attribute_maps must be (N, h, w, m) of the {len(images)} images; received shape "
            f"{maps.shape}."
        )
    weights = maps.sum(axis=-1)
    average = weights.mean(axis=(1, 2), keepdims=True)
    if not np.isfinite(maps).all() or (maps < 0).any() or not (average > 0).all():
        raise ValueError("attribute_maps must be finite and not negative, with positive sums.")
    tints = prototype_colors(maps.argmax(axis=-1))
    opacities = OPACITY * (weights / average).clip(max=1)
    pictures = []
    for image, tint, opacity in zip(images, tints, opacities, strict=True):
        grey = luminance(image)[..., None]
        rows, columns = (
            np.arange(pixels) * places // pixels
            for pixels, places in zip(grey.shape, opacity.shape, strict=False)
        )
        places = np.ix_(rows, columns)
        share = opacity[places][..., None]
        pictures.append((1 - share) * grey + share * tint[places])
    return np.rint(pictures).astype(np.uint8)


def weight_spread(weights: ArrayLike) -> dict[str, float]:
    """`std`, `min` and `max` of pooling weights `(N, h, w, maps)` over the average of their map.

    Average pooling gives 0, 1 and 1; a `std` below `NEAR_AVERAGE` is close to it.
    """
    weights = np.asarray(weights, np.float64)
    relative = weights / weights.mean(axis=(1, 2), keepdims=True)
    return {name: float(getattr(relative, name)()) for name in ("std", "min", "max")}


def color_scale(steps: int = 9) -> list[str]:
    """CSS colours of the overlay, for 1/4 to 4 times the uniform weight."""
    from matplotlib import colormaps, colors

    return [colors.to_hex(color) for color in colormaps[COLOR_MAP](np.linspace(0, 1, steps))]


def luminance(image: np.ndarray) -> np.ndarray:
    """The luminance of an image as floats `(H, W)`."""
    return rgb(image) @ _LUMINANCE


def resized(values: ArrayLike, image: np.ndarray) -> np.ndarray:
    """Values `(h, w)` of the places of an image, resized bilinearly to its pixels."""
    picture = Image.fromarray(np.asarray(values, dtype=np.float32))
    return np.asarray(picture.resize(image.shape[1::-1], Image.Resampling.BILINEAR))


def tinted(image: np.ndarray, strengths: np.ndarray) -> np.ndarray:
    """A grey image tinted by strengths `(H, W)`: red up to 1, blue down to -1, untinted at 0."""
    from matplotlib import colormaps

    tint = 255 * colormaps[COLOR_MAP](strengths / 2 + 0.5)[..., :3]
    opacity = OPACITY * np.abs(strengths)[..., None]
    blended = (1 - opacity) * luminance(image)[..., None] + opacity * tint
    return np.rint(blended).astype(np.uint8)


_WIDEST = 0.02  # of the side of an image
_BOW = 0.15  # height of an arc over its width
_SCALE = 2  # lines are drawn larger and reduced, so that they are smooth


def draw_matches(
    first: np.ndarray,
    second: np.ndarray,
    plan: ArrayLike,
    first_places: ArrayLike,
    second_places: ArrayLike,
    grid: tuple[int, int],
    lines: int = 12,
    pixels: int = 320,
) -> np.ndarray:
    """Draws two images side by side, with lines between the places that a plan matches.

    A line joins the centres of two cells of the maps of local features. It is as wide as its mass
    is large, the widest for the largest mass; the strongest are drawn last, over the others. Lines
    are arcs, so that those within one row of cells do not cover each other.

    Args:
        first: uint8 `(S, S, 1)` or `(S, S, 3)`, the image as the model sees it.
        second: the other image, of the same shape.
        plan: non-negative `(k, l)`, the mass between tokens of both, as `match_tokens` gives it.
        first_places: integers `(k,)`, places of the tokens of the first image, row by row.
        second_places: integers `(l,)`, those of the second image.
        grid: height and width of the map of local features.
        lines: largest number of lines.
        pixels: side of each image in the picture.

    Returns:
        uint8 `(h, w, 3)`.
    """
    plan = np.asarray(plan, np.float64)
    places = [np.asarray(first_places), np.asarray(second_places)]
    left, right = (_fitted(image, pixels) for image in (first, second))
    gap = np.full((len(left), max(1, len(left) // 8), 3), 255, np.uint8)
    picture = Image.fromarray(np.concatenate([left, gap, right], axis=1))
    size = picture.size
    picture = picture.resize([_SCALE * side for side in size], Image.Resampling.BILINEAR)
    draw, side = ImageDraw.Draw(picture), _SCALE * len(left)
    offset = _SCALE * (left.shape[1] + gap.shape[1])
    strongest = [i for i in np.argsort(-plan, axis=None, kind="stable")[:lines] if plan.flat[i] > 0]
    colors = prototype_colors(np.arange(max(len(strongest), 1))).astype(int).tolist()
    for color, index in reversed(list(zip(colors, strongest, strict=False))):
        row, column = np.unravel_index(index, plan.shape)
        start = _centre(places[0][row], grid, side, _SCALE * left.shape[1], 0)
        end = _centre(places[1][column], grid, side, _SCALE * right.shape[1], offset)
        width = max(_SCALE, round(_WIDEST * side * plan[row, column] / plan.max()))
        draw.line(_arc(start, end, side), fill=tuple(color), width=width, joint="curve")
        for x, y in (start, end):
            radius = 1.5 * width
            box = x - radius, y - radius, x + radius, y + radius
            draw.ellipse(box, fill=tuple(color), outline=(255, 255, 255), width=_SCALE)
    return np.asarray(picture.resize(size, Image.Resampling.LANCZOS))


def _arc(start, end, height):
    """Points of a parabola between two points, bowed towards the middle of the height."""
    (x, y), (other_x, other_y) = start, end
    bow = _BOW * (other_x - x) * (1 if y + other_y < height else -1)
    steps = np.linspace(0, 1, 33)
    xs, ys = x + steps * (other_x - x), y + steps * (other_y - y) + 4 * bow * steps * (1 - steps)
    return list(zip(xs.tolist(), ys.tolist(), strict=True))


def _fitted(image, pixels):
    """An image as RGB with a longer side of about `pixels`."""
    picture = thumbnail(image, pixels)
    return enlarged(picture, pixels) if max(picture.shape[:2]) < pixels else picture


def _centre(place, grid, height, width, offset):
    row, column = divmod(int(place), grid[1])
    return offset + (column + 0.5) * width / grid[1], (row + 0.5) * height / grid[0]
