"""Trains the rows of experiments/studies/evidence_plan.py and writes their numbers.

python experiments/studies/evidence.py [--tables "[collage, cars]"] [--runs FOLDER] [--jobs 2]

Each table is a CSV file in experiments/results/evidence, of which evidence_page.py makes a page.
What a file has is not trained again. Without its lines in the file, a row is measured again from
its run folder, or trained. Stopped runs continue. Other poolings and the numbers of GSP are chosen
by the validation classes of seed 0, not by test classes.
"""

import shutil
import zlib
from pathlib import Path

import evidence_plan as plan
import numpy as np
import records
from collage import weights_of
from gsp_gradient import gradient_rows
from jsonargparse import auto_cli
from sweep import recipe_of, sweep

from gsp_tf.evaluation import foreground_share
from gsp_tf.recipe import Recipe, recipe_values
from gsp_tf.runs import frozen_metrics, load_splits

SHOWN = {"P@1": "precision_at_1", "MAP@R": "map_at_r"}
VALIDATION, DIGEST = "validation MAP@R", "recipe"
FROZEN = "frozen"
WEIGHED = 512  # test images whose pooling weights are looked at


class Table:
    """The numbers of one CSV file. What it lacks is trained, and written as soon as a run ends.

    Args:
        path: CSV file of `records`.
        runs: folder of the run folders.
        jobs: runs at the same time, each with its share of the cores.
    """

    def __init__(self, path, runs, jobs=1):
        self.path, self.runs, self.jobs = Path(path), runs, jobs

    @property
    def values(self):
        """As `records.read` returns; empty before the first run."""
        return records.read(self.path) if self.path.exists() else {}

    def train(self, files, variants, seeds, more=()):
        """Train the variants of a recipe with the seeds that the file lacks.

        Args:
            files: recipe files, as `sweep` takes them.
            variants: dict from names to options, as `sweep` takes them.
            seeds: seeds of each variant.
            more: functions from a variant, its seed and its `RunFolder` to further rows.

        Raises:
            ValueError: if the file has numbers of another recipe under one of the names.
        """
        for seed in seeds:
            digests = {name: digest(files, options) for name, options in variants.items()}
            missing = {
                name: options
                for name, options in variants.items()
                if not self._is_measured(name, seed, digests[name])
            }

            def ended(key, folder):
                rows = [row for rows in (run_rows, *more) for row in rows(*key, folder)]
                records.add(self.path, [(*key, DIGEST, digests[key[0]]), *rows])  # noqa: B023

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
        """The names with the highest validation MAP@R, whatever stands before them.

        Args:
            names: ends of names of variants, such as "gap" of "cars_c2-gap".
            count: how many to return, the best first.
        """
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
        """Measure the network of a recipe without training, unless the file has it.

        Args:
            name: prefix of the rows of a table.
            recipe: recipe of the table.
        """
        variant = f"{name}-{FROZEN}"
        if variant not in self.values:
            found = frozen_metrics(recipe).means()
            rows = [(variant, 0, name, 100 * found[key].value) for name, key in SHOWN.items()]
            records.add(self.path, rows)


def digest(files, options):
    """A number that tells recipes apart by what they change of the defaults, but for the place of
    their data.

    Args:
        files: recipe files, as `sweep` takes them.
        options: list of str, as `sweep` takes them.
    """
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
    """Rows of `records.write`: retrieval, validation MAP@R, steps, spread of pooling weights.

    Args:
        variant: name of the row.
        seed: its seed.
        folder: complete `RunFolder`.
    """
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
    chosen = ("gap", plan.DEFAULT, *table.best(plan.POOLINGS, 5))
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
    grid, prefix = plan.gsp_grid(), plan.dose_name(share, size)
    rows = plan.dose_rows(share, size)
    table.frozen(prefix, recipe_of(plan.CANVAS, next(iter(rows.values()))))
    searched = ending(plan.dose_rows(share), grid)
    table.train(plan.CANVAS, searched, plan.SEEDS[:1], [weight_rows])
    found = {name: table.values[name][VALIDATION][plan.SEEDS[0]] for name in searched}
    name = max(found, key=found.get).partition("-")[2]
    wanted = ending(rows, {*plan.RIVALS, plan.DEFAULT, plan.SHARP, name})
    table.train(plan.CANVAS, wanted, plan.SEEDS, [weight_rows])
    values, shown = table.values[f"{prefix}-{name}"], f"{prefix}-{plan.BEST}"
    values |= {quantity: {0: v} for quantity, v in zip("με", grid[name], strict=True)}
    records.add(
        table.path, [(shown, s, q, v) for q, by_seed in values.items() for s, v in by_seed.items()]
    )


def weight_rows(variant, seed, folder):
    """Rows of `records.write`: the share of the pooling weight of GSP that falls on the cars.

    Args:
        variant: name of the row.
        seed: its seed; the first seed alone is looked at.
        folder: complete `RunFolder` of a recipe with canvases.
    """
    recipe = folder.recipe()
    if recipe.pooling.name != "gsp" or seed != plan.SEEDS[0]:
        return []
    images = load_splits(recipe).test
    chosen = np.linspace(0, len(images) - 1, WEIGHED).astype(int)
    embedder = folder.learner(compile=False).embedder
    _, weights = weights_of(embedder, recipe, images, chosen)
    share = foreground_share(weights, images.foreground_masks(chosen)).mean()
    return [(variant, seed, "weight on the object", share)]


def tuning(table):
    """Table 7: Cars196 from the frozen network to one that trains whole, then what helps that."""
    table.frozen("tuning", recipe_of(plan.WHOLE, []))
    rows = plan.tuning_rows()
    table.train(plan.WHOLE, ending(rows, plan.TUNED), plan.SEEDS, [gain_rows])
    table.train(plan.WHOLE, rows, plan.SEEDS[:1], [gain_rows])


def gain_rows(variant, seed, folder):
    """Rows of `records.write`: the frozen network with a linear head, and what a run has more than
    both, query by query.

    Args:
        variant: name of the row.
        seed: its seed.
        folder: complete `RunFolder` of a recipe with pretrained weights.
    """
    metrics = folder.metrics()
    low, high = metrics["gain_intervals"]["map_at_r"]
    found = {"gain": metrics["gain"]["map_at_r"], "gain from": low, "gain to": high}
    found["over a linear head"] = metrics["gain_over_head"]["map_at_r"]
    head = [(plan.LINEAR, 0, name, 100 * metrics["head"][key]) for name, key in SHOWN.items()]
    return head + [(variant, seed, quantity, 100 * value) for quantity, value in found.items()]


def losses(table):
    """Table 8: every loss under one budget, three seeds of those with the best validation."""
    _bring_classifier()
    tables = (plan.CARS, plan.loss_rows("cars")), (plan.COLLAGE, plan.loss_rows("collage"))
    for files, rows in tables:
        name = next(iter(rows)).partition("-")[0]
        table.frozen(name, recipe_of(files, []))
        table.train(files, rows, plan.SEEDS[:1])
    chosen = table.best(plan.class_losses(), 6)
    for files, rows in tables:
        table.train(files, ending(rows, chosen), plan.SEEDS[1:])


TABLES = {
    "collage": collage,
    "poolings": poolings,
    "causes": causes,
    "cars": cars,
    "ccp": ccp,
    "dose": dose,
    "tuning": tuning,
    "losses": losses,
}


def main(
    tables: tuple[str, ...] = tuple(TABLES),
    runs: str = "runs/evidence",
    jobs: int = 1,
    results: str = "experiments/results/evidence",
):
    """Trains what is missing of some tables, and writes their numbers.

    Args:
        tables: names of `TABLES`.
        runs: folder of the run folders.
        jobs: runs at the same time, each with its share of the cores.
        results: folder of the CSV files.
    """
    unknown = sorted(set(tables) - set(TABLES))
    if unknown:
        raise ValueError(f"tables must be among {', '.join(TABLES)}; received {unknown}.")
    for name in tables:
        table = Table(Path(results, f"{name}.csv"), runs, jobs)
        TABLES[name](table)
        print(table.path)


if __name__ == "__main__":
    auto_cli(main, as_positional=False)
