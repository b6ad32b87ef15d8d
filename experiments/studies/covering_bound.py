"""The bound of the generalisation error by the covering radius (thesis, Props. 3.2.1 and 3.2.2).

The networks to the plane of `ccp_geometry` train on 1198 handwritten digits with 1 or 4 proxies a
class, in a single problem and with CCP. The loss is the one of Lemma 3.2.1 with α = β = 0.5:
distances of positive pairs, and what negative pairs lack to a distance of 1. It is 1-Lipschitz in
each embedding, so in the plane ζ is 1. The other 599 digits are a sample of the population.

The table is experiments/results/evidence/covering_bound.csv. It has the terms of both bounds as the
proofs print them (sections A.2 and A.3), and the gaps that they bound: for proxies as trained, and
for images of the training set in their place, which are drawn or chosen by greedy k-center. It also
has the constant of Lemma 3.2.1, for the space of pixels.
"""

import keras
import numpy as np
import records
from ccp_geometry import BATCH_SIZE, PATIENCE, handwritten, solve
from scipy import stats
from sweep import HERE

from gsp_tf.data import evaluation_dataset
from gsp_tf.evaluation import covering_radius_curve, nearest_neighbours
from gsp_tf.ops import greedy_k_center

ONE_CORE = True  # so that sums do not depend on the number of cores

OUT = HERE / "results/evidence/covering_bound.csv"
GAMMA = 0.05  # the bounds hold with probability 1 - γ
EVALUATIONS = 40
TRAINERS = {"single problem": (1, EVALUATIONS), "CCP": (EVALUATIONS, PATIENCE)}
"""The largest number of problems, and the patience that ends one."""
PROXIES = (1, 4)
ANCHORS, DRAWS, OF = (4, 16), 20, 4
"""Images a class in place of proxies, draws of them, and the proxies of the models for that."""


def pair_losses(first, first_labels, second, second_labels):
    """Loss of every pair of points `(n, 2)` and `(m, 2)`: `(n, m)`.

    Example:
        >>> pair_losses(np.zeros((1, 2)), [0], np.array([[0.3, 0], [0.3, 0], [3, 0]]), [0, 1, 1])
        array([[0.3, 0.7, 0. ]])
    """
    distances = np.linalg.norm(first[:, None] - second, axis=-1)
    same = np.asarray(first_labels)[:, None] == np.asarray(second_labels)
    return np.where(same, distances, np.maximum(0, 1 - distances))


def cover(points, labels, centers, center_labels):
    """Distance of the farthest point from the nearest centre of its class, the δ of a δ-cover."""
    return max(
        nearest_neighbours(points[labels == label], centers[center_labels == label], 1)[1].max()
        for label in np.unique(labels)
    )


class Embedded:
    """Embeddings and labels of training images and of others, a pair of `(n, 2)` and `(n,)` each,
    with what the bounds of all anchors share."""

    def __init__(self, train, other):
        self.train, self.other = train, other
        self.everyone = [np.concatenate(both) for both in zip(train, other, strict=True)]
        self.among = pair_losses(*train, *train).mean()
        self.population = pair_losses(*other, *other).mean()
        self.largest = pair_losses(*self.everyone, *self.everyone).max()
        self.uncovered = cover(*other, *train)  # ε(n)
        points, labels = self.everyone
        own = [points[labels == label] for label in np.unique(labels)]
        self.curves = [covering_radius_curve(of_class, len(of_class)) for of_class in own]

    def terms(self, anchors, anchor_labels):
        """The gaps of anchors `(m, 2)`, and the bounds with their terms."""
        m, n, chance = len(anchors), len(self.train[0]), np.log(1 / GAMMA)
        error = pair_losses(*self.train, anchors, anchor_labels).mean()
        radius = cover(*self.train, anchors, anchor_labels)
        near = 3 * radius + self.uncovered
        sampling = np.sqrt(chance / 2 / n) + np.sqrt((2 * m * np.log(2) + 2 * chance) / n)
        of_all = cover(*self.everyone, anchors, anchor_labels)
        size = sum(int(np.argmax(curve <= of_all / 2)) + 1 for curve in self.curves)  # K or more
        sampling_of_anchors = np.sqrt((2 * size * np.log(2) + 2 * chance) / m)
        on_other = pair_losses(*self.other, anchors, anchor_labels).mean()
        return {
            "δ": radius,
            "training loss": error,
            "gap to unseen images": abs(self.population - error),
            "gap of 3.2.2": abs(self.among - error),
            "3 δ + ε": near,
            "sampling of 3.2.2": self.largest * sampling,
            "bound of 3.2.2": near + error + self.largest * sampling,
            "gap of 3.2.1": abs(self.population - on_other),
            "bound of 3.2.1": of_all + self.largest * sampling_of_anchors,
            "K / m": size / m,
            "L": self.largest,
        }


def chosen(points, labels, count, rng=None):
    """As many points of each class, at random or, without a generator, by greedy k-center."""
    picked = []
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        if rng is None:
            found = greedy_k_center(points[own], points[:0], count)
            picked += own[keras.ops.convert_to_numpy(found)].tolist()
        else:
            picked += rng.choice(own, count, replace=False).tolist()
    return points[picked], labels[picked]


def layer_sums(kernel):
    """Largest sums of absolute weights into an output, ω of Lemma 3.2.1, and out of an input.

    √(in · out) bounds how far a layer stretches a distance (Schur's test). Neither sum does.

    Args:
        kernel: `(inputs, outputs)` or `(h, w, inputs, outputs)`.

    Example:
        >>> layer_sums(np.ones((1, 4)))  # stretches by √4, more than the sum of input weights
        (1.0, 4.0)
    """
    weights = np.abs(kernel).reshape(-1, *kernel.shape[-2:])
    return float(weights.sum(axis=(0, 1)).max()), float(weights.sum(axis=(0, 2)).max())


def pixel_constants(embedder, pixels, points):
    """The Lipschitz constants of Lemma 3.2.1 and of Schur's test, and the largest stretch of a
    distance between images."""
    sums = [layer_sums(w.numpy()) for w in embedder.trainable_variables if len(w.shape) > 1]
    flat = pixels.reshape(len(pixels), -1) / 255
    apart = np.linalg.norm(flat[:, None] - flat, axis=-1)
    stretched = np.linalg.norm(points[:, None] - points, axis=-1)
    return {
        "ω^L": max(into for into, _ in sums) ** len(sums),
        "Schur": float(np.prod([np.sqrt(into * out) for into, out in sums])),
        "stretch": float((stretched[apart > 0] / apart[apart > 0]).max()),
    }


def study(seeds: tuple[int, ...] = (0, 1, 2), proxies: tuple[int, ...] = PROXIES):
    """Trains, measures and adds the numbers to the table as they come."""
    images = handwritten()
    for seed in seeds:
        for trainer in TRAINERS:
            for count in proxies:
                name = f"{trainer}, {count} proxies"
                known = records.read(OUT) if OUT.exists() else {}
                if seed not in known.get(name, {}).get("δ", {}):
                    records.add(OUT, list(measured(name, seed, images, count, *TRAINERS[trainer])))
    records.add(OUT, correlations(records.read(OUT)))


def measured(name, seed, images, count, problems, patience):
    """Rows of a model with its proxies, then with images in their place."""
    settings = dict(proxies=count, problems=problems, patience=patience, evaluations=EVALUATIONS)
    trainer, _ = solve(*images, seed, **settings)
    embedder, size = trainer.learner.embedder, images[0].images.shape[1]
    data = [(evaluation_dataset(part, size, BATCH_SIZE), part.labels) for part in images]
    train, other = ((embedder.predict(batches, verbose=0), labels) for batches, labels in data)
    embedded, trained = Embedded(train, other), trainer.learner.embedding_loss.proxies.numpy()
    best = max(problem["map_at_r"] for problem in trainer.projections)
    found = {"MAP@R": 100 * best, **embedded.terms(trained, np.arange(len(trained)) // count)}
    found |= pixel_constants(embedder, images[0].images, train[0])
    yield from ((name, seed, *item) for item in found.items())
    for anchors in ANCHORS if count == OF else ():
        greedy = embedded.terms(*chosen(*train, anchors))
        yield from ((f"{name}: {anchors} greedy images", seed, *item) for item in greedy.items())
        rng, title = np.random.default_rng(seed), f"{name}: {anchors} drawn images"
        draws = [embedded.terms(*chosen(*train, anchors, rng)) for _ in range(DRAWS)]
        yield from ((title, seed, k, np.mean([draw[k] for draw in draws])) for k in draws[0])
        ranks = stats.spearmanr([(draw["δ"], draw["gap of 3.2.2"]) for draw in draws]).statistic
        yield title, seed, "rank correlation of δ and gap of 3.2.2", ranks


def correlations(values):
    """Rank correlations, over all models, of the radius of the proxies with the gaps it bounds."""
    models = [row for name, row in values.items() if name.endswith("proxies")]
    found = []
    for gap in ("gap of 3.2.2", "gap to unseen images"):
        pairs = [(row["δ"][seed], row[gap][seed]) for row in models for seed in row["δ"]]
        ranks = stats.spearmanr(*zip(*pairs, strict=True)).statistic
        found.append(("all models", 0, f"rank correlation of δ and {gap}", ranks))
    return found
