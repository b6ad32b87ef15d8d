"""Colours, markers and blank figures for all pictures."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:  # pages without a figure do without Matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2937"
"""Colour of text and lines."""
HIT = "#16a34a"
"""Colour of a neighbour of the right class."""
MISS = "#e11d48"
"""Colour of a neighbour of another class."""
RUN_COLORS = ("#2563eb", "#ea580c", "#0d9488", "#9333ea", "#ca8a04", "#db2777")
"""Colours of runs, in turn."""
CLASS_COLORS = (
    "#4e79a7",
    "#f28e2b",
    "#e15759",
    "#59a14f",
    "#b07aa1",
    "#d4a90f",
    "#17becf",
    "#ff7ab6",
    "#9c755f",
    "#8a8f98",
    "#6b5be6",
    "#a3c644",
)
"""Colours of classes, in turn."""
_CLASS_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")  # one less than colours
_RUN_MARKERS = _CLASS_MARKERS[: len(RUN_COLORS) - 1]
_GOLDEN = 0.618034


def run_style(position: int) -> tuple[str, str]:
    """Colour and marker of the run at `position`; both repeat after 30 runs."""
    return _style(position, RUN_COLORS, _RUN_MARKERS)


def class_style(position: int) -> tuple[str, str]:
    """Colour and marker of the class at `position`; both repeat after 132 classes."""
    return _style(position, CLASS_COLORS, _CLASS_MARKERS)


def _style(position, colors, markers):
    return colors[position % len(colors)], markers[position % len(markers)]


def prototype_colors(prototypes: ArrayLike) -> np.ndarray:
    """Colours of prototypes, uint8 `(..., 3)`: first the class colours, then hues in between."""
    from matplotlib.colors import hsv_to_rgb, to_rgb

    count = int(np.max(prototypes)) + 1
    further = np.arange(max(0, count - len(CLASS_COLORS)))
    hues = np.stack([further * _GOLDEN % 1, 0.45 + further % 2 * 0.3, 0.8 - further % 3 * 0.2], -1)
    palette = np.concatenate([[to_rgb(color) for color in CLASS_COLORS], hsv_to_rgb(hues)])
    return np.rint(255 * palette[prototypes]).astype(np.uint8)


def transparent_figure(width: float, height: float) -> "Figure":
    """An empty figure without a background, sized in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), facecolor="none")


def blank_axes(width: float, height: float, **options) -> tuple["Figure", "Axes"]:
    """A transparent figure, sized in inches and filled by one pair of invisible axes."""
    figure = transparent_figure(width, height)
    axes = figure.add_axes((0, 0, 1, 1), **options)
    axes.set_axis_off()
    return figure, axes


def draw_fitted(axes: "Axes", left: float, top: float, picture: np.ndarray, **options) -> tuple:
    """Fit a picture into the unit square at (left, top); returns its left, top, width, height."""
    height, width = np.array(picture.shape[:2]) / max(picture.shape[:2])
    x, y = left + (1 - width) / 2, top + (1 - height) / 2
    extent = x, x + width, y + height, y
    axes.imshow(picture, extent=extent, aspect="auto", **options)
    return x, y, width, height
