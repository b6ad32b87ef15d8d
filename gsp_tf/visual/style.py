"""Colours and marks shared by the figures."""

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
CLASS_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")


def run_style(position):
    """Colour and marker of the run at `position`; they repeat after six runs.

    Example:
        >>> run_style(0)
        ('#2563eb', 'o')
    """
    return RUN_COLORS[position % len(RUN_COLORS)], RUN_MARKERS[position % len(RUN_MARKERS)]


def transparent_figure(width, height):
    """An empty matplotlib Figure of `width` x `height` inches without background.

    Example:
        >>> transparent_figure(3, 2).get_size_inches().tolist()
        [3.0, 2.0]
    """
    return Figure(figsize=(width, height), facecolor="none")
