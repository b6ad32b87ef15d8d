"""Training steps with a million classes, of which each step samples a tenth.

`.venv/bin/python benchmarks/many_classes.py` trains ArcFace with proxies of 128 dimensions on
batches of 128, alone on TensorFlow and within PartialFC on every backend. Every case runs in its
own process. Peaks are those of the whole process, from its start; seconds are those of all cores.
"""

import json
import resource
import statistics
import time

BATCH, DIM, STEPS = 128, 128, 6
MODES = {
    "TensorFlow": ("tensorflow", False),
    "TensorFlow, XLA": ("tensorflow", True),
    "JAX": ("jax", True),
    "PyTorch": ("torch", False),
}
EVERYWHERE, HERE = tuple(MODES), ("TensorFlow",)
CASES = (
    ("all", "SGD", {}, HERE),
    ("a tenth", "SGD", {}, EVERYWHERE),
    ("a tenth", "SGD", {"momentum": 0.9}, EVERYWHERE),
    ("a tenth", "Adam", {}, EVERYWHERE),
    ("a tenth", "Adam", {"health check": True}, HERE),
)
PEAKS_NOTE = (
    "One matrix of the proxies in float32 is 0.48 GiB. Adam keeps two more, and TensorFlow under "
    "XLA copies what it changes. On PyTorch the peak is the random initial values of the proxies, "
    "not a step."
)
PROGRAM = """
import json, sys
from many_classes import steps
print(json.dumps(steps(*json.loads(sys.argv[1]))))
"""


def steps(num_classes, sampled, optimizer, options, jit_compile):
    """Median seconds of the processor for a step, and peak bytes of the process."""
    import keras
    import numpy as np

    from gsp_tf.losses import ArcFaceLoss, PartialFC
    from gsp_tf.training import HealthCheck, MetricLearner

    class Stopwatch(keras.callbacks.Callback):
        seconds = []

        def on_train_batch_begin(self, batch, logs=None):
            self.started = time.process_time()

        def on_train_batch_end(self, batch, logs=None):
            self.seconds.append(time.process_time() - self.started)

    callbacks = [Stopwatch()]
    if options.pop("health check", False):
        callbacks.append(HealthCheck(every=STEPS // 2))
    loss = ArcFaceLoss(num_classes)
    if sampled == "a tenth":
        loss = PartialFC(loss, sample_rate=0.1, seed=0)
    learner = MetricLearner(keras.Sequential([keras.Input((64,)), keras.layers.Dense(DIM)]), loss)
    learner.compile(getattr(keras.optimizers, optimizer)(**options), jit_compile=jit_compile)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(STEPS * BATCH, 64)).astype("float32")
    labels = rng.integers(0, num_classes, len(x))
    learner.fit(x, labels, batch_size=BATCH, shuffle=False, verbose=0, callbacks=callbacks)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return statistics.median(callbacks[0].seconds[2:]), peak


def measured(num_classes, case, mode):
    """What `steps` returns for a case, from a process with the backend of a mode."""
    from measure import on_backend

    backend, jit_compile = MODES[mode]
    given = json.dumps([num_classes, *case[:3], jit_compile])
    return on_backend(backend, PROGRAM, given, CUDA_VISIBLE_DEVICES="-1")


def run(quick=False):
    from results import Ratio, Table

    num_classes, cases = (1000, CASES[1:3]) if quick else (10**6, CASES)
    modes = HERE if quick else EVERYWHERE
    peaks, seconds = [], []
    for case in cases:
        sampled, optimizer, options, on = case
        words = [f"{k} {v}" if v is not True else k for k, v in options.items()]
        name = ", ".join([optimizer, *words])
        found = {m: measured(num_classes, case, m) for m in modes if m in on}
        bound = 4.0 if sampled == "a tenth" and "health check" not in options else None
        shown = {m: Ratio(peak / 2**30, bound, unit=" GiB") for m, (_, peak) in found.items()}
        peaks.append((sampled, name, *(shown.get(m, "") for m in modes)))
        if "health check" not in options:
            seconds.append((sampled, name, *(found[m][0] if m in found else "" for m in modes)))
    columns = ["classes of a step", "optimizer", *modes]
    title = f"ArcFace, {num_classes:,} classes x {DIM}, batch of {BATCH}"
    note = "" if quick else PEAKS_NOTE
    return [
        Table(f"Peak of the process: {title}", columns, peaks, note),
        Table(f"Seconds of the processor for a step: {title}", columns, seconds),
    ]


if __name__ == "__main__":
    from results import main  # imports TensorFlow, which would count in the peaks of other backends

    main(run)
