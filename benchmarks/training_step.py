"""Costs of a whole training step with GSP instead of average pooling.

`.venv/bin/python benchmarks/training_step.py` prints time and peak memory of training steps (loss,
gradient and update) of bn_inception at 227 pixels and resnet50 at 224 pixels. The recipes are those
of experiments/ for CUB-200-2011: C2 with average pooling, with GSP, and with GSP and its zero-shot
loss.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from measure import in_fresh_processes, medians, peak_bytes, rounds
from results import Ratio, Table, main

from gsp_tf.recipe import load_recipe
from gsp_tf.runs import build_learner

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
NUM_CLASSES = 100
AT_MOST = 1.03
GAP, GSP, ZERO_SHOT = "GAP", "GSP", "GSP, zero-shot loss"


@dataclass(frozen=True)
class Setting:
    """A backbone, the side and the number of its images, and the compiler."""

    backbone: str
    side: int
    batch: int
    jit_compile: bool


FULL = [
    Setting(backbone, side, batch, jit_compile)
    for backbone, side in (("bn_inception", 227), ("resnet50", 224))
    for batch, jit_compile in ((8, False), (32, False), (8, True))
]
QUICK = [Setting("conv4", 32, 4, False)]


def learner(setting, side):
    """The compiled learner of one of the compared sides."""
    files = [EXPERIMENTS / "benchmarks/cub200.yaml", EXPERIMENTS / "methods/c2.yaml"]
    files += [EXPERIMENTS / "methods/gsp.yaml"] * (side != GAP)
    options = [f"--backbone.name={setting.backbone}", "--backbone.weights=null"]
    options += [f"--data.image_size={setting.side}"]
    options += [f"--training.jit_compile={setting.jit_compile}"]
    recipe = load_recipe(files, options + ["--zero_shot.weight=0"] * (side == GSP))
    return build_learner(recipe, NUM_CLASSES, 3)


def batch(setting, size):
    """Images `(size, S, S, 3)`; pairs of them share a class."""
    images = np.random.default_rng(0).integers(0, 256, (size, setting.side, setting.side, 3))
    return tf.constant(images, "uint8"), tf.range(size) // 2


def training_step(learner):
    return lambda images, labels: tf.constant(learner.train_on_batch(images, labels)[0])


def peak(setting, side):
    """Peak bytes of a training step beyond those of a small step."""
    step = training_step(learner(setting, side))
    for size in (2, 4):  # the second size traces the step for any size
        step(*batch(setting, size))
    whole = batch(setting, setting.batch)
    return peak_bytes(lambda: step(*whole))


def compared(setting, num_rounds):
    """Milliseconds, ratio to average pooling and, without XLA, peak memory of each side."""
    sides = GAP, GSP, ZERO_SHOT
    peaks = [""] * len(sides)
    if not setting.jit_compile:
        taken = in_fresh_processes(peak, [(setting, side) for side in sides])
        peaks = [bytes_ / 2**20 for bytes_ in taken]
    steps = {side: training_step(learner(setting, side)) for side in sides}
    times = medians(steps, batch(setting, setting.batch), num_rounds)
    return [
        (
            f"{setting.backbone} at {setting.side}{', XLA' * setting.jit_compile}",
            setting.batch,
            side,
            times[side],
            Ratio(times[side] / times[GAP], AT_MOST if side == GSP else None),
            most,
        )
        for side, most in zip(sides, peaks, strict=True)
    ]


def run(quick=False):
    rows = [
        row for setting in (QUICK if quick else FULL) for row in compared(setting, rounds(quick))
    ]
    columns = "backbone", "batch", "pooling", "ms", "times GAP", "MiB"
    return [Table("Whole training step, 128 dimensions, C2", columns, rows)]


if __name__ == "__main__":
    main(run)
