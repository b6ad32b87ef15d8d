"""What indexes find and cost, as a figure."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from gsp_tf.visual._style import INK, class_style


def index_curve(indexes: Sequence[Any], title: str) -> Figure:
    """Draws the recall of the indexes of a comparison against their memory and time of a query.

    Filled points are on the Pareto curve: no other index is as good in recall, memory and time, and
    better in one of them.
    """
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    figure.suptitle(title, color=INK)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, name, label in zip(
        axes,
        ("memory_bytes", "milliseconds"),
        ("bytes per vector in memory", "milliseconds per query, one thread"),
        strict=True,
    ):
        for position, point in enumerate(indexes):
            color, marker = class_style(position)
            ax.scatter(
                getattr(point, name),
                100 * point.recall_at_10,
                s=64,
                marker=marker,
                edgecolors=color,
                facecolors=color if point.is_on_curve else "none",
                linewidths=1.5,
                label=point.name,
                zorder=2,
            )
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlabel(label, color=INK)
        ax.grid(color="#e5e7eb", zorder=0)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("Recall@10 in percent", color=INK)
    handles, names = axes[0].get_legend_handles_labels()
    title = "filled: on the Pareto curve"
    options = {"frameon": False, "fontsize": 9, "title": title, "title_fontsize": 9}
    figure.legend(handles, names, loc="outside right center", **options)
    return figure
