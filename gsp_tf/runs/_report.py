"""What the report page shows of a run."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from gsp_tf._console import as_cell, counted
from gsp_tf.data import ViewedImages, evaluation_image
from gsp_tf.recipe import recipe_text
from gsp_tf.runs._baselines import baselines, ending_notes
from gsp_tf.runs.folder import RunFolder
from gsp_tf.runs.frozen import gain_text
from gsp_tf.visual import RunSummary, display_name

_COLUMNS = ("precision_at_1", "r_precision", "map_at_r")
_OF_CLASSIFIERS = ("accuracy",)
_OF_CLASSES = ("nmi", "ami", "f1", "class_wise_map_at_r")


def print_results(folders: Sequence[RunFolder]):
    """Print the test metrics of evaluated runs as one table, in percent.

    Below it stands which epoch the model of each run is of, and how a training was stopped.
    """
    runs = [(folder.recipe(), folder.metrics()) for folder in folders]
    recipe, result = runs[0]
    first = result["test"]
    recalls = [name for name in first if name.startswith("recall_at_") and name != "recall_at_1"]
    kinds = "image", "class" if "accuracy" in first else "unseen class"
    if recipe.data.name == "unlabelled":
        kinds = "view", "unseen image"
    queries, classes = map(counted, (first["num_queries"], result["num_classes"]["test"]), kinds)
    table = Table(title=f"{queries} of {classes}, in percent")
    table.add_column("run")
    columns = [
        *(name for name in _OF_CLASSIFIERS if name in first),
        *_COLUMNS,
        *recalls,
        *(name for name in _OF_CLASSES if name in first),
    ]
    for name in columns:
        table.add_column(display_name(name).replace("Recall", "R"), justify="right")
    rows = [  # the runs of a protocol start from the same network
        (as_cell(name), *_cells(baseline.metrics, columns))
        for recipe, result in runs
        for name, baseline in baselines(recipe, result).items()
    ]
    for row in dict.fromkeys(rows):
        table.add_row(*row)
    for recipe, result in runs:
        table.add_row(as_cell(recipe.name), *_cells(result["test"], columns))
    Console().print(table)
    for recipe, result in runs:
        for note in ending_notes(recipe, result):
            print(f"{recipe.name}: {note}")


def _cells(metrics, names):
    return tuple(f"{100 * metrics[name]:.2f}" if name in metrics else "–" for name in names)


class SeenImages:
    """Images as evaluation sees them, uint8 `(S, S, channels)`, each read on access."""

    def __init__(self, recipe, images):
        self.images, self._data = images, recipe.data
        self.paths = getattr(images, "paths", None)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = evaluation_image(self.images, index, self._data.image_size, self._data.resize)
        return np.clip(np.rint(image.numpy()), 0, 255).astype("uint8")


_TEST_IMAGES = (
    *("name", "path", "min_images_per_class", "split_fractions", "split_seed"),
    *("image_size", "resize", "collage", "canvas"),
)
_OF_VIEWS = "horizontal_flip", "min_crop_area", "augmentation"
_HALVES = "mlrc", "conventional", "ablation"


def check_same_images(recipes):
    """Refuse recipes whose runs have other test images than the first."""
    first = _test_images(recipes[0])
    for recipe in recipes[1:]:
        for field, value in _test_images(recipe).items():
            if value != first[field]:
                raise ValueError(
                    f"One report is about runs with the same test images; {field} of "
                    f"{recipe.name} is {value}, of {recipes[0].name} {first[field]}."
                )


def _test_images(recipe):
    """The fields of a recipe that determine its test images, by their names."""
    data, protocol = recipe.data, recipe.protocol.name
    names = (*_TEST_IMAGES, *(_OF_VIEWS if data.name == "unlabelled" else ()))
    return {
        **{f"data.{name}": getattr(data, name) for name in names},
        "protocol.name": " or ".join(_HALVES) if protocol in _HALVES else protocol,
        "trainer": "fit or ccp" if recipe.trainer in ("fit", "ccp") else recipe.trainer,
    }


def summary_of(recipe, folder, kept, images):
    """The `RunSummary` of a run with its test embeddings."""
    embeddings, labels = kept.queries, kept.query_labels
    if kept.references is not None:
        embeddings, labels = kept.references, kept.reference_labels
    metrics = folder.metrics()
    test = metrics.get("test", {})
    counts = {name: test[name] for name in test if name.startswith("num_")}  # the same queries
    ends = metrics.get("test_by_dim_intervals", {})
    return RunSummary(
        name=recipe.name,
        metrics=test,
        intervals=metrics.get("test_intervals", {}),
        history=folder.history(),
        untrained=metrics.get("untrained", {}),
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
        baselines={
            name: (baseline.metrics | counts, baseline.intervals)
            for name, baseline in baselines(recipe, metrics).items()
        },
        by_dim={
            int(dim): (values, ends.get(dim, {}))
            for dim, values in metrics.get("test_by_dim", {}).items()
        },
    )


def _by_image(indices, maps):
    return None if maps is None else dict(zip(indices.tolist(), maps, strict=True))


def _notes(recipe, metrics, test):
    health = [
        f"In training, at step {finding['step']:,}: {finding['text']}"
        for finding in metrics.get("health", [])
    ]
    notes = _evaluated_on(recipe, metrics, test), gain_text(recipe, metrics), *health
    return [*filter(None, notes), *ending_notes(recipe, metrics)]


def _evaluated_on(recipe, metrics, test):
    """Which images the figures are of, and what they can say."""
    classes = metrics.get("num_classes", {})
    queries = metrics.get("test", {}).get("num_queries", 0)
    of_groups = recipe.data.collage.label == "super_class"
    kind = "super-classes with classes" if of_groups else "classes"
    if recipe.trainer == "classification":
        return (
            f"Evaluated on {queries:,} images of the {len(test.class_names)} classes of training, "
            "which were not trained on. The retrieval figures are for these classes, not for "
            "unseen ones."
        )
    if isinstance(test, ViewedImages):
        return (
            f"Evaluated on {test.count} views of each of {len(test.images):,} images that were not "
            "seen in training: the figures say how often a view finds the others of its image, not "
            "how well classes are told apart."
        )
    note = (
        f"Evaluated on {queries:,} images of {len(test.class_names)} {kind} that were not seen in "
        f"training ({classes.get('train')} {kind.split()[0]})"
    )
    if recipe.protocol.name in ("conventional", "tuning"):
        return note + (
            ". The model was chosen by these same images, so the figures are too high for classes "
            f"never seen (protocol {recipe.protocol.name})."
        )
    return f"{note} or in the choice of the model ({classes.get('validation')} {kind.split()[0]})."
