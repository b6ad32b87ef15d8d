"""GSP with eight prototypes, with and without the zero-shot loss (GSP paper, Fig. 5).

python experiments/studies/zero_shot_prototypes.py [--runs FOLDER] [--seeds "[0, 1, 2]"]

Trains both models with every seed, or takes those that are in the folder. Writes retrieval on the
test classes, in percent, and how often a class is found, in percent, by a regression from
attributes to mean embeddings of classes that is fitted on other classes: over random draws of ten
of the training classes, or of the unseen ones, in halves of five.
"""

import numpy as np
import pictures
import records
from collage import TRAINING, UNSEEN
from jsonargparse import auto_cli
from sweep import retrieval_rows, sweep, titled

from gsp_tf.evaluation import zero_shot_prediction
from gsp_tf.runs import evaluation_batches, features_model, load_splits
from gsp_tf.training import embed
from gsp_tf.visual import INK, attribute_histograms, dominant_prototypes, transparent_figure

GSP, ZERO_SHOT = "GSP", "GSP + zero-shot"
ZERO_SHOT_OPTIONS = [
    "--zero_shot.weight=0.5",
    "--training.learning_rate_multipliers={class_embeddings: 10}",
]
VARIANTS = {
    GSP: ("zero_shot_prototypes_gsp", []),
    ZERO_SHOT: ("zero_shot_prototypes_gsp-zs", ZERO_SHOT_OPTIONS),
}
CLASSES_DRAWN = 10
CLASSES_SHOWN, IMAGES_SHOWN = 6, 2


def attributes_of(embedder, recipe, images):
    """Images `(N, S, S, channels)`, attribute maps `(N, h, w, m)` and attributes `(N, m)`."""
    features, pooling = features_model(embedder)
    pixels, maps = [], []
    for batch, _ in evaluation_batches(recipe, images):
        pixels.append(np.rint(batch.numpy()).astype(np.uint8))
        maps.append(pooling.attribute_maps(features(batch, training=False)).numpy())
    maps = np.concatenate(maps)
    return np.concatenate(pixels), maps, maps.sum(axis=(1, 2))


def class_means(embeddings, labels):
    """Mean embedding `(C, D)` of every class.

    Args:
        embeddings: floats `(N, D)`.
        labels: integers `(N,)`, 0 to C - 1.
    """
    return np.stack([embeddings[labels == label].mean(axis=0) for label in np.unique(labels)])


def predictions(attributes, labels, class_embeddings, splits, seed):
    """Means of `zero_shot_prediction` over random draws of ten classes, each halved once.

    Args:
        attributes: floats `(N, m)`.
        labels: integers `(N,)`, 0 to C - 1.
        class_embeddings: floats `(C, D)`.
        splits: how many times ten classes are drawn; of fewer classes all are halved each time.
        seed: seed of the draws.
    """
    rng = np.random.default_rng(seed)
    count = min(CLASSES_DRAWN, len(class_embeddings))
    found = []
    for split in range(splits):
        drawn = np.sort(rng.permutation(len(class_embeddings))[:count])
        inside = np.isin(labels, drawn)
        renamed = np.searchsorted(drawn, labels[inside])
        found.append(
            zero_shot_prediction(
                attributes[inside], renamed, class_embeddings[drawn], num_splits=1, seed=split
            )
        )
    return {name: np.mean([values[name] for values in found]) for name in found[0]}


def study(folders, splits):
    """Rows of `records.write`, and what the picture shows of the first seed.

    Args:
        folders: dict from `(variant, seed)` to the `RunFolder`, as `VARIANTS` names them.
        splits: as `main` takes it.

    Returns:
        rows; a dict from variant to images, labels, attribute maps and attributes of the unseen
        classes; and the names of these classes.
    """
    rows, shown = retrieval_rows(folders), {}
    first = min(seed for _, seed in folders)
    images = load_splits(next(iter(folders.values())).recipe())
    for (variant, seed), folder in folders.items():
        embedder = folder.learner(compile=False).embedder
        for classes, part in ((TRAINING, images.train), (UNSEEN, images.test)):
            pixels, maps, attributes = attributes_of(embedder, folder.recipe(), part)
            embeddings, labels = embed(embedder, evaluation_batches(folder.recipe(), part))
            means = class_means(embeddings, labels)
            found = predictions(attributes, labels, means, splits, seed)
            random = np.random.default_rng(seed).normal(size=means.shape)
            control = predictions(attributes, labels, random, splits, seed)
            values = {**found, "random embeddings": control["cosine"]}
            rows += [(variant, seed, f"{k}, {classes}", 100 * v) for k, v in values.items()]
        if seed == first:
            shown[variant] = pixels, part.labels, maps, attributes
    return rows, shown, images.test.class_names


def picture(rows, shown, class_names):
    """Histograms of some unseen classes, prototypes over images of them, and the accuracies."""
    figure = transparent_figure(9.0, 7.6)
    figure.set_layout_engine("constrained")
    above, middle, below = figure.subfigures(3, 1, height_ratios=[3, 2, 2])
    labels = next(iter(shown.values()))[1]
    classes = np.linspace(0, labels.max(), CLASSES_SHOWN).astype(int)
    attributes = {variant: drawn[3] for variant, drawn in shown.items()}
    names = [name.replace("/", "\n") for name in class_names]
    attribute_histograms(attributes, labels, names, classes, figure=above)
    chosen = np.concatenate([np.flatnonzero(labels == c)[:IMAGES_SHOWN] for c in classes])
    panels = middle.subplots(len(shown), len(chosen))
    for line, (variant, (pixels, _, maps, _)) in zip(panels, shown.items(), strict=True):
        line[0].set_ylabel(variant, color=INK, fontsize=8)
        for axes, tinted in zip(
            line, dominant_prototypes(pixels[chosen], maps[chosen]), strict=True
        ):
            axes.imshow(tinted)
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
    for axes, classes in zip(below.subplots(1, 2, sharey=True), (TRAINING, UNSEEN), strict=True):
        _draw_accuracies(axes, rows, classes)
    pictures.draw_legend(below, axes)
    return figure


def _draw_accuracies(axes, rows, classes):
    """Dots of every seed for each rule of prediction, one colour a variant."""
    rules = ("euclidean", "cosine", "random embeddings", "chance")
    points = {
        variant: [
            (rules.index(quantity.partition(",")[0]) + 0.24 * position - 0.12, value)
            for name, _, quantity, value in rows
            if name == variant and quantity.endswith(f", {classes}")
        ]
        for position, variant in enumerate(VARIANTS)
    }
    pictures.draw_dots(axes, points, f"Zero-shot accuracy (%), {classes}")
    axes.set(xlim=(-0.5, 3.5), xticks=range(4))
    axes.set_xticklabels(["Euclidean", "cosine", "random embeddings,\ncosine", "chance"])


def main(
    recipe: tuple[str, ...] = ("experiments/zero_shot_prototypes.yaml",),
    runs: str = "runs",
    seeds: tuple[int, ...] = (0, 1, 2),
    jobs: int = 1,
    splits: int = 1000,
    out: str = "experiments/results/studies/zero_shot_prototypes.csv",
    figure: str = "docs/figures/zero_shot_prototypes.png",
):
    """GSP with eight prototypes, with and without the zero-shot loss.

    Args:
        recipe: YAML files of the model without the loss.
        runs: folder of the run folders `zero_shot_prototypes_NAME-SEED`.
        seeds: seeds of the runs.
        jobs: runs at the same time.
        splits: how many times ten classes are drawn and halved.
        out: CSV file of the numbers.
        figure: PNG file of the picture.
    """
    trained = sweep(recipe, dict(VARIANTS.values()), seeds, runs, jobs)
    rows, shown, class_names = study(titled(trained, VARIANTS), splits)
    records.write(out, rows)
    pictures.save(picture(rows, shown, class_names), figure)
    print(records.table(out))


if __name__ == "__main__":
    auto_cli(main, as_positional=False)
