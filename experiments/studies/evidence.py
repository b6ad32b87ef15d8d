"""All numbers of docs/studies/evidence.md and the table of docs/losses.md.

python experiments/run.py evidence [--tables "[collage, cars]"] [--jobs 2]

Each table is a CSV file in experiments/results/evidence. What a file has is not trained again.
Without its lines in the file, a row is measured again from its run folder, or trained. Stopped runs
continue. Other poolings and the numbers of GSP are chosen by the validation classes of seed 0, not
by test classes. Pictures with photographs stay in runs/evidence. It needs data/cifar100,
data/cars196_half, data/grocery and pip install ".[pretrained]".
"""

import itertools
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import average_pooling_plane
import collage_maps
import covering_bound
import evidence_page
import evidence_plan as plan
import heads
import keras
import numpy as np
import pictures
import records
import tensorflow as tf
import zero_shot_prototypes
from evidence_page import BY_WEIGHTS, OF_AVERAGE
from sweep import SHOWN, recipe_of, sweep, weights_of

from gsp_tf.data import training_dataset
from gsp_tf.evaluation import foreground_share, retrieval_metrics
from gsp_tf.recipe import Recipe, recipe_values
from gsp_tf.runs import Run, features_model, frozen_metrics, load_splits

RESULTS = plan.HERE / "results/evidence"
VALIDATION, DIGEST, FROZEN = "validation MAP@R", "recipe", "frozen"
WEIGHED = 512  # test images whose pooling weights are looked at
BATCHES = 16  # batches of training images whose gradients are looked at


class Table:
    """The numbers of one CSV file. What it lacks is trained, and written as soon as a run ends."""

    def __init__(self, path, runs, jobs=1):
        self.path, self.runs, self.jobs = Path(path), runs, jobs

    @property
    def values(self):
        """As `records.read` returns; empty before the first run."""
        return records.read(self.path) if self.path.exists() else {}

    def train(self, files, variants, seeds, more=()):
        """Train variants of a recipe, as `sweep` takes them, with the seeds that the file lacks.

        More are functions from a variant, its seed and its `RunFolder` to further rows.
        """
        digests = {name: digest(files, options) for name, options in variants.items()}

        def ended(key, folder):
            rows = [row for rows in (run_rows, *more) for row in rows(*key, folder)]
            records.add(self.path, [(*key, DIGEST, digests[key[0]]), *rows])

        for seed in seeds:
            missing = {
                name: options
                for name, options in variants.items()
                if not self._is_measured(name, seed, digests[name])
            }
            sweep(files, missing, [seed], self.runs, self.jobs, ended)

    def _is_measured(self, name, seed, wanted):
        found = self.values.get(name, {}).get(DIGEST, {}).get(seed)
        if found not in (None, wanted):
            raise ValueError(
                f"{self.path} has numbers of another recipe for {name} and seed {seed}: remove "
                "these lines to measure it again."
            )
        return found is not None

    def best(self, names, count=1):
        """The ends of names, such as "gap" of "cars_c2-gap", with the highest validation MAP@R,
        whatever stands before them."""
        found = {name: [] for name in names}
        for variant, row in self.values.items():
            name = variant.partition("-")[2]
            if name in found:
                found[name].append(row[VALIDATION][plan.SEEDS[0]])
        lacking = [name for name in names if not found[name]]
        if lacking:
            raise ValueError(f"{self.path} has no numbers of {', '.join(lacking)} to choose from.")
        return sorted(found, key=lambda name: -np.mean(found[name]))[:count]

    def frozen(self, name, recipe):
        """Measure the network of a recipe without training, unless the file has it."""
        variant = f"{name}-{FROZEN}"
        if variant not in self.values:
            found = frozen_metrics(recipe).means()
            rows = [(variant, 0, name, 100 * found[key].value) for name, key in SHOWN.items()]
            records.add(self.path, rows)


def digest(files, options):
    """A number that tells recipes apart by what they change of the defaults, but for the place of
    their data."""
    values = recipe_values(recipe_of(files, options, resolve=False))
    values["data"].pop("path")
    changed = sorted(set(_leaves(values)) - set(_leaves(recipe_values(Recipe()))))
    return zlib.crc32(repr(changed).encode()) % 10**6  # all its digits are in the CSV file


def _leaves(value, place=()):
    """Pairs of the place and the text of each value in nested dicts."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*place, name))
    else:
        yield place, repr(value)


def run_rows(variant, seed, folder):
    """Rows of a run: retrieval, validation MAP@R, steps, spread of pooling weights."""
    metrics, steps = folder.metrics(), folder.recipe().training.steps_per_epoch
    values = {name: 100 * metrics["test"][key] for name, key in SHOWN.items()}
    values |= {
        VALIDATION: 100 * metrics["best_val_map_at_r"],
        "best step": steps * (metrics["best_epoch"] or 0),
        "steps": steps * metrics["epochs"],
    }
    if metrics.get("pooling_weights"):
        values["deviation of weights"] = metrics["pooling_weights"]["std"]
    return [(variant, seed, *item) for item in values.items()]


def gradient_norms(features, labels, pooling, after, loss):
    """Norms of the gradient of a loss at local features, by three ways.

    The pooled feature `Σ_j p_j f_j` (eq. 4.1 of the GSP paper) depends on a local feature f_j
    directly, and by the weights p, which problem (P2) finds from all features. Returned are the
    norms by the weights alone, by the features with fixed weights, and with the weights of an
    average, which are fixed too.

    Args:
        features: local features `(B, h, w, C)`, the input of `pooling`.
        labels: class of each image, `(B,)`.
        pooling: layer with `pooling_weights`.
        after: function from pooled features `(B, C)` to embeddings `(B, D)`.
        loss: loss of labels and embeddings.
    """

    def gradient(weigh):
        with tf.GradientTape() as tape:
            tape.watch(features)
            pooled = tf.reduce_sum(weigh(features)[..., None] * features, axis=(1, 2))
            value = loss(labels, after(pooled))
        return tape.gradient(value, features)

    weights = pooling.pooling_weights(features)
    whole, direct = gradient(pooling.pooling_weights), gradient(lambda _: weights)
    average = tf.ones_like(weights) / tf.cast(tf.size(weights[0]), weights.dtype)
    ways = whole - direct, direct, gradient(lambda _: average)
    return [float(tf.norm(way)) for way in ways]


def gradient_rows(variant, seed, folder):
    """Rows of a run of GSP: the gradient of the last model over batches of training images."""
    recipe = folder.recipe()
    if recipe.pooling.name != "gsp":
        return []
    learner, data = folder.learner(compile=False), recipe.data
    local, pooling = features_model(learner.embedder)
    ends = (keras.tree.flatten(layer.output)[0] for layer in (pooling, learner.embedder))
    after = keras.Model(*ends)
    sizes = data.image_size, data.classes_per_batch, data.images_per_class
    batches = training_dataset(load_splits(recipe).train, *sizes, seed=recipe.seed)
    norms = [
        gradient_norms(local(images), labels, pooling, after, learner.embedding_loss)
        for images, labels in itertools.islice(batches, BATCHES)
    ]
    by_weights, direct, average = np.mean(norms, axis=0)
    values = {BY_WEIGHTS: by_weights / direct, OF_AVERAGE: direct / average}
    return [(variant, seed, *item) for item in values.items()]


def weight_rows(variant, seed, folder):
    """Rows of a run of GSP with the first seed on canvases: the share of the pooling weight that
    falls on the cars."""
    recipe = folder.recipe()
    if recipe.pooling.name != "gsp" or seed != plan.SEEDS[0]:
        return []
    images = load_splits(recipe).test
    chosen = np.linspace(0, len(images) - 1, WEIGHED).astype(int)
    embedder = folder.learner(compile=False).embedder
    _, weights = weights_of(embedder, recipe, images, chosen)
    share = foreground_share(weights, images.foreground_masks(chosen)).mean()
    return [(variant, seed, "weight on the object", share)]


def group_rows(variant, seed, folder):
    """Rows of the frozen network, and how much the groups of a run differ on the test classes."""
    recipe = folder.recipe()
    if recipe.loss_wrapper is None:
        return []
    found, groups = Run(folder.path).test_embeddings(), recipe.head.arguments["num_groups"]
    embeddings = found.queries.reshape(len(found.queries), groups, -1)
    values = group_numbers(embeddings, found.weights, found.query_labels)
    kept = folder.metrics()["frozen"]
    frozen = [(f"groupings-{FROZEN}", 0, name, 100 * kept[key]) for name, key in SHOWN.items()]
    return frozen + [(variant, seed, *item) for item in values.items()]


def group_numbers(groups, maps, labels):
    """How much groups differ, as means over images and pairs of groups.

    The cosine is that of eq. 4 of A-grouping. It depends on the basis of each group. The
    correlation between the similarities that two groups give to all pairs of images does not. The
    overlap of two attention maps is the sum of the smaller values at each place, 1 for equal maps.

    Args:
        groups: embeddings of the groups of images `(N, P, D)`.
        maps: attention maps of the groups `(M, h, w, P)`, of some of the images.
        labels: class of each image, `(N,)`.
    """
    unit = groups / np.linalg.norm(groups, axis=-1, keepdims=True)
    first, second = np.triu_indices(groups.shape[1], k=1)
    cosines = np.einsum("npd,nqd->npq", unit, unit)[:, first, second]
    by_group = np.moveaxis(unit, 1, 0)
    among = [(own @ own.T)[np.triu_indices(len(own), k=1)] for own in by_group]
    flat = maps.reshape(len(maps), -1, maps.shape[-1])
    alone = [retrieval_metrics(own, labels)["map_at_r"] for own in by_group]
    return {
        "cosine": np.abs(cosines).mean(),
        "correlation": np.corrcoef(among)[first, second].mean(),
        "overlap": np.minimum(flat[..., first], flat[..., second]).sum(axis=1).mean(),
        "one group": 100 * np.mean(alone),
    }


def recall_rows(variant, seed, folder):
    """Rows of a run: Recall@1 of the validation classes by steps."""
    steps, found = folder.recipe().training.steps_per_epoch, folder.history()["val_recall_at_1"]
    return [
        (variant, seed, f"R@1, {steps * epoch} steps", 100 * value)
        for epoch, value in enumerate(found, start=1)
    ]


def gain_rows(variant, seed, folder):
    """Rows of the frozen network with a linear head, and what a run has more than both, query by
    query."""
    metrics = folder.metrics()
    low, high = metrics["gain_intervals"]["map_at_r"]
    found = {"gain": metrics["gain"]["map_at_r"], "gain from": low, "gain to": high}
    found["over a linear head"] = metrics["gain_over_head"]["map_at_r"]
    head = [(plan.LINEAR, 0, name, 100 * metrics["head"][key]) for name, key in SHOWN.items()]
    return head + [(variant, seed, quantity, 100 * value) for quantity, value in found.items()]


def ending(rows, names):
    """The rows of a plan with one of some ends of names."""
    return {name: options for name, options in rows.items() if name.partition("-")[2] in names}


def collage(table):
    """Table 1: Cifar Collage."""
    _bring_classifier()
    table.frozen("collage", recipe_of(plan.COLLAGE, []))
    table.train(plan.COLLAGE, plan.collage_rows(), plan.SEEDS)


def poolings(table):
    """Table 2: the poolings on Cifar Collage, three seeds of the best five, GAP and GSP."""
    _bring_classifier()
    rows = plan.pooling_rows()
    table.train(plan.COLLAGE, rows, plan.SEEDS[:1])
    chosen = ("gap", plan.DEFAULT, plan.POOLED_START, *table.best(plan.POOLINGS, 5))
    table.train(plan.COLLAGE, ending(rows, chosen), plan.SEEDS[1:])


def _bring_classifier():
    """The ResNet20 from which recipes of Cifar Collage start: its run is in the results."""
    name = f"{plan.CLASSIFIER.stem}-0"
    folder, part = Path("runs", name), Path("runs", f"{name}.part")
    if not folder.exists():
        shutil.copytree(plan.HERE / "results" / name, part, dirs_exist_ok=True)
        part.rename(folder)


def causes(table):
    """What decides on Cifar Collage: more steps, the form and weight of L_ZS, μ, ε, prototypes."""
    _bring_classifier()
    table.train(plan.COLLAGE, plan.cause_rows(), plan.SEEDS[:1], [gradient_rows])


def cars(table):
    """Table 3: Cars196. The other poolings are those that are best on Cifar Collage."""
    table.frozen("cars", recipe_of(plan.CARS, []))
    table.train(plan.CARS, plan.cars_rows() | plan.sharp_rows() | plan.system_rows(), plan.SEEDS)
    table.train(plan.CARS, plan.fast_head_rows(), plan.SEEDS[:1])
    table.train(plan.WHOLE, plan.whole_rows(), plan.SEEDS[:1])
    others = Table(table.path.with_name("poolings.csv"), table.runs, table.jobs)
    poolings(others)
    table.train(plan.CARS, plan.cars_pooling_rows(others.best(plan.POOLINGS, 3)), plan.SEEDS)


def ccp(table):
    """Table 4: CCP on Cars196."""
    table.train(plan.CARS, plan.ccp_rows(), plan.SEEDS)
    causes = plan.ccp_cause_rows()
    table.train(plan.CARS, causes, plan.SEEDS[:1])
    table.train(plan.CARS, ending(causes, plan.LONGER), plan.SEEDS)


def dose(table):
    """Table 6: shares of the picture, with more of the network training, then other sizes."""
    for share in plan.SHARES:
        _dose(table, share, 160)
    rows = plan.upper_rows() | plan.warm_rows()
    table.train(plan.CANVAS, rows, plan.SEEDS, [weight_rows])
    for size in plan.SIZES:
        if size != 160:
            _dose(table, plan.SHARE_OF_SIZES, size)


def _dose(table, share, size):
    """Rows of one share and size; μ and ε are chosen for each share, at 160 pixels."""
    prefix, rows = plan.dose_name(share, size), plan.dose_rows(share, size)
    table.frozen(prefix, recipe_of(plan.CANVAS, next(iter(rows.values()))))
    searched = ending(plan.dose_rows(share), plan.GRID)
    table.train(plan.CANVAS, searched, plan.SEEDS[:1], [weight_rows])
    found = {name: table.values[name][VALIDATION][plan.SEEDS[0]] for name in searched}
    name = max(found, key=found.get).partition("-")[2]
    wanted = ending(rows, {*plan.RIVALS, plan.DEFAULT, plan.SHARP, name})
    table.train(plan.CANVAS, wanted, plan.SEEDS, [weight_rows])
    values, shown = table.values[f"{prefix}-{name}"], f"{prefix}-{plan.BEST}"
    values |= {quantity: {0: v} for quantity, v in zip("με", plan.GRID[name], strict=True)}
    records.add(
        table.path, [(shown, s, q, v) for q, by_seed in values.items() for s, v in by_seed.items()]
    )


def tuning(table):
    """Table 7: Cars196 from the frozen network to one that trains whole, then what helps that."""
    table.frozen("tuning", recipe_of(plan.WHOLE, []))
    rows = plan.tuning_rows()
    table.train(plan.WHOLE, ending(rows, plan.TUNED), plan.SEEDS, [gain_rows])
    table.train(plan.WHOLE, rows, plan.SEEDS[:1], [gain_rows])


def groupings(table):
    """Table 9: A-grouping and what it is compared with, on the frozen network."""
    _bring_cars()
    table.train(plan.HEADS, plan.grouping_rows(), plan.SEEDS, [group_rows])


def branches(table):
    """Table 10: CRT with consistency and without, on the frozen network."""
    _bring_cars()
    table.train(plan.HEADS, plan.branch_rows(), plan.SEEDS)


def _bring_cars():
    """The first photographs of each class of Cars196, so that their features take minutes."""
    folder = Path("data/cars196_half")
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
    heads.copied(folder, classes, Path("runs/cars196_20"))


def hybrid(table):
    """Table 11: global and local heads with the hybrid loss and its two parts, on characters."""
    table.train(plan.CHARACTERS, plan.hybrid_rows(), plan.SEEDS, [recall_rows])


def losses(table):
    """Table 8: every loss under one budget, three seeds of those with the best validation."""
    _bring_classifier()
    tables = (plan.CARS, plan.loss_rows("cars")), (plan.COLLAGE, plan.loss_rows("collage"))
    for files, rows in tables:
        table.frozen(next(iter(rows)).partition("-")[0], recipe_of(files, []))
        table.train(files, rows, plan.SEEDS[:1])
    chosen = table.best(plan.class_losses(), 6)
    for files, rows in tables:
        table.train(files, ending(rows, chosen), plan.SEEDS[1:])


def ladder(table):
    """The rungs of `gsp-tf train FOLDER`."""
    subprocess.run([sys.executable, Path(__file__).with_name("ladder.py")], check=True)


def zero_shot(table):
    """The study zero_shot_prototypes on CIFAR-100."""
    files, runs = (str(plan.OWN / "zero_shot.yaml"),), str(table.runs)
    _write(table, *zero_shot_prototypes.study(files, runs, jobs=table.jobs))


def plane(table):
    """The study average_pooling_plane with another network."""
    _write(table, *average_pooling_plane.study(backbone="resnet20"))


def _write(table, rows, drawn):
    records.write(table.path, rows)
    for name, figure in drawn.items():
        pictures.save(figure, Path(table.runs, f"{name}.png"))


TABLES = {
    **{of.__name__: of for of in (collage, poolings, causes, cars, ccp, dose, tuning, losses)},
    **{of.__name__: of for of in (groupings, branches, hybrid)},
    "heads": lambda table: heads.study(),
    "covering_bound": lambda table: covering_bound.study(),
    "collage_maps": lambda table: collage_maps.study(),
    "ladder": ladder,
    "zero_shot": zero_shot,
    "average_pooling_plane": plane,
}


def study(
    tables: tuple[str, ...] = tuple(TABLES),
    runs: str = "runs/evidence",
    jobs: int = 1,
    results: str = str(RESULTS),
):
    """Trains what is missing of some tables, writes their numbers, and the pages with them."""
    unknown = sorted(set(tables) - set(TABLES))
    if unknown:
        raise ValueError(f"tables must be among {', '.join(TABLES)}; received {unknown}.")
    for name in tables:
        TABLES[name](Table(Path(results, f"{name}.csv"), runs, jobs))
        evidence_page.write(results)
