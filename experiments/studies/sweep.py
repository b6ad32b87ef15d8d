"""Variants of a recipe, trained with several seeds, and their results."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from gsp_tf.experiment import RunFolder, train_recipe
from gsp_tf.recipe import load_recipe


def sweep(files, variants, seeds, runs, jobs=1):
    """Train what has not been trained yet.

    Args:
        files: recipe files, as `gsp-tf train` takes them.
        variants: dict from the name of a variant to its options, such as
            `["--pooling.transport_ratio=0.3"]`.
        seeds: seeds of each variant.
        runs: folder of the run folders `NAME-SEED`; those that are complete are not trained again.
        jobs: runs at the same time, each with its share of the cores.

    Returns:
        dict from `(variant, seed)` to the metrics of the run.
    """
    paths = {(name, seed): Path(runs) / f"{name}-{seed}" for name in variants for seed in seeds}
    missing = {key: path for key, path in paths.items() if "test" not in RunFolder(path).metrics()}
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // jobs)
    with ProcessPoolExecutor(jobs, context, max_tasks_per_child=1) as pool:
        tasks = [
            pool.submit(
                _train, files, [*variants[name], f"--name={name}", f"--seed={seed}"], path, threads
            )
            for (name, seed), path in missing.items()
        ]
        for task in tasks:
            task.result()
    return {key: RunFolder(path).metrics() for key, path in paths.items()}


def retrieval_rows(results):
    """Rows of `records.write`: P@1 and MAP@R of the test classes in percent.

    Args:
        results: as `sweep` returns.
    """
    names = {"P@1": "precision_at_1", "MAP@R": "map_at_r"}
    return [
        (variant, seed, shown, 100 * metrics["test"][key])
        for (variant, seed), metrics in results.items()
        for shown, key in names.items()
    ]


def _train(files, options, path, threads):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    train_recipe(load_recipe(files, options), path)
