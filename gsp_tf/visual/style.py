"""Colours and marks shared by the figures."""

import numpy as np
from matplotlib.colors import hsv_to_rgb, to_rgb
from matplotlib.figure import Figure

INK = "#1f2937"
HIT, MISS = "#16a34a", "#e11d48"
RUN_COLORS = ("#2563eb", "#ea580c", "#0d9488", "#9333ea", "#ca8a04", "#db2777")
RUN_MARKERS = ("o", "s", "^", "D", "v", "P")
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
GOLDEN = 0.618034
CLASS_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")


def run_style(position):
    """Colour and marker of the run at `position`; they repeat after six runs.

    Example:
        >>> run_style(0)
        ('#2563eb', 'o')
    """
    return RUN_COLORS[position % len(RUN_COLORS)], RUN_MARKERS[position % len(RUN_MARKERS)]


def prototype_colors(prototypes):
    """Colours of prototypes: those of the classes, then hues in between.

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
    hues = np.stack([further * GOLDEN % 1, 0.45 + further % 2 * 0.3, 0.8 - further % 3 * 0.2], -1)
    palette = np.concatenate([[to_rgb(color) for color in CLASS_COLORS], hsv_to_rgb(hues)])
    return np.rint(255 * palette[prototypes]).astype(np.uint8)


def transparent_figure(width, height):
    """An empty matplotlib Figure of `width` x `height` inches without background.

    Example:
        >>> transparent_figure(3, 2).get_size_inches().tolist()
        [3.0, 2.0]
    """
    return Figure(figsize=(width, height), facecolor="none")
