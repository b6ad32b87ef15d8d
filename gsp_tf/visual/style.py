"""Colours, markers and blank figures for all pictures."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import hsv_to_rgb, to_rgb
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

INK = "#1f2937"
"""Colour of text and lines."""
HIT = "#16a34a"
"""Colour of a neighbour of the right class."""
MISS = "#e11d48"
"""Colour of a neighbour of another class."""
RUN_COLORS = ("#2563eb", "#ea580c", "#0d9488", "#9333ea", "#ca8a04", "#db2777")
"""Colours of runs, in turn."""
RUN_MARKERS = ("o", "s", "^", "D", "v", "P")
"""Matplotlib markers of runs, in turn."""
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
CLASS_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
_GOLDEN = 0.618034


def run_style(position: int) -> tuple[str, str]:
    """Colour and marker of a run; they repeat after six runs.

    Args:
        position: position of the run among all runs, from 0.

    Example:
        >>> run_style(0)
        ('#2563eb', 'o')
    """
    return RUN_COLORS[position % len(RUN_COLORS)], RUN_MARKERS[position % len(RUN_MARKERS)]


def class_style(position: int) -> tuple[str, str]:
    """Colour and marker of the class at `position`; they repeat after twelve classes."""
    return (
        CLASS_COLORS[position % len(CLASS_COLORS)],
        CLASS_MARKERS[position % len(CLASS_MARKERS)],
    )


def prototype_colors(prototypes: ArrayLike) -> np.ndarray:
    """Colours of prototypes: first the class colours, then hues in between.

    Args:
        prototypes: non-negative integers of any shape.

    Returns:
        uint8 `(..., 3)`.

    Example:
        >>> prototype_colors([0, 12, 13]).tolist()
        [[78, 121, 167], [204, 112, 112], [38, 72, 153]]
    """
    count = int(np.max(prototypes)) + 1
    further = np.arange(max(0, count - len(CLASS_COLORS)))
    hues = np.stack([further * _GOLDEN % 1, 0.45 + further % 2 * 0.3, 0.8 - further % 3 * 0.2], -1)
    palette = np.concatenate([[to_rgb(color) for color in CLASS_COLORS], hsv_to_rgb(hues)])
    return np.rint(255 * palette[prototypes]).astype(np.uint8)


def transparent_figure(width: float, height: float) -> Figure:
    """An empty figure without a background.

    Args:
        width: width in inches.
        height: height in inches.

    Example:
        >>> transparent_figure(3, 2).get_size_inches().tolist()
        [3.0, 2.0]
    """
    return Figure(figsize=(width, height), facecolor="none")


def inked_axes(
    width: float, height: float, xlabel: str = "", ylabel: str = ""
) -> tuple[Figure, Axes]:
    """A transparent figure, sized in inches, with one pair of axes in the colour of the text."""
    figure = transparent_figure(width, height)
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot(facecolor="none")
    axes.set_xlabel(xlabel, color=INK, fontsize=8)
    axes.set_ylabel(ylabel, color=INK, fontsize=8)
    axes.tick_params(colors=INK, labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.grid(color=INK, alpha=0.15, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def blank_axes(width: float, height: float, **options) -> tuple[Figure, Axes]:
    """A transparent figure, sized in inches and filled by one pair of invisible axes."""
    figure = transparent_figure(width, height)
    axes = figure.add_axes((0, 0, 1, 1), **options)
    axes.set_axis_off()
    return figure, axes


def fitted(left: float, top: float, picture: np.ndarray) -> tuple[float, float, float, float]:
    """Left, top, width and height of a picture fitted into the unit square at (left, top)."""
    height, width = np.array(picture.shape[:2]) / max(picture.shape[:2])
    return left + (1 - width) / 2, top + (1 - height) / 2, width, height
