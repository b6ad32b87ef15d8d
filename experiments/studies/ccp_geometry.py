"""Embeddings in the plane and their proxies, problem by problem of CCP (thesis, Fig. 3.2).

A small CNN maps handwritten digits to the plane and is trained by `ChanceConstrainedTrainer`. This
is a picture of the training images, not an experiment on unseen classes: all ten digits are trained
on, and the MAP@R that ends a problem is that of other images of the same ten.

The same training with samples in the place of proxies (section 3.3.1) is done as well: before every
step the images that were chosen are embedded again, instead of training their embeddings.

The loss is C2 without L2 normalisation, for on the unit circle the plane would show one dimension
only; its negative margin is then the unit of length.
"""

from dataclasses import dataclass

import keras
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from sklearn.datasets import load_digits

from gsp_tf.data import ArrayImages, evaluation_dataset, training_dataset
from gsp_tf.evaluation import covering_radius_curve, nearest_neighbours
from gsp_tf.losses import ContrastiveLoss
from gsp_tf.training import (
    ChanceConstrainedTrainer,
    MetricLearner,
    ProxyPool,
    RetrievalEvaluation,
    with_learning_rate_multipliers,
)
from gsp_tf.visual import CLASS_COLORS, INK, transparent_figure

ONE_CORE = True  # so that sums do not depend on the number of cores

MONITOR = "val_map_at_r"
PROXIES_PER_CLASS, POOL_SIZE, PATIENCE, MAX_PROBLEMS = 4, 16, 3, 6
EVALUATIONS, IMAGES_PER_CLASS, LEARNING_RATE, BATCH_SIZE = 200, 8, 1e-3, 256
PANEL_INCHES = 3.2


@dataclass
class Problem:
    """One problem of CCP: the weights of the embedder before the first step and with the best
    MAP@R, and the proxies `(C * k, 2)` that belong to them, class by class."""

    begun: list
    chosen: np.ndarray
    solved: list | None = None
    trained: np.ndarray | None = None
    map_at_r: float = float("-inf")


class Problems(keras.callbacks.Callback):
    """Keeps every problem of a trainer; stands after the `RetrievalEvaluation`.

    The trainer goes back to the best evaluation of a problem; the same one is kept here.
    """

    def __init__(self, trainer):
        super().__init__()
        self.trainer, self.kept = trainer, []

    def on_epoch_begin(self, epoch, logs=None):
        if len(self.kept) == len(self.trainer.projections):
            self.kept.append(Problem(*self._state()))

    def on_epoch_end(self, epoch, logs=None):
        problem = self.kept[-1]
        if logs[MONITOR] > problem.map_at_r:
            problem.map_at_r = logs[MONITOR]
            problem.solved, problem.trained = self._state()

    def _state(self):
        return self.model.embedder.get_weights(), self.model.embedding_loss.proxies.numpy()


class Samples(keras.callbacks.Callback):
    """Keeps the proxies, which the optimizer leaves alone, at the embeddings of the images that
    they were chosen from."""

    def __init__(self, trainer, images):
        super().__init__()
        self.trainer, self.problem = trainer, None
        self.images = images.images.astype("float32")

    def on_epoch_begin(self, epoch, logs=None):
        if self.problem != len(self.trainer.projections):
            self.problem = len(self.trainer.projections)
            embeddings = self.model.embedder.predict(self.images, verbose=0)
            proxies = self.model.embedding_loss.proxies.numpy()
            self.chosen = self.images[nearest_neighbours(proxies, embeddings, 1)[0][:, 0]]

    def on_train_batch_begin(self, batch, logs=None):
        self._embed()

    def on_epoch_end(self, epoch, logs=None):
        self._embed()

    def _embed(self):
        self.model.embedding_loss.proxies.assign(self.model.embedder(self.chosen, training=False))


def handwritten():
    """Training images of the digits 0 to 9, and every third, which MAP@R is taken on."""
    digits = load_digits()
    images, labels = np.rint(digits.images * (255 / 16)).astype(np.uint8), digits.target
    held_out = np.arange(len(labels)) % 3 == 2
    names = [str(digit) for digit in range(10)]
    return [
        ArrayImages(images[part][..., None], labels[part], names) for part in (~held_out, held_out)
    ]


def plane_embedder(image_size):
    """Two convolutions and a linear map to the plane, for square grey images."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((image_size, image_size, 1)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(2),
        ]
    )


def solve(
    images,
    held_out,
    seed,
    samples=False,
    proxies=PROXIES_PER_CLASS,
    problems=MAX_PROBLEMS,
    patience=PATIENCE,
    evaluations=EVALUATIONS,
):
    """Train a `plane_embedder` with CCP; one evaluation of MAP@R a pass over the images.

    With `samples` the images chosen stand for their classes, and not proxies that are trained. The
    rest is the number of proxies of a class, and the limits of problems and of training. Returns
    the trainer, and a `Problem` for each of its projections.
    """
    keras.utils.set_random_seed(seed)
    size, classes = images.images.shape[1], len(images.class_names)
    embedder = plane_embedder(size)
    learner = MetricLearner(embedder, ContrastiveLoss(negative_margin=1.0, normalize=False))
    optimizer = keras.optimizers.Adam(LEARNING_RATE)
    if samples:
        with_learning_rate_multipliers(optimizer, {"proxies": 0.0})
    learner.compile(optimizer)
    trainer = ChanceConstrainedTrainer(
        learner,
        proxies_per_class=proxies,
        pool_size=POOL_SIZE,
        patience=patience,
        max_projections=problems,
        monitor=MONITOR,
    )
    kept = Problems(trainer)
    others = [Samples(trainer, images)] if samples else []
    trainer.fit(
        training_dataset(images, size, classes, IMAGES_PER_CLASS, seed),
        ProxyPool(images.labels, lambda i: evaluation_dataset(images, size, BATCH_SIZE, i), seed),
        [RetrievalEvaluation(evaluation_dataset(held_out, size, BATCH_SIZE)), *others, kept],
        steps_per_epoch=len(images) // (classes * IMAGES_PER_CLASS),
        epochs=evaluations,
        verbose=0,
    )
    return trainer, kept.kept


def planes(problems, images):
    """Embeddings of all images before the first problem and after each, a list of `(N, 2)`."""
    size = images.images.shape[1]
    embedder = plane_embedder(size)
    data = evaluation_dataset(images, size, BATCH_SIZE)
    embeddings = []
    for weights in (problems[0].begun, *(problem.solved for problem in problems)):
        embedder.set_weights(weights)
        embeddings.append(embedder.predict(data, verbose=0))
    return embeddings


def covering_radius(embeddings, labels, proxies):
    """Mean over classes of the distance of a class's farthest image from its nearest proxy.

    Labels are 0 to C - 1, proxies `(C * k, D)` stand class by class.

    Example:
        >>> covering_radius([[0.0], [3.0], [5.0]], np.array([0, 0, 1]), np.array([[1.0], [5.0]]))
        1.0
    """
    embeddings = np.asarray(embeddings)
    of_class = proxies.reshape(labels.max() + 1, -1, proxies.shape[-1])
    radii = [
        nearest_neighbours(embeddings[labels == label], own)[1].max()
        for label, own in enumerate(of_class)
    ]
    return float(np.mean(radii))


def distance_between_classes(embeddings, labels):
    """Mean distance of two images of different classes, the thesis' E||x - x⁻||.

    Example:
        >>> distance_between_classes(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1]))
        4.0
    """
    distances = np.linalg.norm(embeddings[:, None] - embeddings, axis=-1)
    return float(distances[labels[:, None] != labels].mean())


def measurements(trainer, problems, embeddings, labels):
    """Results of the problems, one dict from quantity to number per problem.

    From the trainer's record: `steps`, `MAP@R` in percent, `distance moved`, and, of the pool that
    it chose from, the covering radius `radius in the pool, chosen` of the new proxies and `radius
    in the pool, previous` of those before, which are random images in the first problem.

    Over all images: `radius, chosen` of the new proxies before the first step, `radius, trained` of
    the trained ones in the end. There too, for comparison: `radius, greedy` of as many images a
    class that greedy k-center chooses among all, `distance between classes`, and `relative radius`,
    that of the trained proxies over it. Embeddings are those of `planes`.
    """
    measured = []
    pairs = zip(problems, trainer.projections, strict=True)
    for number, (problem, record) in enumerate(pairs, start=1):
        of_class = [embeddings[number][labels == label] for label in range(labels.max() + 1)]
        greedy = [covering_radius_curve(points, PROXIES_PER_CLASS)[-1] for points in of_class]
        class_distance = distance_between_classes(embeddings[number], labels)
        trained = covering_radius(embeddings[number], labels, problem.trained)
        values = {
            "steps": record["steps"],
            "MAP@R": 100 * record["map_at_r"],
            "radius, chosen": covering_radius(embeddings[number - 1], labels, problem.chosen),
            "radius, trained": trained,
            "radius, greedy": float(np.mean(greedy)),
            "distance between classes": class_distance,
            "relative radius": trained / class_distance,
            "radius in the pool, chosen": record["covering_radius_after"],
            "radius in the pool, previous": record["covering_radius_before"],
            "distance moved": record["distance_moved"],
        }
        measured.append(values)
    return measured


def study(seeds: tuple[int, ...] = (0, 1, 2)):
    """Trains and measures; the picture is of the problems of the first seed."""
    images, held_out = handwritten()
    rows, totals, drawn = [], [], {}
    for seed in seeds:
        trainer, problems = solve(images, held_out, seed)
        embeddings = planes(problems, images)
        measured = measurements(trainer, problems, embeddings, images.labels)
        for number, values in enumerate(measured, start=1):
            rows += [(f"problem {number}", seed, *item) for item in values.items()]
        totals += _total("proxies", seed, trainer)
        totals += _total("samples", seed, solve(images, held_out, seed, samples=True)[0])
        if seed == seeds[0]:
            drawn["ccp_geometry"] = picture(problems, embeddings, images.labels, measured)
    return rows + totals, drawn


def _total(variant, seed, trainer):
    """Rows of a whole run: its steps, and the best MAP@R in percent."""
    steps = sum(problem["steps"] for problem in trainer.projections)
    best = max(problem["map_at_r"] for problem in trainer.projections)
    return [(variant, seed, "steps", steps), (variant, seed, "MAP@R", 100 * best)]


def picture(problems, embeddings, labels, measured):
    """A panel a problem: images and proxies as it left them, and the proxies chosen next.

    The last problem is one too many where training ended because it brought nothing. All panels
    have the same limits.
    """
    count = len(problems)
    lines = 1 if count <= 2 else 2
    columns = -(-count // lines)
    figure = transparent_figure(max(columns, 2) * PANEL_INCHES, lines * (PANEL_INCHES + 0.35) + 0.6)
    figure.set_layout_engine("constrained", h_pad=0.08, hspace=0.02)
    corners = np.concatenate([*embeddings[1:], *(problem.trained for problem in problems)])
    centre = (corners.min(axis=0) + corners.max(axis=0)) / 2
    reach = 1.04 * np.ptp(corners, axis=0).max() / 2
    limits = np.stack([centre - reach, centre + reach], axis=1)
    colors = np.array(CLASS_COLORS)
    own = colors[np.arange(len(problems[0].chosen)) // PROXIES_PER_CLASS]
    for panel in range(count):
        axes = figure.add_subplot(lines, columns, panel + 1, aspect="equal")
        axes.scatter(*embeddings[panel + 1].T, s=5, c=colors[labels], alpha=0.45, linewidths=0)
        caption = f"covering radius {measured[panel]['radius, trained']:.2f}"
        if panel + 1 < count:
            style = dict(s=38, c="white", edgecolors=own, linewidths=0.8, zorder=3)
            axes.scatter(*problems[panel + 1].chosen.T, marker="*", **style)
            next_radius = measured[panel + 1]["radius, chosen"]
            caption += f", by the next proxies {next_radius:.2f}"
        style = dict(s=55, c=own, edgecolors=INK, linewidths=0.6, zorder=4)
        axes.scatter(*problems[panel].trained.T, marker="*", **style)
        axes.set_title(f"Problem {panel + 1}", color=INK, fontsize=10, fontweight="bold", pad=17)
        axes.text(0.5, 1.02, caption, color=INK, fontsize=8, ha="center", transform=axes.transAxes)
        axes.set(xlim=limits[0], ylim=limits[1])
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(5))
        axes.tick_params(colors=INK, labelsize=8)
        axes.spines[:].set_color(INK)
        axes.grid(color=INK, alpha=0.15, linewidth=0.6)
        axes.set_axisbelow(True)
    style = dict(ncols=6, frameon=False, fontsize=8, labelcolor=INK, handletextpad=0.2)
    figure.legend(handles=_legend(), loc="outside lower center", **style)
    return figure


def _legend():
    """Two rows: the digits 0 to 4 and 5 to 9, each with a kind of proxy at its end."""
    entries = [("o", 5, color, "none", str(digit)) for digit, color in enumerate(CLASS_COLORS[:10])]
    rows = [
        [*entries[:5], ("*", 9, "grey", INK, "proxy, as trained")],
        [*entries[5:], ("*", 8, "white", "grey", "proxy, chosen for the next problem")],
    ]
    return [
        Line2D([], [], ls="none", marker=marker, ms=size, mfc=face, mec=edge, label=label)
        for column in zip(*rows, strict=True)
        for marker, size, face, edge, label in column
    ]
