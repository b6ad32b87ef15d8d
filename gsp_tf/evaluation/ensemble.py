"""Ensembles that concatenate the embeddings of one model per fold."""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf.evaluation._ensemble_ranking import EnsembleRanking
from gsp_tf.evaluation._positives import Positives, check_labelled, checked_depths
from gsp_tf.evaluation.vectors import checked_embeddings, checked_labels, warn_of_own_images


def ensemble_metrics(
    queries: Sequence[Sequence[ArrayLike]],
    query_labels: ArrayLike,
    references: Sequence[Sequence[ArrayLike]] | None = None,
    reference_labels: ArrayLike | None = None,
    recall_at: Sequence[int] = (1, 2, 4, 8),
) -> dict:
    """Retrieval metrics of models of several folds, alone and with embeddings concatenated.

    With r models per fold there are r^F ways to choose one model from each of the F folds ("A
    Metric Learning Reality Check", Musgrave et al., ECCV 2020: F = 4). Without references, the
    metrics of a choice are by definition

        separated = mean(retrieval_metrics(model, labels) for model in choice)
        concatenated = retrieval_metrics(np.concatenate(choice, axis=1), labels)

    with choice in `itertools.product(*queries)`. This function finds the same numbers in a fraction
    of the time. It computes the distances of every model once, and a concatenation ranks only the
    references that can be near in it. These are few if the models of a fold agree. Memory: half a
    GiB of distances. Distances equal in float32 rank in the order of the references.

    Args:
        queries: embeddings of the models of each fold, floats `(Q, D)`.
        query_labels: integers `(Q,)`.
        references: like `queries`, floats `(N, D)`; None searches the other queries.
        reference_labels: integers `(N,)`.
        recall_at: the K of Recall@K.

    Returns:
        dict. `separated` and `concatenated` each hold two dicts from metric to float: `mean` and
        `std` over the choices (sample standard deviation, `None` for a single choice). `choices` is
        the number of choices. `num_queries` and `num_skipped` are those of `retrieval_metrics`.

    Raises:
        ValueError: as in `retrieval_metrics`, and if a fold has no model or shapes do not match.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> folds = [[rng.normal(size=(8, 2)) for model in range(3)] for fold in range(4)]
        >>> metrics = ensemble_metrics(folds, np.arange(8) // 2)
        >>> metrics["choices"], sorted(metrics["concatenated"])
        (81, ['mean', 'std'])
    """
    recall_at = checked_depths(recall_at, "recall_at")
    check_labelled(references, reference_labels)
    folds = _checked_folds(queries, "queries")
    query_labels = checked_labels(query_labels, len(folds[0][0]), "query_labels")
    if references is None:
        reference_folds, reference_labels = None, query_labels
    else:
        reference_folds = _checked_folds(references, "references")
        size = len(reference_folds[0][0])
        reference_labels = checked_labels(reference_labels, size, "reference_labels")
        dims = [[[x.shape[1] for x in fold] for fold in part] for part in (folds, reference_folds)]
        if dims[0] != dims[1]:
            raise ValueError(
                "queries and references must be of the same models; received models of "
                f"{dims[0]} and {dims[1]} dimensions."
            )
        warn_of_own_images(folds[0][0], reference_folds[0][0])
    gallery_labels = None if references is None else reference_labels
    positives = Positives(query_labels, gallery_labels).counts
    single, concatenated = EnsembleRanking(
        folds, query_labels, reference_folds, reference_labels, recall_at
    ).metrics(positives)
    remaining = iter(single)
    by_fold = [list(itertools.islice(remaining, len(fold))) for fold in folds]
    separated = [
        {name: np.mean([metrics[name] for metrics in models]) for name in single[0]}
        for models in itertools.product(*by_fold)
    ]
    num_queries = int(np.count_nonzero(positives))
    return {
        "separated": _over_choices(separated),
        "concatenated": _over_choices(concatenated),
        "choices": len(concatenated),
        "num_queries": num_queries,
        "num_skipped": len(positives) - num_queries,
    }


def _checked_folds(folds, name):
    """Embeddings of each fold's models as arrays with equal numbers of rows."""
    folds = [
        [checked_embeddings(model, f"{name}[{f}][{r}]") for r, model in enumerate(fold)]
        for f, fold in enumerate(folds)
    ]
    if not folds or not all(folds):
        raise ValueError(
            f"{name} must hold the embeddings of at least one model for every fold; received "
            f"{[len(fold) for fold in folds]} models."
        )
    sizes = {len(model) for fold in folds for model in fold}
    if len(sizes) > 1:
        raise ValueError(
            f"{name} of all models must be of the same images; received {sorted(sizes)} rows."
        )
    return folds


def _over_choices(metrics):
    """Mean and sample standard deviation of each metric."""
    values = {name: [choice[name] for choice in metrics] for name in metrics[0]}
    return {
        "mean": {name: float(np.mean(v)) for name, v in values.items()},
        "std": {
            name: float(np.std(v, ddof=1)) if len(v) > 1 else None for name, v in values.items()
        },
    }
