"""Pictures of what two images have in common: lines between matched places."""

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image, ImageDraw

from gsp_tf.visual._pages import enlarged, thumbnail
from gsp_tf.visual._style import prototype_colors

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
    """The centre of a cell in pixels."""
    row, column = divmod(int(place), grid[1])
    return offset + (column + 0.5) * width / grid[1], (row + 0.5) * height / grid[0]
