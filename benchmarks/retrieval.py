"""Costs of retrieval metrics relative to a bare faiss search, and of ensembles to one evaluation.

`.venv/bin/python benchmarks/retrieval.py` prints times taken alternately in one run and peaks of
memory in fresh processes (Linux). The sizes are those of SOP's test set (60,502 images of 11,316
classes) and a million references.

One evaluation is `retrieval_metrics` of four concatenated models of 128 dimensions. The embeddings
are noise around class centres, rotated for each model, plus separate noise per model.
"""

from dataclasses import dataclass

import faiss
import numpy as np
from measure import in_fresh_processes, medians, peak_bytes
from results import Ratio, Table, main

from gsp_tf.evaluation import ensemble_metrics, retrieval_metrics

DIM = 128
IMAGES_PER_CLASS = 60_502 / 11_316
RECALL_AT = (1, 2, 4, 8)
AMONG_THEMSELVES, GALLERY, MANY = "among themselves", "query and gallery", "many references"
TIME_AT_MOST = 1.15
MEGABYTES_AT_MOST = 600
ENSEMBLES_AT_MOST = 6


@dataclass(frozen=True)
class Sizes:
    """Images; queries for many references; models of an ensemble and choices per model; rounds."""

    images: int
    queries: int
    references: int
    folds: int
    repeats: int
    rounds: int


FULL = Sizes(60_502, 2_000, 1_000_000, 4, 3, 3)
QUICK = Sizes(300, 20, 1_000, 2, 2, 2)


def models(num_images, folds, repeats, seed=0):
    """Labels, and the unit embeddings of the models of each fold."""
    rng = np.random.default_rng(seed)
    num_classes = max(1, round(num_images / IMAGES_PER_CLASS))
    labels = rng.integers(0, num_classes, num_images)
    images = rng.normal(size=(num_classes, DIM))[labels] + rng.normal(size=(num_images, DIM))
    return labels, [[_model(images, rng) for _ in range(repeats)] for _ in range(folds)]


def _model(images, rng):
    rotation, _ = np.linalg.qr(rng.normal(size=(DIM, DIM)))
    embeddings = images @ rotation + 0.8 * rng.normal(size=images.shape)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings.astype("float32")


def task(name, sizes):
    """Arguments of `retrieval_metrics`."""
    if name == MANY:
        rng = np.random.default_rng(0)
        references = rng.standard_normal((sizes.references, DIM), np.float32)
        labels = rng.integers(0, round(sizes.references / IMAGES_PER_CLASS), sizes.references)
        some = rng.choice(sizes.references, sizes.queries, replace=False)
        return references[some], labels[some], references, labels
    labels, [[embeddings]] = models(sizes.images, 1, 1)
    if name == AMONG_THEMSELVES:
        return embeddings, labels
    half = sizes.images // 2
    return embeddings[:half], labels[:half], embeddings[half:], labels[half:]


def bare_search(queries, query_labels, references=None, reference_labels=None):
    """The k nearest neighbours, which include the query if there are no separate references."""
    labels = query_labels if references is None else reference_labels
    most = np.bincount(labels).max() + (references is not None) - 1
    index = faiss.IndexFlatL2(DIM)
    index.add(queries if references is None else references)
    return index.search(queries, int(max(most, *RECALL_AT)) + (references is None))


def peak(name, sizes):
    """Peak bytes of `retrieval_metrics` beyond the embeddings, at least one."""
    labels, [[embeddings]] = models(200, 1, 1)
    retrieval_metrics(embeddings, labels)
    arguments = task(name, sizes)
    return max(1, peak_bytes(lambda: retrieval_metrics(*arguments)))


def searches(sizes):
    names = AMONG_THEMSELVES, GALLERY, MANY
    peaks = in_fresh_processes(peak, [(name, sizes) for name in names])
    rows = []
    for name, most in zip(names, peaks, strict=True):
        arguments = task(name, sizes)
        num_queries, num_references = len(arguments[0]), len(arguments[-1])
        functions = {"faiss": bare_search, "metrics": retrieval_metrics}
        taken = medians(functions, arguments, sizes.rounds, warm_up=1)
        ratio = Ratio(taken["metrics"] / taken["faiss"], TIME_AT_MOST)
        rows.append(
            (name, num_queries, num_references)
            + (taken["faiss"] / 1e3, taken["metrics"] / 1e3, ratio)
            + (Ratio(most / 1e6, MEGABYTES_AT_MOST, unit=" MB"),)
        )
    columns = ["references", "queries", "number", "faiss, s", "metrics, s", "times faiss"]
    columns += ["above embeddings"]
    note = f"Medians of {sizes.rounds} rounds."
    return Table(f"Retrieval metrics, {DIM} dimensions", columns, rows, note)


def ensembles(sizes):
    labels, folds = models(sizes.images, sizes.folds, sizes.repeats)
    concatenation = np.concatenate([fold[0] for fold in folds], axis=1)
    functions = {
        "one evaluation": lambda: retrieval_metrics(concatenation, labels),
        "ensembles": lambda: ensemble_metrics(folds, labels),
        "one model": lambda: retrieval_metrics(folds[0][0], labels),
    }
    taken = medians(functions, (), sizes.rounds, warm_up=1)
    one = taken["one evaluation"]
    alone = sizes.folds * sizes.repeats * taken["one model"]
    cells = [ms / 1e3 for ms in taken.values()]
    cells += [Ratio(taken["ensembles"] / one, ENSEMBLES_AT_MOST), Ratio(alone / one)]
    columns = ["one evaluation, s", "ensembles, s", "one model alone, s"]
    columns += ["ensembles, times one evaluation", "all models alone, times one evaluation"]
    return Table(
        f"{sizes.repeats**sizes.folds} ensembles of {sizes.folds * sizes.repeats} models, "
        f"{sizes.images:,} images",
        columns,
        [cells],
        f"Medians of {sizes.rounds} rounds. Ensembles include the metrics of every model alone.",
    )


def run(quick=False):
    sizes = QUICK if quick else FULL
    return [searches(sizes), ensembles(sizes)]


if __name__ == "__main__":
    main(run)
