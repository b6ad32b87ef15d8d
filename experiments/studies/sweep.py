"""Variants of a recipe, trained with several seeds, and their results."""

import multiprocessing
import shutil
import zlib
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from joblib import cpu_count  # of the cores that the process may use

from gsp_tf._files import replacing
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import Run, RunFolder


def sweep(files, variants, seeds, runs, jobs=1, ended=lambda key, folder: None):
    """Train what has not been trained yet, and continue what was stopped.

    Args:
        files: recipe files, as `gsp-tf train` takes them.
        variants: dict from the name of a variant to its options, such as
            `["--pooling.transport_ratio=0.3"]`, and to recipe files of its own.
        seeds: seeds of each variant.
        runs: folder of the run folders `NAME-SEED`.
        jobs: runs at the same time, each with its share of the cores.
        ended: called with `(variant, seed)` and the `RunFolder` of each run that is complete.

    Returns:
        dict from `(variant, seed)` to the complete `RunFolder`.

    Raises:
        ValueError: if a folder holds a run of another recipe.
    """
    recipes = {
        (name, seed): recipe_of(files, [*options, f"--name={name}", f"--seed={seed}"])
        for seed in seeds
        for name, options in variants.items()
    }
    folders = {(name, seed): RunFolder(Path(runs, f"{name}-{seed}")) for name, seed in recipes}
    for key, folder in folders.items():
        _refuse_another(folder, recipes[key])
    context = multiprocessing.get_context("forkserver")
    threads = max(1, cpu_count() // jobs)
    with ProcessPoolExecutor(jobs, context, max_tasks_per_child=1) as pool:
        tasks = {}
        for key, folder in folders.items():
            if "test" in folder.metrics():
                ended(key, folder)
            else:
                tasks[pool.submit(_train, recipes[key], folder, threads)] = key
        for task in as_completed(tasks):
            task.result()
            ended(tasks[task], folders[tasks[task]])
    return folders


def recipe_of(files, options, resolve=True):
    """The recipe of files and options; an option that does not begin with -- is another file.

    Args:
        files: recipe files, as `gsp-tf train` takes them.
        options: list of str.
        resolve: whether defaults of classes are filled in, as in `load_recipe`.
    """
    files = [files] if isinstance(files, (str, Path)) else list(files)
    own = [option for option in options if not option.startswith("--")]
    changes = [option for option in options if option not in own]
    return load_recipe([*files, *own], changes, resolve)


def titled(folders, variants):
    """Run folders by the titles of their variants, in the order of the titles.

    Args:
        folders: as `sweep` returns.
        variants: dict from title to `(name, options)`.

    Returns:
        dict from `(title, seed)` to `RunFolder`.
    """
    return {
        (title, seed): folder
        for title, (wanted, _) in variants.items()
        for (name, seed), folder in folders.items()
        if name == wanted
    }


def retrieval_rows(folders):
    """Rows of `records.write`: P@1 and MAP@R of the test classes in percent.

    Args:
        folders: as `sweep` returns.
    """
    names = {"P@1": "precision_at_1", "MAP@R": "map_at_r"}
    return [
        (variant, seed, shown, 100 * folder.metrics()["test"][key])
        for (variant, seed), folder in folders.items()
        for shown, key in names.items()
    ]


def _refuse_another(folder, recipe):
    """A run is of a recipe whatever its name and wherever its data lay."""
    if not folder.recipe_path.exists():
        return
    found = folder.recipe()
    wanted = replace(
        recipe,
        name=found.name,
        data=replace(recipe.data, path=found.data.path),
    )
    if found != wanted:
        raise ValueError(
            f"{folder.path} holds a run of another recipe than that of {recipe.name}: choose "
            "another folder with --runs, or remove it."
        )


def _train(recipe, folder, threads):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    run = Run(folder.path, None if folder.recipe_path.exists() else recipe).fit()
    if run.status == "interrupted":
        raise KeyboardInterrupt
    kept = _baselines(recipe, folder.path.with_name("baselines"))
    pairs = [(folder.frozen_path, kept / "frozen.npz"), (folder.head_path, kept / "head.npz")]
    for own, shared in pairs:
        if shared.exists():
            shutil.copy(shared, own)
    run.evaluate()
    kept.mkdir(parents=True, exist_ok=True)
    for own, shared in pairs:
        if own.exists() and not shared.exists():
            with replacing(shared) as temporary:
                shutil.copy(own, temporary)


def _baselines(recipe, folder):
    """Where runs of the same images and network keep what they are compared with."""
    images, backbone = recipe.data, recipe.backbone
    network = backbone.name, backbone.preset, backbone.weights, backbone.tokens, recipe.initial_run
    settings = images, network, recipe.protocol, recipe.evaluation
    return folder / f"{zlib.crc32(repr(settings).encode()):08x}"
