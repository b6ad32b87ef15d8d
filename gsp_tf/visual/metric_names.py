"""Display names of metrics."""

NAMES = {
    "precision_at_1": "P@1",
    "r_precision": "R-precision",
    "map_at_r": "MAP@R",
    "class_wise_map_at_r": "class-wise MAP@R",
    "nmi": "NMI",
    "ami": "AMI",
    "f1": "F1",
}


def display_name(metric):
    """Returns the name under which a metric is shown.

    Example:
        >>> [display_name(key) for key in ("map_at_r", "recall_at_4", "nmi")]
        ['MAP@R', 'Recall@4', 'NMI']
    """
    if metric.startswith("recall_at_"):
        return "Recall@" + metric.removeprefix("recall_at_")
    return NAMES.get(metric, metric)


def is_share(metric):
    """Whether a metric is shown in percent, as all of retrieval and of clusters are but counts.

    Example:
        >>> [is_share(key) for key in ("map_at_r", "num_skipped")]
        [True, False]
    """
    return metric in NAMES or metric.startswith("recall_at_")
