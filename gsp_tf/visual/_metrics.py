"""Metrics as people read them: their names, and shares in percent."""

import numpy as np

_NAMES = {
    "accuracy": "accuracy",
    "precision_at_1": "P@1",
    "r_precision": "R-precision",
    "map_at_r": "MAP@R",
    "class_wise_map_at_r": "class-wise MAP@R",
    "nmi": "NMI",
    "ami": "AMI",
    "f1": "F1",
}
_AT = {
    "recall": "Recall",
    "precision": "P",
    "map": "MAP",
    "mrr": "MRR",
    "ndcg": "NDCG",
    "grouped_recall": "grouped Recall",
}


def display_name(metric: str) -> str:
    """The name of a metric in tables, such as "MAP@R"; other names do not change."""
    kind, _, depth = metric.rpartition("_at_")
    if metric in _NAMES or kind not in _AT:
        return _NAMES.get(metric, metric)
    return f"{_AT[kind]}@{depth}"


def is_share(metric: str) -> bool:
    """Whether a metric is shown in percent: all retrieval and clustering metrics except counts."""
    return metric in _NAMES or metric.rpartition("_at_")[0] in _AT


def percent(value: float, low: float = np.nan, high: float = np.nan) -> str:
    """A share in percent, with its interval if it is known."""
    interval = f" [{100 * low:.1f}, {100 * high:.1f}]" if np.isfinite(low) else ""
    return f"{100 * value:.1f}{interval}"
