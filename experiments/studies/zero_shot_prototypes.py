"""GSP with eight prototypes, with and without the zero-shot loss (GSP paper, Fig. 5).

The table has retrieval on the test classes, in percent, and how often a class is found, in percent,
by a regression from attributes to mean embeddings of classes that is fitted on other classes: over
random draws of ten of the training classes, or of the unseen ones, in halves of five.
"""

import numpy as np
import pictures
from sweep import HERE, TRAINING, UNSEEN, embedded, opened, retrieval_rows, titled_sweep

from gsp_tf.evaluation import zero_shot_prediction
from gsp_tf.runs import evaluation_batches, features_model
from gsp_tf.visual import INK, attribute_histograms, dominant_prototypes, transparent_figure

VARIANTS = {
    "GSP": ("zero_shot_prototypes_gsp", []),
    "GSP + zero-shot": (
        "zero_shot_prototypes_gsp-zs",
        [
            "--zero_shot.weight=0.5",
            "--training.learning_rate_multipliers={class_embeddings: 10}",
        ],
    ),
}
CLASSES_DRAWN = 10
CLASSES_SHOWN, IMAGES_SHOWN = 6, 2
RULES = ("euclidean", "cosine", "random embeddings", "chance")


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
    """Mean embedding `(C, D)` of every class."""
    return np.stack([embeddings[labels == label].mean(axis=0) for label in np.unique(labels)])


def predictions(attributes, labels, class_embeddings, splits, seed):
    """Means of `zero_shot_prediction` over draws of ten classes, or of all that are fewer, each
    halved once. Labels are 0 to C - 1."""
    rng = np.random.default_rng(seed)
    count = min(CLASSES_DRAWN, len(class_embeddings))
    found = []
    for split in range(splits):
        drawn = np.sort(rng.permutation(len(class_embeddings))[:count])
        inside = np.isin(labels, drawn)
        of_drawn = attributes[inside], np.searchsorted(drawn, labels[inside])
        found.append(
            zero_shot_prediction(*of_drawn, class_embeddings[drawn], num_splits=1, seed=split)
        )
    return {name: np.mean([values[name] for values in found]) for name in found[0]}


def study(
    recipe: tuple[str, ...] = (str(HERE / "zero_shot_prototypes.yaml"),),
    runs: str = "runs",
    seeds: tuple[int, ...] = (0, 1, 2),
    jobs: int = 1,
    splits: int = 1000,
):
    """Trains what is missing, and draws and halves classes as many times as `splits`."""
    return measured(titled_sweep(recipe, VARIANTS, seeds, runs, jobs), splits)


def measured(folders, splits):
    """Rows, and the picture of the unseen classes of the first seed."""
    rows, shown = retrieval_rows(folders), {}
    first = min(seed for _, seed in folders)
    for (variant, seed), recipe, images, embedder in opened(folders):
        for classes, part in ((TRAINING, images.train), (UNSEEN, images.test)):
            pixels, maps, attributes = attributes_of(embedder, recipe, part)
            embeddings, labels = embedded(embedder, recipe, part)
            means = class_means(embeddings, labels)
            found = predictions(attributes, labels, means, splits, seed)
            random = np.random.default_rng(seed).normal(size=means.shape)
            control = predictions(attributes, labels, random, splits, seed)
            values = {**found, "random embeddings": control["cosine"]}
            rows += [(variant, seed, f"{k}, {classes}", 100 * v) for k, v in values.items()]
        if seed == first:
            shown[variant] = pixels, part.labels, maps, attributes
    return rows, {"zero_shot_prototypes": _picture(rows, shown, images.test.class_names)}


def _picture(rows, shown, class_names):
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
    for axes, part in zip(below.subplots(1, 2, sharey=True), (TRAINING, UNSEEN), strict=True):
        points = {
            variant: [
                (RULES.index(quantity.partition(",")[0]) + 0.24 * position - 0.12, value)
                for name, _, quantity, value in rows
                if name == variant and quantity.endswith(f", {part}")
            ]
            for position, variant in enumerate(VARIANTS)
        }
        pictures.draw_dots(axes, points, f"Zero-shot accuracy (%), {part}")
        axes.set(xlim=(-0.5, 3.5), xticks=range(4))
        axes.set_xticklabels(["Euclidean", "cosine", "random embeddings,\ncosine", "chance"])
    pictures.draw_legend(below, axes)
    return figure
