"""The report page of runs."""

from pathlib import Path

import numpy as np

from gsp_tf.experiment.data import evaluation_batches, load_splits
from gsp_tf.experiment.folder import RunFolder
from gsp_tf.experiment.model import features_model
from gsp_tf.experiment.place_maps import maps_of_head
from gsp_tf.recipe import recipe_text
from gsp_tf.training import embed
from gsp_tf.visual import RunSummary, write_report

MAX_IMAGES = 4000


def report_runs(paths, report_path, title, splits=None):
    """Write one page about runs with the same test images.

    Of more than 4,000 test images a random sample of that many is shown; the metrics are those of
    all of them. Where the test images are queries and a gallery, the pictures are of the gallery.

    Args:
        paths: run folders.
        report_path: file to write.
        title: heading of the page.
        splits: what `load_splits` gives for the runs' recipes, if it is at hand.

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
    shown = np.arange(len(test))
    if len(test) > MAX_IMAGES:
        shown = np.sort(np.random.default_rng(0).choice(len(test), MAX_IMAGES, replace=False))
    runs = [
        _summarize(folder, recipe, test, shown)
        for folder, recipe in zip(folders, recipes, strict=True)
    ]
    return write_report(Path(report_path), title, runs)


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


def _summarize(folder, recipe, test, shown):
    embedder = folder.learner(compile=False).embedder
    dataset = evaluation_batches(recipe, test)
    images, maps = [], []
    embeddings, labels = embed(embedder, _keep_shown(dataset, shown, embedder, images, maps))
    metrics = folder.metrics()
    return RunSummary(
        name=recipe.name,
        metrics=metrics.get("test", {}),
        history=folder.history(),
        images=np.concatenate(images),
        labels=labels[shown],
        class_names=test.class_names,
        embeddings=embeddings[shown],
        pooling_weights=_joined([batch.weights for batch in maps]),
        correlations=_joined([batch.correlations for batch in maps]),
        recipe=recipe_text(recipe),
        projections=metrics.get("projections", []),
        notes=_notes(recipe, metrics, test, shown),
    )


def _joined(batches):
    return None if batches[0] is None else np.concatenate(batches)


def _keep_shown(dataset, shown, embedder, images, maps):
    """Pass batches on; keep the images that are shown, and where their embeddings come from."""
    features, head = features_model(embedder)
    is_shown = np.zeros(shown[-1] + 1, bool)
    is_shown[shown] = True
    start = 0
    for batch, labels in dataset:
        chosen = is_shown[start : start + len(batch)]
        kept = batch.numpy()[: len(chosen)][chosen]
        start += len(batch)
        if len(kept):
            images.append(np.clip(np.rint(kept), 0, 255).astype("uint8"))
            maps.append(maps_of_head(head, features(kept, training=False)))
        yield batch, labels


def _notes(recipe, metrics, test, shown):
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
            "This is the best model until then."
        )
    if metrics.get("best_epoch", 0) is None:
        notes.append("No epoch was better than the untrained model, which is shown here.")
    return notes
