"""The page about a search for a better recipe: its trials, and what each field does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal, NamedTuple

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from gsp_tf._typing import PathLike
from gsp_tf.visual.curves import display_name, is_share
from gsp_tf.visual.page_parts import inline_svg, write_page
from gsp_tf.visual.style import HIT, INK, MISS, RUN_COLORS, inked_axes

_STYLES = {
    "complete": {"color": RUN_COLORS[0], "marker": "o"},
    "pruned": {"edgecolors": RUN_COLORS[0], "facecolors": "none", "marker": "o"},
    "best": {"color": HIT, "marker": "*", "s": 110, "zorder": 3},
}
_SIZE = (3.3, 2.4)


class TrialResult(NamedTuple):
    """A trial of a search.

    Args:
        number: its number, from 0.
        state: "complete", "pruned" (ended early, because it was worse than others at that epoch),
            "failed" or "running".
        value: the objective, `None` without one.
        values: the searched values by the full name of their field.
        by_epoch: the objective by epoch, from 1.
        seconds: how long it trained.
        note: why it failed, or other facts.
        untrained: the objective before training, which is that of epoch 0, `None` if not known.
        best_epoch: the epoch that `value` is of, `None` for a trial that is not complete.

    Example:
        >>> TrialResult(0, "complete", 0.4, {"embedding.dim": 64}).by_epoch
        {}
    """

    number: int
    state: Literal["complete", "pruned", "failed", "running"]
    value: float | None
    values: Mapping[str, Any]
    by_epoch: Mapping[int, float] = {}
    seconds: float | None = None
    note: str = ""
    untrained: float | None = None
    best_epoch: int | None = None

    @property
    def best_epoch_text(self) -> str:
        """The best epoch and the number of epochs, such as "5 of 15"."""
        return f"{self.best_epoch or '–'} of {len(self.by_epoch)}"


def write_tuning_page(
    path: PathLike,
    title: str,
    objective: str,
    trials: Sequence[TrialResult],
    log_fields: Sequence[str] = (),
    importance: Mapping[str, float] | None = None,
) -> Path:
    """Writes one HTML page about the trials of a search, which loads nothing from elsewhere.

    It shows the objective by trial, against each field and by epoch, and a table of all trials.

    Args:
        path: file to write; an existing file is replaced in one step.
        title: heading of the page.
        objective: name of the objective, a metric of the validation classes; larger is better.
        trials: the trials by number.
        log_fields: fields with a logarithmic axis.
        importance: share of the objective's variance that each field explains, by name.

    Returns:
        The path of the page.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> trial = TrialResult(0, "complete", 0.4, {"embedding.dim": 64})
        >>> with TemporaryDirectory() as folder:
        ...     write_tuning_page(f"{folder}/report.html", "Search", "val_map_at_r", [trial]).name
        'report.html'
    """
    scale = _Scale(objective)
    best = max((t for t in trials if t.state == "complete"), key=lambda t: t.value, default=None)
    fields = list(dict.fromkeys(name for trial in trials for name in trial.values))
    shown = [trial for trial in trials if trial.state in ("complete", "pruned")]
    figures = {"Trials": _by_trial(shown, best, scale), "Epochs": _by_epoch(shown, best, scale)}
    of_fields = {name: _by_field(shown, best, scale, name, name in log_fields) for name in fields}
    if importance:
        of_fields["What matters"] = _importance(importance)
    rows = [_row(trial, fields, scale) for trial in sorted(trials, key=_rank)]
    return write_page(
        path,
        "tuning.html",
        title=title,
        objective=scale.label,
        figures=_drawn(figures if shown else {}),
        of_fields=_drawn(of_fields if shown else {}),
        has_importance=bool(importance),
        short_fields=short_names(fields),
        rows=rows,
        best=best and best.number,
        counts={s: n for s in ("pruned", "failed") if (n := sum(t.state == s for t in trials))},
        num_trials=len(trials),
    )


class _Scale:
    """How the objective is shown: shares in percent."""

    def __init__(self, objective):
        metric = objective.removeprefix("val_")
        self.factor = 100 if is_share(metric) else 1
        self.label = f"{display_name(metric)}{' (%)' if self.factor == 100 else ''}"

    def text(self, value):
        return "–" if value is None else f"{self.factor * value:.{2 if self.factor == 100 else 4}f}"


def _drawn(figures):
    return {name: Markup(inline_svg(figure)) for name, figure in figures.items()}


def _rank(trial):
    """Complete trials first, the best of them first."""
    states = ("complete", "pruned", "running", "failed")
    return states.index(trial.state), -(trial.value or 0), trial.number


def _row(trial, fields, scale):
    seconds = "–" if trial.seconds is None else f"{trial.seconds:,.0f}"
    return {
        "number": trial.number,
        "state": trial.state,
        "cells": [
            scale.text(trial.value),
            scale.text(trial.untrained),
            trial.best_epoch_text,
            seconds,
        ],
        "values": [value_text(trial.values.get(name)) for name in fields],
        "note": trial.note,
    }


def short_names(fields: Sequence[str]) -> list[str]:
    """The last parts of the names of fields, or the whole names where these would be equal.

    Args:
        fields: full names.

    Example:
        >>> short_names(["embedding.dim", "loss.margin", "miner.margin"])
        ['dim', 'loss.margin', 'miner.margin']
    """
    last = [name.split(".")[-1] for name in fields]
    named = zip(fields, last, strict=True)
    return [short if last.count(short) == 1 else name for name, short in named]


def value_text(value: Any) -> str:
    """A value of a field in short form.

    Args:
        value: number, text, a list, or a mapping for a section.

    Example:
        >>> value_text([{"name": "triplet", "margin": 0.2}])
        '[{name: triplet, margin: 0.2}]'
    """
    if isinstance(value, Mapping):
        parts = (f"{key}: {value_text(part)}" for key, part in value.items())
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _by_trial(trials, best, scale):
    """The objective of each trial, and the best so far."""
    figure, axes = inked_axes(*_SIZE, xlabel="trial", ylabel=scale.label)
    _scatter(axes, trials, best, scale, [trial.number for trial in trials])
    complete = [trial for trial in trials if trial.state == "complete"]
    running = np.maximum.accumulate([scale.factor * trial.value for trial in complete] or [0])
    if complete:
        numbers = [trial.number for trial in complete]
        axes.step(numbers, running, where="post", color=INK, linewidth=1, alpha=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    return figure


def _by_epoch(trials, best, scale):
    """The objective of each trial by epoch."""
    figure, axes = inked_axes(*_SIZE, xlabel="epoch")
    for trial in trials:
        is_best = best is not None and trial.number == best.number
        color = HIT if is_best else RUN_COLORS[0] if trial.state == "complete" else MISS
        start = {} if trial.untrained is None else {0: trial.untrained}
        epochs, values = np.array(sorted({**start, **trial.by_epoch}.items())).reshape(-1, 2).T
        values = scale.factor * values
        width, alpha = (2, 1) if is_best else (1, 0.5)
        axes.plot(epochs, values, color=color, linewidth=width, alpha=alpha, zorder=2 + is_best)
        if trial.state == "pruned" and len(epochs):
            axes.plot(epochs[-1:], values[-1:], "x", color=MISS, markersize=4)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    return figure


def _by_field(trials, best, scale, name, is_log):
    """The objective against one field."""
    values = [trial.values.get(name) for trial in trials]
    if all(isinstance(x, int | float) and not isinstance(x, bool) for x in values):
        figure, axes = inked_axes(*_SIZE, ylabel=scale.label)
        _scatter(axes, trials, best, scale, values)
        if is_log:
            axes.set_xscale("log")
        return figure
    figure, axes = inked_axes(*_SIZE, xlabel=scale.label)
    texts = [value_text(value) for value in values]
    choices = sorted(dict.fromkeys(texts), reverse=True)
    spread = np.random.default_rng(0).uniform(-0.15, 0.15, len(texts))
    rows = [choices.index(text) for text in texts] + spread
    _scatter(axes, trials, best, scale, rows, swap=True)
    axes.set_yticks(range(len(choices)), ["\n".join(wrap(text, 22)) for text in choices])
    axes.set_ylim(-0.5, len(choices) - 0.5)
    return figure


def _scatter(axes, trials, best, scale, positions, swap=False):
    for state, style in _STYLES.items():
        points = [
            (position, scale.factor * trial.value)
            for trial, position in zip(trials, positions, strict=True)
            if trial.value is not None
            and state == ("best" if best is not None and trial is best else trial.state)
        ]
        if points:
            axes.scatter(
                *list(zip(*points, strict=True))[:: -1 if swap else 1],
                **{"s": 26, "linewidths": 1.2, **style},
            )


def _importance(importance):
    """The share of the objective's variance that each field explains."""
    names = sorted(importance, key=importance.get)
    figure, axes = inked_axes(*_SIZE, xlabel="share of the variance (%)")
    axes.barh(names, [100 * importance[name] for name in names], color=RUN_COLORS[0])
    return figure
