"""Costs of a CCP projection relative to the training steps of a problem.

`.venv/bin/python benchmarks/ccp.py` prints the times of a training step with the loss in the batch
and with the loss of a proxy problem, and the times of the work between two problems: embedding the
pool from JPEG files, choosing its k-centers, and moving proxies and θ*. From these it computes the
cost of a projection with the recipes for CUB-200-2011 and Stanford Online Products, relative to the
shortest possible problem.
"""

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from measure import medians, rounds
from pipeline import write_photographs
from results import Ratio, Table, main

from gsp_tf.data import FileImages
from gsp_tf.losses import ProxyPairsLoss
from gsp_tf.ops import greedy_k_center
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import build_learner, evaluation_batches
from gsp_tf.training import ProjectionLearner, ProxyPool, inference

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
SETS = {"cub200": 100, "sop": 11_318}
POOL_CLASSES = 8
PLAIN_STEP, STEP = "training step, C2 within the batch", "training step of a problem"
POOL, MOVE = "loading and embedding the pool", "new θ*, weights and proxies"


@dataclass(frozen=True)
class Sizes:
    """Backbone, side of the images, training batch, and classes by data set."""

    backbone: str
    side: int
    batch: int
    classes: dict


FULL = Sizes("bn_inception", 227, 32, SETS)
QUICK = Sizes("conv4", 32, 4, dict.fromkeys(SETS, 5))


def recipe_of(name, sizes):
    files = f"benchmarks/{name}.yaml", "methods/c2.yaml", "methods/ccp.yaml"
    options = [f"--backbone.name={sizes.backbone}", "--backbone.weights=null"]
    options += [f"--data.image_size={sizes.side}"]
    options += [f"--data.resize={math.ceil(sizes.side * 256 / 227)}"]
    return load_recipe([EXPERIMENTS / file for file in files], options)


def problem_learner(recipe, num_classes):
    """The compiled learner of a proxy problem."""
    given = build_learner(recipe, num_classes, 3)
    loss = ProxyPairsLoss(
        given.embedding_loss, num_classes, recipe.ccp.proxies_per_class, recipe.ccp.batch_weight
    )
    learner = ProjectionLearner(given.embedder, loss)
    optimizer = keras.optimizers.deserialize(keras.optimizers.serialize(given.optimizer))
    learner.compile(optimizer, jit_compile=recipe.training.jit_compile)
    learner.optimizer.build(learner.trainable_variables)
    learner.project_from_here(recipe.ccp.projection_weight)
    return learner


def training_step(learner, sizes):
    rng = np.random.default_rng(0)
    shape = sizes.batch, sizes.side, sizes.side, 3
    images = tf.constant(rng.integers(0, 256, shape), "uint8")
    labels = tf.range(sizes.batch) // 4
    return lambda: tf.constant(learner.train_on_batch(images, labels)[0])


def pool_of(recipe, folder):
    """`ProxyPool` with as many JPEG files as one draw uses."""
    num_files = POOL_CLASSES * recipe.ccp.pool_size
    labels = np.arange(num_files) % POOL_CLASSES
    files = FileImages(
        write_photographs(folder, num_files), labels, [str(c) for c in range(POOL_CLASSES)]
    )
    return ProxyPool(labels, lambda indices: evaluation_batches(recipe, files, indices))


def k_center(recipe, num_classes):
    """Function that chooses proxies in the pools of all classes, given the current ones."""
    rng = np.random.default_rng(0)
    ccp, dim = recipe.ccp, recipe.embedding.dim
    pool, centers = (
        tf.constant(rng.normal(size=(num_classes, size, dim)), "float32")
        for size in (ccp.pool_size, ccp.proxies_per_class)
    )
    return lambda: greedy_k_center(pool, centers, ccp.proxies_per_class)


def move(learner):
    """Function that restores the best weights, makes them θ* and assigns other proxies."""
    proxies = learner.embedding_loss.proxies

    def run():
        learner.embedder.set_weights(learner.embedder.get_weights())
        learner.project_from_here(learner.projection_weight.numpy())
        proxies.assign(proxies.numpy())
        return proxies.value

    return run


def run(quick=False):
    sizes = QUICK if quick else FULL
    recipes = {name: recipe_of(name, sizes) for name in SETS}
    cub200, num_classes = recipes["cub200"], sizes.classes["cub200"]
    learner = problem_learner(cub200, num_classes)
    forward = inference(learner.embedder)
    centers = {
        name: f"k-center of {num_classes:,} classes, {name}"
        for name, num_classes in sizes.classes.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        pool = pool_of(cub200, folder)
        pieces = {
            PLAIN_STEP: training_step(build_learner(cub200, num_classes, 3), sizes),
            STEP: training_step(learner, sizes),
            POOL: lambda: tf.constant(pool.draw(forward, cub200.ccp.pool_size)[0]),
            MOVE: move(learner),
            **{centers[name]: k_center(recipes[name], sizes.classes[name]) for name in SETS},
        }
        times = medians(pieces, [], rounds(quick))
    num_images = POOL_CLASSES * cub200.ccp.pool_size
    details = {PLAIN_STEP: sizes.batch, STEP: sizes.batch, POOL: num_images}
    rows = [
        (name, str(details.get(name, "")), ms, Ratio(ms / times[STEP]))
        for name, ms in times.items()
    ]
    projections = []
    for name, recipe in recipes.items():
        images = sizes.classes[name] * recipe.ccp.pool_size
        ms = images / num_images * times[POOL] + times[centers[name]] + times[MOVE]
        in_steps = ms / times[STEP]
        problem = (recipe.ccp.patience + 1) * recipe.training.steps_per_epoch
        row = name, sizes.classes[name], images, Ratio(times[centers[name]] / ms)
        projections.append((*row, Ratio(in_steps), problem, Ratio(in_steps / problem)))
    return [
        Table(
            f"Pieces of CCP, {sizes.backbone} at {sizes.side}",
            ["what", "images", "ms", "training steps"],
            rows,
        ),
        Table(
            "One projection, computed from its pieces",
            [
                "data set",
                "classes",
                "images of the pools",
                "share of k-center",
                "training steps",
                "steps of the shortest problem",
                "projection / shortest problem",
            ],
            projections,
            "The shortest problem has its best model after the first evaluation and then waits for "
            "its patience. Evaluations are left out; the training step is that of cub200 for both.",
        ),
    ]


if __name__ == "__main__":
    main(run)
