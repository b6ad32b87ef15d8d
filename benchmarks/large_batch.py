"""Training steps with large batches that are embedded in chunks.

`.venv/bin/python benchmarks/large_batch.py` takes steps of efficientnet_lite0 at 128 pixels, from
random weights and with frozen batch normalisation: with 256 images at once and in chunks, and with
4,096 images in chunks. Every case runs in its own process. Seconds are those of all cores together,
so that other programs on the machine change them little; peaks are those of the whole process.
"""

import resource
import time

from measure import in_fresh_processes
from results import Ratio, Table, main

GIBIBYTE = 1 << 30
FULL = ((256, None), (256, 32), (4096, 32))
QUICK = ((16, None), (16, 8))


def step_of(batch_size, chunk_size, image_size):
    """Seconds of the processor and peak bytes of a step, after two small ones."""
    import numpy as np
    import tensorflow as tf

    from gsp_tf.recipe import load_recipe
    from gsp_tf.runs import build_learner

    options = [
        "--backbone.name=efficientnet_lite0",
        "--backbone.weights=null",
        "--backbone.freeze_batch_normalization=true",
        "--pooling.name=gap",
        "--embedding.dim=128",
        "--loss.name=multi_similarity",
        f"--data.image_size={image_size}",
        f"--training.chunk_size={'null' if chunk_size is None else chunk_size}",
    ]
    learner = build_learner(load_recipe([], options), 1000, 3)

    def take(size):
        images = np.random.default_rng(0).integers(
            0, 256, (size, *learner.embedder.input_shape[1:])
        )
        images = tf.constant(images.astype("uint8"))
        started = time.process_time()
        learner.train_on_batch(images, tf.range(size) // 4)
        return time.process_time() - started

    for size in (8, 12):  # the second size traces the step for any size
        take(size)
    return take(batch_size), 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(quick=False):
    cases, size = (QUICK, 32) if quick else (FULL, 128)
    measured = in_fresh_processes(step_of, [(*case, size) for case in cases])
    per_image = measured[0][0] / cases[0][0]
    rows = [
        (
            batch,
            "whole" if chunk is None else chunk,
            seconds,
            Ratio(seconds / batch / per_image),
            Ratio(peak / GIBIBYTE, 6.0 if batch > 256 else None, unit=" GiB"),
        )
        for (batch, chunk), (seconds, peak) in zip(cases, measured, strict=True)
    ]
    columns = ["batch", "chunk", "s of all cores", "per image, times whole", "peak of the process"]
    note = "One step each, multi-similarity loss, float32."
    title = f"Large batches in chunks, efficientnet_lite0 at {size} pixels"
    return [Table(title, columns, rows, note)]


if __name__ == "__main__":
    main(run)
