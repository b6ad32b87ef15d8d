"""What a HealthCheck costs, in training steps.

`.venv/bin/python benchmarks/health.py` trains with a check after every step and with none. The
difference is one check, which recipes make every 200 steps. Seconds are those of all cores.
"""

import time

import keras
import numpy as np
from measure import in_fresh_processes
from results import Ratio, Table, main

EVERY = 200
FULL = (("conv4", 32, 32), ("conv4", 64, 112), ("efficientnet_lite0", 128, 64))
QUICK = (("conv4", 16, 8),)


class Stopwatch(keras.callbacks.Callback):
    """Seconds of the processor for each batch with its callbacks; it must be the first of them."""

    def on_train_begin(self, logs=None):
        self.times = []

    def on_train_batch_begin(self, batch, logs=None):
        self.times.append(time.process_time())


def seconds(backbone, image_size, batch_size):
    """Median seconds of a step, and of a step with a check."""
    from gsp_tf.recipe import load_recipe
    from gsp_tf.runs import build_learner
    from gsp_tf.training import HealthCheck

    options = [f"--backbone.name={backbone}", "--backbone.weights=null"]
    options += [f"--data.image_size={image_size}", "--loss.name=proxy_anchor"]
    learner = build_learner(load_recipe([], options), 100, 3)
    shape = (12 * batch_size, *learner.embedder.input_shape[1:])
    images = np.random.default_rng(0).integers(0, 256, shape).astype("uint8")
    labels = np.arange(len(images)) // 4 % 100
    medians = []
    for every in (0, 1):
        watch = Stopwatch()
        arguments = {"batch_size": batch_size, "shuffle": False, "verbose": 0}
        learner.fit(images, labels, callbacks=[watch, HealthCheck(every)], **arguments)
        medians.append(float(np.median(np.diff(watch.times)[2:])))
    return medians


def run(quick=False):
    cases = QUICK if quick else FULL
    rows = []
    for case, (step, with_check) in zip(cases, in_fresh_processes(seconds, cases), strict=True):
        check = max(with_check - step, 1e-9)
        share = Ratio(100 * check / step / EVERY, 2.0, unit=" %")
        rows.append((*case, 1000 * step, 1000 * check, share))
    columns = ["backbone", "pixels", "batch", "step, ms", "check, ms", f"cost, every {EVERY} steps"]
    return [Table("A look at the health of training", columns, rows)]


if __name__ == "__main__":
    main(run)
