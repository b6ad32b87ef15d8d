"""The report page of runs."""

import csv
from pathlib import Path

import numpy as np

from gsp_tf.data import evaluation_dataset
from gsp_tf.experiment.data import load_splits
from gsp_tf.experiment.model import pooling_weights
from gsp_tf.experiment.run import RunFolder
from gsp_tf.recipe import recipe_text
from gsp_tf.training import embed
from gsp_tf.visual import RunSummary, write_report

MAX_IMAGES = 4000


def report_runs(paths, report_path, title, splits=None):
    """Write one page about runs with the same test images.

    Of more than 4,000 test images a random sample of that many is shown; the metrics are those of
    all of them.

    Args:
        paths: run folders.
        report_path: file to write.
        title: heading of the page.
        splits: what `load_splits` gives for the runs' recipes, if it is at hand.

    Returns:
        pathlib.Path of the page.

    Raises:
        FileNotFoundError: if a folder is not a run folder.
    """
    folders = [RunFolder.open(path) for path in paths]
    recipes = [folder.recipe() for folder in folders]
    test = (splits or load_splits(recipes[0].data))[2]
    shown = np.arange(len(test))
    if len(test) > MAX_IMAGES:
        shown = np.sort(np.random.default_rng(0).choice(len(test), MAX_IMAGES, replace=False))
    runs = [
        _summarize(folder, recipe, test, shown)
        for folder, recipe in zip(folders, recipes, strict=True)
    ]
    return write_report(Path(report_path), title, runs)


def _summarize(folder, recipe, test, shown):
    embedder = folder.learner().embedder
    dataset = evaluation_dataset(test, recipe.data.image_size, recipe.evaluation.batch_size)
    embeddings, labels = embed(embedder, dataset)
    images, weights = [], []
    chosen = set(shown.tolist())
    start = 0
    for batch, _ in dataset:
        rows = [i for i in range(len(batch)) if start + i in chosen]
        start += len(batch)
        if not rows:
            continue
        batch = batch.numpy()[rows]
        images.append(np.clip(np.rint(batch), 0, 255).astype("uint8"))
        weights.append(pooling_weights(embedder, batch))
    metrics = folder.metrics()
    return RunSummary(
        name=recipe.name,
        metrics=metrics.get("test", {}),
        history=read_history(folder.history_path),
        images=np.concatenate(images),
        labels=labels[shown],
        class_names=test.class_names,
        embeddings=embeddings[shown],
        pooling_weights=None if weights[0] is None else np.concatenate(weights),
        recipe=recipe_text(recipe),
        notes=_notes(metrics, test, shown),
    )


def _notes(metrics, test, shown):
    classes = metrics.get("num_classes", {})
    notes = [
        f"Evaluated on {len(test):,} images of {len(test.class_names)} classes that were not seen "
        f"in training ({classes.get('train')} classes) or in the choice of the model "
        f"({classes.get('validation')} classes)."
    ]
    if len(shown) < len(test):
        notes.append(f"The pictures below come from a random sample of {len(shown):,} of them.")
    if metrics.get("status") == "interrupted":
        notes.append(
            f"Training was interrupted after {metrics['epochs']} epochs; this is the best model "
            "until then."
        )
    if metrics.get("status") == "diverged":
        epoch, step = metrics["diverged_at"]
        notes.append(
            f"Training diverged: the loss was not finite in epoch {epoch + 1}, step {step + 1}. "
            "This is the last good model."
        )
    if metrics.get("best_epoch", 0) is None:
        notes.append("No epoch was better than the untrained model, which is shown here.")
    return notes


def read_history(path):
    """Columns of a run's `history.csv`.

    Args:
        path: the file; it may be missing or empty.

    Returns:
        dict from name to list of float, one value an epoch.

    Example:
        >>> read_history("no/such/history.csv")
        {}
    """
    if not Path(path).exists():
        return {}
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = rows[0].keys() if rows else ()
    return {name: [float(row[name]) for row in rows] for name in names if name != "epoch"}
