"""Average pooling as a convex combination of prototypes (Gürbüz, thesis 2022, section 4.2).

For every seed conv4 is trained with average pooling and ProxyNCA++ on half of the Omniglot
characters. The prototypes are local features chosen by greedy k-center, of the training images or
of the images of unseen classes, or the centres of k-means. Written down for each number m of
prototypes: their covering radius, the mean distance of a feature to its prototype, the distance of
the average of an image's features to the convex combination of prototypes (largest, mean, and the
mean relative to the mean distance of the averages from their own mean), and the P@1 of a retrieval
with the combinations in place of the averages.
"""

import keras
import numpy as np
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

ONE_CORE = True  # so that sums do not depend on the number of cores

SHOWN_PROTOTYPES, SHOWN_IMAGES, SHOWN_CLASSES = 12, 8, 6
PANELS = {
    "train": "training classes",
    "unseen": "unseen classes",
    "unseen, prototypes of train": "unseen, prototypes of training",
    "unseen, k-means": "unseen, k-means",
}
LINES = ("radius", "largest error", "mean distance", "mean error")


def train(body, images, classes, per_class, steps, seed, **options):
    """Train a backbone with average pooling and a dense layer to 64 dimensions, which is returned
    with its normalisation."""
    head = keras.Sequential(
        [keras.Input((body.output.shape[-1],)), keras.layers.Dense(64), L2Normalization()]
    )
    pooled = keras.layers.GlobalAveragePooling2D()(body.output)
    learner = MetricLearner(
        keras.Model(body.input, head(pooled)), ProxyNCALoss(len(images.class_names))
    )
    learner.compile(keras.optimizers.Adam(1e-3))
    size = body.input_shape[1]
    batches = training_dataset(images, size, classes, per_class, seed=seed, **options)
    learner.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=2)
    return head


def local_features(network, images, **options):
    """Local features `(N, h, w, C)` of images."""
    batches = evaluation_dataset(images, network.input_shape[1], 256, **options)
    return np.concatenate([network(batch, training=False) for batch, _ in batches])


def k_center(features, count):
    """Local features `(count, C)` that cover all, by greedy k-center."""
    points = features.reshape(-1, features.shape[-1])
    return points[greedy_k_center(points, points[:0], count).numpy()]


def k_means(features, count):
    """Centres `(count, C)` of clusters of the local features."""
    clusters = MiniBatchKMeans(count, batch_size=4096, n_init=1, random_state=0)
    return clusters.fit(features.reshape(-1, features.shape[-1])).cluster_centers_


def precision(head, pooled, labels):
    """P@1 of pooled features `(N, 64)`, embedded by the head."""
    return retrieval_metrics(np.asarray(head(pooled)), labels)["precision_at_1"]


def errors_of(features, prototypes):
    """The partition of features by prototypes, and its radius and errors."""
    partition = prototype_partition(features, prototypes)
    errors = average_pooling_error(features, prototypes, partition.histograms)
    averages = features.mean(axis=(1, 2))
    spread = np.linalg.norm(averages - averages.mean(axis=0), axis=1).mean()
    return partition, {
        "radius": partition.distances.max(),
        "mean distance": partition.distances.mean(),
        "largest error": errors.max(),
        "mean error": errors.mean(),
        "relative error": errors.mean() / spread,
    }


def measure(features, prototypes, head, labels):
    """Quantities of one set of prototypes and one set of images."""
    partition, values = errors_of(features, prototypes)
    return values | {"P@1": precision(head, partition.histograms @ prototypes, labels)}


def measured(features, head, images, counts):
    """Yields variant, quantity and value; features and images are those of "train" and "unseen"."""
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


def study(
    data: str = "../shared/data",
    seeds: tuple[int, ...] = (0, 1, 2),
    steps: int = 300,
    image_size: int = 32,
    prototypes: tuple[int, ...] = (1, 4, 16, 64, 256),
):
    """`data` is the folder of the Omniglot zip files, `prototypes` their numbers; pictures of
    images are of the model of the first seed."""
    train_images, _, unseen = split_classes(load_omniglot(data, size=image_size))
    images = {"train": train_images, "unseen": unseen}
    rows, drawn = [], {}
    classes = min(16, len(train_images.class_names))
    for seed in seeds:
        keras.utils.set_random_seed(seed)
        body = backbones.create("conv4", (image_size, image_size, train_images.channels))
        head = train(body, train_images, classes, 4, steps, seed)
        features = {name: local_features(body, part) for name, part in images.items()}
        for variant, quantity, value in measured(features, head, images, prototypes):
            rows.append((variant, seed, quantity, value))
        if seed == seeds[0]:
            for name, figure in _pictures(features["unseen"], unseen):
                drawn[f"average_pooling_{name}"] = figure
    return rows, drawn


def draw(values):
    """Radius, distance and errors against the number of prototypes, mean over the seeds."""
    counts = sorted({int(name.rpartition(" ")[2]) for name in values if " m = " in name})
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
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(ScalarFormatter())
            axis.set_minor_formatter(NullFormatter())
        axes.grid(alpha=0.2, which="both")
    figure.supxlabel("prototypes")
    figure.supylabel("distance")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(LINES))
    return {"average_pooling": figure}


def _pictures(features, images):
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
