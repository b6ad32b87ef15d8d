"""Display names of metrics."""

NAMES = {"precision_at_1": "P@1", "r_precision": "R-precision", "map_at_r": "MAP@R"}


def display_name(metric):
    """Returns the name under which a metric is shown.

    Example:
        >>> [display_name(key) for key in ("map_at_r", "recall_at_4", "nmi")]
        ['MAP@R', 'Recall@4', 'nmi']
    """
    if metric.startswith("recall_at_"):
        return "Recall@" + metric.removeprefix("recall_at_")
    return NAMES.get(metric, metric)


def is_retrieval_share(metric):
    """Whether a metric is a share in [0, 1] that `retrieval_metrics` returns.

    Example:
        >>> [is_retrieval_share(key) for key in ("map_at_r", "num_skipped")]
        [True, False]
    """
    return metric in NAMES or metric.startswith("recall_at_")
