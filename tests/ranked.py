"""Retrieval metrics of one query, by their definitions."""

import numpy as np


def metrics_of(gains, at):
    """The metrics of a query with a positive, from the gain of each reference, the nearest first.

    A positive has a gain above 0. The gains of classes are true and false.
    """
    gains = np.asarray(gains, float)
    hits, count = gains > 0, np.count_nonzero(gains)
    precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    discounted, best = (x / np.log2(np.arange(2, len(x) + 2)) for x in (gains, -np.sort(-gains)))
    found = {
        "r_precision": hits[:count].mean(),
        "map_at_r": precisions[:count][hits[:count]].sum() / count,
    }
    for k in at:
        found[f"recall_at_{k}"] = float(hits[:k].any())
        found[f"precision_at_{k}"] = hits[:k].sum() / k
        found[f"map_at_{k}"] = precisions[:k][hits[:k]].sum() / min(k, count)
        found[f"mrr_at_{k}"] = 1 / (1 + hits.argmax()) if hits[:k].any() else 0.0
        found[f"ndcg_at_{k}"] = discounted[:k].sum() / best[:k].sum()
    return found
