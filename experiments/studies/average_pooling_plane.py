"""Average pooling in the plane (Gürbüz, thesis 2022, section 4.3, Fig. 4.2 to 4.4).

python experiments/studies/average_pooling_plane.py [--data FOLDER] [--seeds "[0,1,2]"]

For every seed a network is trained with average pooling on ten classes, and its local features are
mapped to the plane, linearly. 48 local features of test images are chosen as prototypes by greedy
k-center. Written down: their covering radius, how far the averages (GAP) lie from the convex
combinations of prototypes (PCC), the P@1 of both, and how classes share their active prototypes.
"""

from pathlib import Path

import keras
import numpy as np
import pictures
import records
import tensorflow as tf
from jsonargparse import auto_cli
from matplotlib.patches import Circle
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from ten_classes import ten_classes

from gsp_tf import backbones
from gsp_tf.data import evaluation_dataset, training_dataset
from gsp_tf.evaluation import (
    average_pooling_error,
    hull_overlap,
    prototype_partition,
    retrieval_metrics,
)
from gsp_tf.layers import L2Normalization
from gsp_tf.losses import ProxyNCALoss
from gsp_tf.ops import greedy_k_center
from gsp_tf.training import MetricLearner, embed
from gsp_tf.visual import HIT, INK, MISS, class_hulls, prototype_colors, transparent_figure

SIZE = 32
IMAGES_PER_CLASS = 64
SHOWN_IMAGES = 3


def train(images, backbone, steps, seed):
    """A network from images to local features `(B, h, w, 2)`, trained with average pooling.

    Training is of 64 dimensions; the 1x1 convolution to the plane is the linear discriminant
    analysis of the training images' averages.
    """
    keras.utils.set_random_seed(seed)
    body = backbones.create(backbone, (SIZE, SIZE, images.channels))
    pooled = keras.layers.GlobalAveragePooling2D()(body.output)
    embeddings = L2Normalization()(keras.layers.Dense(64)(pooled))
    learner = MetricLearner(
        keras.Model(body.input, embeddings), ProxyNCALoss(len(images.class_names))
    )
    learner.compile(keras.optimizers.Adam(1e-3))
    batches = training_dataset(images, SIZE, 10, 6, seed=seed, horizontal_flip=True)
    learner.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=2)
    averages, labels = embed(keras.Model(body.input, pooled), evaluation_dataset(images, SIZE, 256))
    analysis = LinearDiscriminantAnalysis().fit(averages, labels)
    axes = analysis.scalings_[:, :2]
    to_plane = keras.layers.Conv2D(2, 1)
    network = keras.Model(body.input, to_plane(body.output))
    to_plane.set_weights([axes[None, None], -analysis.xbar_ @ axes])
    return network


def local_features(network, images):
    """Local features `(N, h, w, 2)` and labels of 64 images per class, the longest of length 1."""
    turn = np.zeros(len(images), int)
    for label in np.unique(images.labels):
        turn[images.labels == label] = np.arange(np.sum(images.labels == label))
    chosen = np.flatnonzero(turn < IMAGES_PER_CLASS)
    batches = evaluation_dataset(images, SIZE, 256, indices=chosen)
    features = np.concatenate([network(batch, training=False) for batch, _ in batches])
    return features / np.linalg.norm(features, axis=-1).max(), images.labels[chosen]


def active_prototypes(histograms, labels):
    """Which prototypes hold a feature of a class, bool `(C, m)`.

    Args:
        histograms: of `prototype_partition`, `(N, m)`.
        labels: integers `(N,)`.
    """
    return np.stack([histograms[labels == label].any(axis=0) for label in np.unique(labels)])


def precision(points, labels):
    """P@1 in percent of points of the plane."""
    return 100 * retrieval_metrics(points, labels)["precision_at_1"]


def measure(features, labels, prototypes):
    """Quantities of one set of prototypes of 2-D features, a dict."""
    partition = prototype_partition(features, prototypes)
    errors = average_pooling_error(features, prototypes, partition.histograms)
    averages = features.mean(axis=(1, 2))
    spread = np.linalg.norm(averages - averages.mean(axis=0), axis=1).mean()
    active = active_prototypes(partition.histograms, labels)
    classes, held = np.nonzero(active)
    combinations = partition.histograms @ prototypes
    return {
        "radius": partition.distances.max(),
        "largest error": errors.max(),
        "mean error": errors.mean(),
        "relative error": errors.mean() / spread,
        "P@1 of GAP (%)": precision(averages, labels),
        "P@1 of PCC (%)": precision(combinations, labels),
        "prototypes per class": active.sum(axis=1).mean(),
        "prototypes of several classes (%)": 100 * (active.sum(axis=0) > 1).mean(),
        "overlapping hulls (%)": 100 * hull_overlap(prototypes[held], classes),
    }


def partition_picture(features, labels, class_names, prototypes):
    """Local features by prototype, and GAP and PCC of one image of some classes."""
    partition = prototype_partition(features, prototypes)
    radius = partition.distances.max()
    figure = transparent_figure(8.6, 8.6)
    figure.set_layout_engine("constrained")
    first, *others = figure.subplots(2, 2, sharex=True, sharey=True).flat
    colors = prototype_colors(np.arange(len(prototypes))) / 255
    first.scatter(*features.reshape(-1, 2).T, s=1, c=colors[partition.assignments.ravel()])
    first.set_title(f"{len(prototypes)} prototypes, covering radius {radius:.3f}", fontsize=9)
    shown = np.unique(labels, return_index=True)[1][:: len(np.unique(labels)) // SHOWN_IMAGES]
    for axes, index in zip(others, shown, strict=False):
        own, nearest = features[index].reshape(-1, 2), partition.assignments[index].ravel()
        for point, prototype in zip(own, prototypes[nearest], strict=True):
            axes.plot(*zip(point, prototype, strict=True), color=INK, alpha=0.3, linewidth=0.6)
        axes.scatter(*own.T, s=8, c=colors[nearest])
        average, combination = own.mean(axis=0), partition.histograms[index] @ prototypes
        axes.add_patch(Circle(average, radius, fill=False, edgecolor=HIT))
        axes.plot(*average, "P", color=HIT, ms=9, label="GAP")
        axes.plot(*combination, "X", color=MISS, ms=8, label="PCC")
        error = np.linalg.norm(average - combination)
        axes.set_title(f"{class_names[labels[index]]}: distance {error:.3f}", fontsize=9)
        axes.legend(fontsize=8)
    for axes in (first, *others):
        axes.plot(*prototypes.T, "+", color=INK, ms=6)
        axes.set_aspect("equal")
        axes.tick_params(labelsize=7)
    return figure


def hulls_picture(features, labels, prototypes):
    """Averages, in the convex hulls of the active prototypes of their class."""
    histograms = prototype_partition(features, prototypes).histograms
    classes, held = np.nonzero(active_prototypes(histograms, labels))
    return class_hulls(features.mean(axis=(1, 2)), labels, prototypes[held], classes)


def main(
    data: str = "data/cifar100",
    results: str = "experiments/results/studies",
    figures: str = "docs/figures",
    seeds: tuple[int, ...] = (0, 1, 2),
    backbone: str = "conv4",
    steps: int = 400,
    prototypes: tuple[int, ...] = (12, 48, 192),
):
    """Average pooling of local features in the plane.

    Args:
        data: folder in which the folder cifar-100-binary lies.
        results: folder of average_pooling_plane.csv.
        figures: folder of the pictures, those of the first seed with 48 prototypes.
        seeds: seeds of weights and batches.
        backbone: name of the network before the 1x1 convolution to the plane.
        steps: steps of training, of 60 images each.
        prototypes: numbers of prototypes.
    """
    training, test = ten_classes(data)
    rows, folder = [], Path(figures)
    for seed in seeds:
        features, labels = local_features(train(training, backbone, steps, seed), test)
        points = features.reshape(-1, 2)
        chosen = points[greedy_k_center(points, points[:0], max(prototypes)).numpy()]
        print(f"seed {seed}: P@1 of GAP {precision(features.mean(axis=(1, 2)), labels):.1f}%")
        for count in prototypes:
            values = measure(features, labels, chosen[:count])
            rows += [(f"m = {count}", seed, *item) for item in values.items()]
        if seed == seeds[0]:
            shown = chosen[:48]
            picture = partition_picture(features, labels, test.class_names, shown)
            pictures.save(picture, folder / "average_pooling_plane.png", dpi=110)
            hulls = hulls_picture(features, labels, shown)
            pictures.save(hulls, folder / "average_pooling_plane_hulls.png", dpi=110)
    path = Path(results, "average_pooling_plane.csv")
    records.write(path, rows)
    print(records.table(path))


if __name__ == "__main__":
    # So that sums do not depend on the number of cores.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    auto_cli(main, as_positional=False)
