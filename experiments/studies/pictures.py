"""Parts that the pictures of the studies share."""

from pathlib import Path

from gsp_tf._files import replacing
from gsp_tf.visual import INK, run_style


def draw_dots(axes, points, title):
    """A dot for every seed, a colour and a marker for every variant, on axes from 0 on."""
    for position, (variant, pairs) in enumerate(points.items()):
        color, marker = run_style(position)
        axes.plot(*zip(*pairs, strict=True), marker, color=color, ms=5, label=variant)
    axes.set_title(title, color=INK, fontsize=9)
    axes.margins(y=0.1)
    axes.set(ylim=(0, None), facecolor="none")
    axes.tick_params(colors=INK, labelsize=7)
    axes.spines[:].set_color(INK)
    axes.grid(axis="y", color=INK, alpha=0.15, linewidth=0.6)


def draw_legend(figure, axes):
    """The variants of `draw_dots` in a row below a figure of constrained layout."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside lower center", ncols=len(names), frameon=False, fontsize=8,
        labelcolor=INK,
    )  # fmt: skip


def open_sides(figure):
    """Leave out the upper and the right line of every panel."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)


def save(figure, path):
    """Write a figure as PNG, whole or not at all."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        metadata = {"Software": None}
        figure.savefig(temporary, format="png", dpi=150, facecolor="white", metadata=metadata)
