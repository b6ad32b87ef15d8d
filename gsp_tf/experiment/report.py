"""The report page of runs."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from gsp_tf.data import central_window, resize_window
from gsp_tf.experiment.data import load_splits
from gsp_tf.experiment.evaluate import kept_embeddings
from gsp_tf.experiment.folder import RunFolder
from gsp_tf.recipe import recipe_text
from gsp_tf.visual import RunSummary, write_report


def report_runs(paths, report_path, title, splits=None):
    """Write one page about runs with the same test images.

    The embeddings are those that `evaluate_run` has kept; a run without them is embedded. Only the
    images that the page shows are read. Where the test images are queries and a gallery, the
    pictures are of the gallery.

    Args:
        paths: run folders.
        report_path: file to write.
        title: heading of the page.
        splits: what `load_splits` gives for the runs' recipes, if it is loaded already.

    Returns:
        pathlib.Path of the page.

    Raises:
        FileNotFoundError: if a folder is not a run folder.
        ValueError: if the runs were not evaluated on the same images.

    Example:
        >>> report_runs(["no/such/run"], "report.html", "One run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    folders = [RunFolder.open(path) for path in paths]
    recipes = [folder.recipe() for folder in folders]
    _check_same_images(recipes)
    splits = splits or load_splits(recipes[0])
    test = splits.test if splits.gallery is None else splits.gallery
    images = _ViewedImages(recipes[0], test)
    runs = [
        _summarize(folder, recipe, splits, images)
        for folder, recipe in zip(folders, recipes, strict=True)
    ]
    return write_report(Path(report_path), title, runs)


class _ViewedImages:
    """Images as evaluation sees them, uint8 `(S, S, channels)`, each read when it is asked for."""

    def __init__(self, recipe, images):
        self.images, self._data = images, recipe.data
        self.paths = getattr(images, "paths", None)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        size, resize = self._data.image_size, self._data.resize
        with tf.device("CPU"):
            seed = tf.constant([0, index], tf.int64)
            window = self.images.load_window(
                seed[1], seed, lambda shape: central_window(shape, size, resize), size
            )
            image = resize_window(window, size, self.images.channels).numpy()
        return np.clip(np.rint(image), 0, 255).astype("uint8")


_TEST_IMAGES = (
    "name",
    "path",
    "image_size",
    "resize",
    "split_fractions",
    "split_seed",
    "collage",
)


def _check_same_images(recipes):
    for recipe in recipes[1:]:
        if _test_half(recipe.protocol) != _test_half(recipes[0].protocol):
            raise ValueError(
                "One report is about runs with the same test images; protocol.name of "
                f"{recipe.name} is {recipe.protocol.name}, of {recipes[0].name} "
                f"{recipes[0].protocol.name}."
            )
        for name in _TEST_IMAGES:
            ours, theirs = getattr(recipe.data, name), getattr(recipes[0].data, name)
            if ours != theirs:
                raise ValueError(
                    f"One report is about runs with the same test images; data.{name} of "
                    f"{recipe.name} is {ours}, of {recipes[0].name} {theirs}."
                )


def _test_half(protocol):
    """What of a protocol decides the test images."""
    return protocol.name if protocol.name in ("fractions", "tuning") else "halves"


def _summarize(folder, recipe, splits, images):
    kept = kept_embeddings(folder, recipe, splits)
    embeddings, labels = kept.queries, kept.query_labels
    if kept.references is not None:
        embeddings, labels = kept.references, kept.reference_labels
    metrics = folder.metrics()
    return RunSummary(
        name=recipe.name,
        metrics=metrics.get("test", {}),
        history=folder.history(),
        images=images,
        labels=labels,
        class_names=images.images.class_names,
        embeddings=embeddings,
        pooling_weights=_by_image(kept.examples, kept.weights),
        correlations=_by_image(kept.examples, kept.correlations),
        paths=images.paths,
        recipe=recipe_text(recipe),
        projections=metrics.get("projections", []),
        notes=_notes(recipe, metrics, images.images),
    )


def _by_image(indices, maps):
    return None if maps is None else dict(zip(indices.tolist(), maps, strict=True))


def _notes(recipe, metrics, test):
    classes = metrics.get("num_classes", {})
    of_groups = recipe.data.collage.label == "super_class"
    kind = "super-classes with classes" if of_groups else "classes"
    notes = [
        f"Evaluated on {metrics.get('test', {}).get('num_queries', 0):,} images of "
        f"{len(test.class_names)} {kind} that were not seen in training "
        f"({classes.get('train')} {kind.split()[0]})"
    ]
    if recipe.protocol.name in ("conventional", "tuning"):
        notes[0] += (
            ". The model was chosen by these same images, so the figures are too high for classes "
            f"never seen (protocol {recipe.protocol.name})."
        )
    else:
        notes[0] += (
            f" or in the choice of the model ({classes.get('validation')} {kind.split()[0]})."
        )
    if metrics.get("status") == "interrupted":
        notes.append(
            f"Training was interrupted after {metrics['epochs']} epochs; this is the best model "
            "until then."
        )
    if metrics.get("status") == "diverged":
        epoch, step = metrics["diverged_at"]
        notes.append(
            f"Training diverged: the loss was not finite in epoch {epoch + 1}, step {step + 1}. "
            "This is the best model until then."
        )
    if metrics.get("best_epoch", 0) is None:
        notes.append("No epoch was better than the untrained model, which is shown here.")
    return notes
