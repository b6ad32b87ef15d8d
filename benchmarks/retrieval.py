"""What retrieval metrics cost beside the bare search of faiss, and ensembles beside one evaluation.

`.venv/bin/python benchmarks/retrieval.py` prints, at the size of SOP's test set (60,502 images of
11,316 classes), times taken alternately in one run and peaks of memory in fresh processes (Linux);
`--images 6000 --references 60000` makes it quick. Times are medians of few rounds, as one takes
long at full size; `--rounds` sets their number.

One evaluation is `retrieval_metrics` of one concatenation, four models of 128 dimensions side by
side. The embeddings are noise around class centres, rotated for each model, plus noise of its own.
"""

import argparse
import statistics
import time

import faiss
import numpy as np
from measure import in_fresh_processes, peak_bytes
from rich.console import Console
from rich.table import Table

from gsp_tf.evaluation import ensemble_metrics, retrieval_metrics

DIM = 128
IMAGES_PER_CLASS = 60_502 / 11_316
FOLDS, REPEATS = 4, 3
QUERIES = 2_000
RECALL_AT = (1, 2, 4, 8)


def models(num_images, folds=FOLDS, repeats=REPEATS, seed=0):
    """Labels, and for each fold the unit embeddings of its models."""
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


def task(name, num_images, num_references):
    """Arguments of `retrieval_metrics`."""
    if name == "query and gallery":
        labels, [[embeddings]] = models(num_images, 1, 1)
        half = num_images // 2
        return embeddings[:half], labels[:half], embeddings[half:], labels[half:]
    if name == "among themselves":
        labels, [[embeddings]] = models(num_images, 1, 1)
        return embeddings, labels
    rng = np.random.default_rng(0)
    references = rng.standard_normal((num_references, DIM), np.float32)
    labels = rng.integers(0, round(num_references / IMAGES_PER_CLASS), num_references)
    some = rng.choice(num_references, min(QUERIES, num_references), replace=False)
    return references[some], labels[some], references, labels


def bare_search(queries, query_labels, references=None, reference_labels=None):
    """The k nearest, and the query itself among them if there are no other references."""
    labels = query_labels if references is None else reference_labels
    most = np.bincount(labels).max() + (references is not None) - 1
    index = faiss.IndexFlatL2(DIM)
    index.add(queries if references is None else references)
    return index.search(queries, int(max(most, *RECALL_AT)) + (references is None))


def peak(name, num_images, num_references):
    """Peak bytes of `retrieval_metrics` above the embeddings."""
    few = models(200, 1, 1)
    retrieval_metrics(few[1][0][0], few[0])
    arguments = task(name, num_images, num_references)
    return peak_bytes(lambda: retrieval_metrics(*arguments))


def seconds(functions, rounds):
    """Median seconds of each function, all of them in turn in every round."""
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}


def print_retrieval(console, names, sizes, rounds):
    peaks = in_fresh_processes(peak, [(name, *sizes) for name in names])
    table = Table(title=f"Retrieval metrics, {DIM} dimensions, {rounds} rounds")
    for column in ("references", "faiss, s", "metrics, s", "ratio", "MB above embeddings"):
        table.add_column(column, justify="left" if column == "references" else "right")
    for name, peak_of in zip(names, peaks, strict=True):
        arguments = task(name, *sizes)
        taken = seconds(
            {
                "faiss": lambda given=arguments: bare_search(*given),
                "metrics": lambda given=arguments: retrieval_metrics(*given),
            },
            rounds,
        )
        ratio = taken["metrics"] / taken["faiss"]
        cells = f"{taken['faiss']:.2f}", f"{taken['metrics']:.2f}", f"{ratio:.2f}"
        table.add_row(name, *cells, f"{peak_of / 1e6:.0f}")
    console.print(table)


def print_ensembles(console, num_images, rounds):
    labels, folds = models(num_images)
    concatenation = np.concatenate([fold[0] for fold in folds], axis=1)
    taken = seconds(
        {
            "one evaluation": lambda: retrieval_metrics(concatenation, labels),
            "ensembles": lambda: ensemble_metrics(folds, labels),
        },
        rounds,
    )
    table = Table(title=f"{REPEATS**FOLDS} ensembles of {num_images:,} images, {rounds} rounds")
    for column in ("one evaluation, s", "ensembles, s", "ratio"):
        table.add_column(column, justify="right")
    ratio = taken["ensembles"] / taken["one evaluation"]
    table.add_row(*(f"{value:.2f}" for value in taken.values()), f"{ratio:.2f}")
    console.print(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=60_502)
    parser.add_argument("--references", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    console = Console()
    names = ["among themselves", "query and gallery", f"{options.references:,}, in blocks"]
    print_retrieval(console, names, (options.images, options.references), options.rounds)
    print_ensembles(console, options.images, options.rounds)


if __name__ == "__main__":
    main()
