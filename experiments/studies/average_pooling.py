"""Average pooling as a convex combination of prototypes (Gürbüz, thesis 2022, section 4.2).

python experiments/studies/average_pooling.py [--data FOLDER] [--seeds "[0,1,2]"] [--steps 300]

For every seed conv4 is trained with average pooling and ProxyNCA++ on half of the Omniglot
characters. The prototypes are local features chosen by greedy k-center, of the training images or
of the images of unseen classes, or the centres of k-means. Written down for each number m of
prototypes: their covering radius, the mean distance of a feature to its prototype, the distance of
the average of an image's features to the convex combination of prototypes (largest, mean, and the
mean relative to the mean distance of the averages from their own mean), and the P@1 of a retrieval
with the combinations in place of the averages.
"""

from pathlib import Path

import keras
import numpy as np
import pictures
import records
import tensorflow as tf
from jsonargparse import auto_cli
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA

from gsp_tf import backbones
from gsp_tf.data import evaluation_dataset, load_omniglot, split_classes, training_dataset
from gsp_tf.evaluation import average_pooling_error, prototype_partition, retrieval_metrics
from gsp_tf.layers import L2Normalization
from gsp_tf.losses import ProxyNCALoss
from gsp_tf.ops import greedy_k_center
from gsp_tf.training import MetricLearner
from gsp_tf.visual import RUN_COLORS, class_hulls, partition_maps

SHOWN_PROTOTYPES = 12
SHOWN_IMAGES = 8
SHOWN_CLASSES = 6
PANELS = {
    "train": "training classes",
    "unseen": "unseen classes",
    "unseen, prototypes of train": "unseen, prototypes of training",
    "unseen, k-means": "unseen, k-means",
}
LINES = ("radius", "largest error", "mean distance", "mean error")


def train(images, image_size, steps, seed):
    """A backbone and a head `(B, 64) -> (B, 64)`, with average pooling between the two."""
    keras.utils.set_random_seed(seed)
    backbone = backbones.create("conv4", (image_size, image_size, images.channels))
    head = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64), L2Normalization()])
    pooled = keras.layers.GlobalAveragePooling2D()(backbone.output)
    learner = MetricLearner(
        keras.Model(backbone.input, head(pooled)), ProxyNCALoss(len(images.class_names))
    )
    learner.compile(keras.optimizers.Adam(1e-3))
    num_classes = min(16, len(images.class_names))
    batches = training_dataset(images, image_size, num_classes, 4, seed=seed)
    learner.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=2)
    return backbone, head


def local_features(backbone, images):
    """Local features `(N, h, w, 64)` of all images."""
    batches = evaluation_dataset(images, backbone.input_shape[1], 256)
    return np.concatenate([backbone(batch, training=False) for batch, _ in batches])


def k_center(features, count):
    """Local features `(count, 64)` that cover all, by greedy k-center."""
    points = features.reshape(-1, features.shape[-1])
    return points[greedy_k_center(points, points[:0], count).numpy()]


def k_means(features, count):
    """Centres `(count, 64)` of clusters of the local features."""
    clusters = MiniBatchKMeans(count, batch_size=4096, n_init=1, random_state=0)
    return clusters.fit(features.reshape(-1, features.shape[-1])).cluster_centers_


def precision(head, pooled, labels):
    """P@1 of pooled features `(N, 64)`, embedded by the head."""
    return retrieval_metrics(head(pooled).numpy(), labels)["precision_at_1"]


def measure(features, prototypes, head, labels):
    """Quantities of one set of prototypes and one set of images."""
    partition = prototype_partition(features, prototypes)
    errors = average_pooling_error(features, prototypes, partition.histograms)
    averages = features.mean(axis=(1, 2))
    spread = np.linalg.norm(averages - averages.mean(axis=0), axis=1).mean()
    return {
        "radius": partition.distances.max(),
        "mean distance": partition.distances.mean(),
        "largest error": errors.max(),
        "mean error": errors.mean(),
        "relative error": errors.mean() / spread,
        "P@1": precision(head, partition.histograms @ prototypes, labels),
    }


def study(features, head, images, counts):
    """Yields `(variant, quantity, value)`.

    Args:
        features: dict from "train" and "unseen" to local features.
        head: the model behind the pooling.
        images: dict from the same to their `ImageSet`.
        counts: numbers of prototypes.
    """
    chosen = {name: k_center(part, max(counts)) for name, part in features.items()}
    for panel in PANELS:
        name = panel.split(",")[0]
        for count in counts:
            prototypes = chosen["train" if panel.endswith("train") else name][:count]
            if panel.endswith("k-means"):
                prototypes = k_means(features[name], count)
            values = measure(features[name], prototypes, head, images[name].labels)
            for quantity, value in values.items():
                yield f"{panel}, m = {count}", quantity, value
    for name, part in features.items():
        averages = part.mean(axis=(1, 2))
        yield f"{name}, GAP", "P@1", precision(head, averages, images[name].labels)


def curves(path, counts):
    """Radius, distance and errors against the number of prototypes, mean over the seeds."""
    values = records.read(path)
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey=True).flat
    for axes, (panel, title) in zip(panels, PANELS.items(), strict=True):
        for name, color in zip(LINES, RUN_COLORS, strict=False):
            of_seeds = [list(values[f"{panel}, m = {count}"][name].values()) for count in counts]
            axes.plot(counts, np.mean(of_seeds, axis=1), color=color, marker="o", label=name)
            axes.fill_between(
                counts, np.min(of_seeds, axis=1), np.max(of_seeds, axis=1), color=color, alpha=0.2
            )
        axes.set(title=title, xscale="log", yscale="log", xticks=counts)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid(alpha=0.2, which="both")
    figure.supxlabel("prototypes")
    figure.supylabel("distance")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(LINES))
    return figure


def drawings(features, images):
    """Yields names and figures: partitions of images of some classes, and hulls of classes.

    The plane of the hulls is that of the first two principal components of the averages.
    """
    firsts = np.unique(images.labels, return_index=True)[1]
    shown = firsts[:: -(-len(firsts) // SHOWN_IMAGES)]
    for choose in (k_center, k_means):
        prototypes = choose(features, SHOWN_PROTOTYPES)
        assignments = prototype_partition(features[shown], prototypes).assignments
        yield choose.__name__, partition_maps(images.images[shown], assignments)
    classes = range(0, len(firsts), -(-len(firsts) // SHOWN_CLASSES))
    few = np.isin(images.labels, classes)
    averages, labels = features[few].mean(axis=(1, 2)), images.labels[few]
    plane = PCA(2).fit(averages)
    points = plane.transform(features[few].reshape(-1, features.shape[-1]))
    owners = np.repeat(labels, len(points) // len(labels))
    yield "hulls", class_hulls(plane.transform(averages), labels)
    yield "feature_hulls", class_hulls(plane.transform(averages), labels, points, owners)


def main(
    data: str = "../shared/data",
    results: str = "experiments/results/studies",
    figures: str = "docs/figures",
    seeds: tuple[int, ...] = (0, 1, 2),
    steps: int = 300,
    image_size: int = 32,
    prototypes: tuple[int, ...] = (1, 4, 16, 64, 256),
):
    """Average pooling as a convex combination of prototypes.

    Args:
        data: folder of the Omniglot zip files.
        results: folder of average_pooling.csv.
        figures: folder of the pictures, those of images with the model of the first seed.
        seeds: seeds of weights and batches.
        steps: steps of training, of 64 images each.
        image_size: side of the images in pixels.
        prototypes: numbers of prototypes.
    """
    train_images, _, unseen = split_classes(load_omniglot(data, size=image_size))
    images = {"train": train_images, "unseen": unseen}
    rows, folder = [], Path(figures)
    for seed in seeds:
        backbone, head = train(train_images, image_size, steps, seed)
        features = {name: local_features(backbone, part) for name, part in images.items()}
        for variant, quantity, value in study(features, head, images, prototypes):
            rows.append((variant, seed, quantity, value))
        if seed == seeds[0]:
            for name, figure in drawings(features["unseen"], unseen):
                pictures.save(figure, folder / f"average_pooling_{name}.png", dpi=110)
    path = Path(results, "average_pooling.csv")
    records.write(path, rows)
    pictures.save(curves(path, prototypes), folder / "average_pooling.png", dpi=110)
    print(records.table(path))


if __name__ == "__main__":
    # So that sums do not depend on the number of cores.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    auto_cli(main, as_positional=False)
