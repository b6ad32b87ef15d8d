"""Average pooling in the plane (Gürbüz, thesis 2022, section 4.3, Fig. 4.2 to 4.4).

For every seed a network is trained with average pooling on ten classes, and its local features are
mapped to the plane, linearly. 48 local features of test images are chosen as prototypes by greedy
k-center. Written down: their covering radius, how far the averages (GAP) lie from the convex
combinations of prototypes (PCC), the P@1 of both, and how classes share their active prototypes.
"""

import keras
import numpy as np
from average_pooling import errors_of, k_center, train
from average_pooling import local_features as features_of
from matplotlib.patches import Circle
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from gsp_tf import backbones
from gsp_tf.data import ArrayImages, evaluation_dataset, load_cifar100
from gsp_tf.evaluation import hull_overlap, prototype_partition, retrieval_metrics
from gsp_tf.training import embed
from gsp_tf.visual import HIT, INK, MISS, class_hulls, prototype_colors, transparent_figure

ONE_CORE = True  # so that sums do not depend on the number of cores

SIZE, IMAGES_PER_CLASS, SHOWN_IMAGES, SHOWN_PROTOTYPES = 32, 64, 3, 48
CLASSES, TRAINING_SHARE = 10, 5 / 6


def ten_classes(folder, counts=None):
    """Training and test images of the first ten classes of CIFAR-100, where the papers have the ten
    of CIFAR-10."""
    images = load_cifar100(folder, counts=counts).subset(range(CLASSES))
    trained = round(TRAINING_SHARE * len(images))
    return [
        ArrayImages(images.images[part], images.labels[part], images.class_names)
        for part in (slice(trained), slice(trained, None))
    ]


def plane_network(images, backbone, steps, seed):
    """A network from images to local features `(B, h, w, 2)`, trained with average pooling.

    Training is of 64 dimensions; the 1x1 convolution to the plane is the linear discriminant
    analysis of the training images' averages.
    """
    keras.utils.set_random_seed(seed)
    body = backbones.create(backbone, (SIZE, SIZE, images.channels))
    train(body, images, 10, 6, steps, seed, horizontal_flip=True)
    pooled = keras.Model(body.input, keras.layers.GlobalAveragePooling2D()(body.output))
    averages, labels = embed(pooled, evaluation_dataset(images, SIZE, 256))
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
    features = features_of(network, images, indices=chosen)
    return features / np.linalg.norm(features, axis=-1).max(), images.labels[chosen]


def active_prototypes(histograms, labels):
    """Which of the prototypes of histograms `(N, m)` hold a feature of a class, bool `(C, m)`."""
    return np.stack([histograms[labels == label].any(axis=0) for label in np.unique(labels)])


def measure(features, labels, prototypes):
    """Quantities of one set of prototypes of 2-D features."""
    partition, values = errors_of(features, prototypes)
    del values["mean distance"]
    active = active_prototypes(partition.histograms, labels)
    classes, held = np.nonzero(active)
    pooled = {"GAP": features.mean(axis=(1, 2)), "PCC": partition.histograms @ prototypes}
    for name, points in pooled.items():
        values[f"P@1 of {name} (%)"] = 100 * retrieval_metrics(points, labels)["precision_at_1"]
    return values | {
        "prototypes per class": active.sum(axis=1).mean(),
        "prototypes of several classes (%)": 100 * (active.sum(axis=0) > 1).mean(),
        "overlapping hulls (%)": 100 * hull_overlap(prototypes[held], classes),
    }


def study(
    data: str = "data/cifar100",
    seeds: tuple[int, ...] = (0, 1, 2),
    backbone: str = "conv4",
    steps: int = 400,
    prototypes: tuple[int, ...] = (12, 48, 192),
):
    """`data` is the folder in which cifar-100-binary lies, `prototypes` their numbers; pictures are
    of the first seed."""
    training, test = ten_classes(data)
    rows, drawn = [], {}
    for seed in seeds:
        network = plane_network(training, backbone, steps, seed)
        features, labels = local_features(network, test)
        chosen = k_center(features, max(prototypes))
        for count in prototypes:
            values = measure(features, labels, chosen[:count])
            rows += [(f"m = {count}", seed, *item) for item in values.items()]
        if seed == seeds[0]:
            shown = features, labels, chosen[:SHOWN_PROTOTYPES]
            drawn["average_pooling_plane"] = _partition_picture(*shown, test.class_names)
            drawn["average_pooling_plane_hulls"] = _hulls_picture(*shown)
    return rows, drawn


def _partition_picture(features, labels, prototypes, class_names):
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


def _hulls_picture(features, labels, prototypes):
    """Averages, in the convex hulls of the active prototypes of their class."""
    histograms = prototype_partition(features, prototypes).histograms
    classes, held = np.nonzero(active_prototypes(histograms, labels))
    return class_hulls(features.mean(axis=(1, 2)), labels, prototypes[held], classes)
