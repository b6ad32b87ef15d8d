"""Training curves."""

import numpy as np
from matplotlib.ticker import MaxNLocator

from gsp_tf.visual.metric_names import display_name, is_share
from gsp_tf.visual.style import INK, run_style, transparent_figure


def training_curves(histories):
    """Draws the loss and each validation metric against the epoch, all runs in one figure each.

    Runs have the colours and markers of `run_style` in the order given; validation loss is dashed.
    Retrieval metrics are drawn in percent, without Recall@K, which follows P@1. Epochs without a
    finite value are passed over.

    Args:
        histories: for each run a dict from name to one value an epoch, as Keras' `History.history`.

    Returns:
        dict from title to matplotlib Figure, without quantities that have no finite value.

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
    figures = {title: _panel(histories, keys) for title, keys in panels.items()}
    return {title: figure for title, figure in figures.items() if figure.axes[0].lines}


def _panel(histories, keys):
    figure = transparent_figure(3.3, 2.4)
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot(facecolor="none")
    for position, history in enumerate(histories):
        color, marker = run_style(position)
        for key in keys:
            scale = 100 if is_share(key.removeprefix("val_")) else 1
            values = np.array(history.get(key, []), dtype=float)
            epochs = np.flatnonzero(np.isfinite(values))
            if len(epochs):
                axes.plot(
                    epochs + 1,
                    values[epochs] * scale,
                    color=color,
                    marker=marker,
                    markersize=3.5,
                    markevery=-(-len(epochs) // 20),
                    linewidth=1.8,
                    linestyle="dashed" if key == "val_loss" else "solid",
                )
    axes.set_xlabel("epoch", color=INK, fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    axes.tick_params(colors=INK, labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.grid(color=INK, alpha=0.15, linewidth=0.6)
    return figure
