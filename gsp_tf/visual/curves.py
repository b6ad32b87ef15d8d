"""Training curves, and what indexes find and cost."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from gsp_tf.visual._metrics import display_name, is_share
from gsp_tf.visual._style import INK, class_style, run_style, transparent_figure


def training_curves(
    histories: Sequence[Mapping[str, Sequence[float]]],
    untrained: Sequence[Mapping[str, float]] = (),
) -> dict[str, Figure]:
    """Draws the loss and each validation metric against the epoch, one figure per quantity.

    Each figure shows all runs. The order of the runs sets their colours and markers; the validation
    loss is dashed. Retrieval metrics are in percent; Recall@K is left out because it follows P@1.
    Epochs without a finite value are skipped.

    Args:
        histories: per run, the values of every quantity by epoch, as in Keras' `History.history`.
        untrained: per run, the values before training, which are those of epoch 0.

    Returns:
        Figures by title; quantities without a finite value are left out.

    Example:
        >>> history = {"loss": [2.0, 1.0], "val_map_at_r": [0.1, 0.2], "val_num_skipped": [0, 0]}
        >>> list(training_curves([history]))
        ['Loss', 'MAP@R (%)']
    """
    panels = {"Loss": ["loss", "val_loss"]}
    for key in dict.fromkeys(key for history in histories for key in history):
        metric = key.removeprefix("val_")
        if key != metric and not metric.startswith(("loss", "num_", "recall_at_")):
            unit = " (%)" if is_share(metric) else ""
            panels[display_name(metric) + unit] = [key]
    starts = untrained or [{}] * len(histories)
    figures = {title: _panel(histories, starts, keys) for title, keys in panels.items()}
    return {title: figure for title, figure in figures.items() if figure.axes[0].lines}


def _panel(histories, starts, keys):
    """Draws some quantities of all runs in one panel."""
    figure = transparent_figure(3.3, 2.4)
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot(facecolor="none", axisbelow=True)
    axes.set_xlabel("epoch", color=INK, fontsize=8)
    axes.tick_params(colors=INK, labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.grid(color=INK, alpha=0.15, linewidth=0.6)
    for position, (history, start) in enumerate(zip(histories, starts, strict=True)):
        color, marker = run_style(position)
        for key in keys:
            scale = 100 if is_share(key.removeprefix("val_")) else 1
            values = np.array([start.get(key, np.nan), *history.get(key, [])], dtype=float)
            epochs = np.flatnonzero(np.isfinite(values))
            if len(epochs):
                axes.plot(
                    epochs,
                    values[epochs] * scale,
                    color=color,
                    marker=marker,
                    markersize=3.5,
                    markevery=-(-len(epochs) // 20),
                    linewidth=1.8,
                    linestyle="dashed" if key == "val_loss" else "solid",
                )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    return figure


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
