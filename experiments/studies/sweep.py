"""Variants of a recipe, trained with several seeds, and their results."""

import multiprocessing
import shutil
import zlib
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

import numpy as np
from joblib import cpu_count  # of the cores that the process may use

from gsp_tf._files import replacing
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import Run, RunFolder, evaluation_batches, load_splits, place_maps
from gsp_tf.training import embed

HERE = Path(__file__).parents[1]
SHOWN = {"P@1": "precision_at_1", "MAP@R": "map_at_r"}
TRAINING, UNSEEN = "training classes", "unseen classes"


def sweep(files, variants, seeds, runs, jobs=1, ended=lambda key, folder: None):
    """Train what has not been trained yet, and continue what was stopped.

    Args:
        files: recipe files, as `gsp-tf train` takes them.
        variants: the options of each variant by its name, and recipe files of its own.
        seeds: seeds of each variant.
        runs: folder of the run folders `NAME-SEED`.
        jobs: runs at the same time, each with its share of the cores.
        ended: called with `(variant, seed)` and the `RunFolder` of each run that is complete.

    Returns:
        the complete `RunFolder` by `(variant, seed)`.
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


def titled_sweep(files, variants, *arguments):
    """As `sweep`, of variants by their titles: the name of the run and its options."""
    folders = sweep(files, dict(variants.values()), *arguments)
    names = {name: title for title, (name, _) in variants.items()}
    found = {(names[name], seed): folder for (name, seed), folder in folders.items()}
    return dict(sorted(found.items(), key=lambda item: list(variants).index(item[0][0])))


def recipe_of(files, options, resolve=True):
    """The recipe of files and options; an option that does not begin with -- is another file."""
    files = [files] if isinstance(files, (str, Path)) else list(files)
    own = [option for option in options if not option.startswith("--")]
    changes = [option for option in options if option not in own]
    return load_recipe([*files, *own], changes, resolve)


def retrieval_rows(folders):
    """Rows of a table: P@1 and MAP@R of the test classes in percent."""
    return [
        (*key, shown, 100 * folder.metrics()["test"][name])
        for key, folder in folders.items()
        for shown, name in SHOWN.items()
    ]


def opened(folders):
    """Each run with its recipe, its splits, read once for equal data, and its embedder."""
    splits = []
    for key, folder in folders.items():
        recipe = folder.recipe()
        wanted = recipe.data, recipe.protocol
        known = [found for data, found in splits if data == wanted]
        if not known:
            known = [load_splits(recipe)]
            splits.append((wanted, known[0]))
        yield key, recipe, known[0], folder.learner(compile=False).embedder


def embedded(embedder, recipe, images):
    """Embeddings and labels of images."""
    return embed(embedder, evaluation_batches(recipe, images))


def weights_of(embedder, recipe, images, indices=None):
    """Images `(N, S, S, channels)` and pooling weights `(N, h, w)`, which are uniform for GAP."""
    batches = [batch.numpy() for batch, _ in evaluation_batches(recipe, images, indices)]
    maps = [place_maps(embedder, batch).weights for batch in batches]
    pixels = np.rint(np.concatenate(batches)).astype(np.uint8)
    if maps[0] is None:
        return pixels, np.full((len(pixels), 1, 1), 1.0)
    return pixels, np.concatenate(maps)[..., 0]


def _refuse_another(folder, recipe):
    """A run is of a recipe whatever its name and wherever its data lay."""
    if not folder.recipe_path.exists():
        return
    found = folder.recipe()
    data = replace(recipe.data, path=found.data.path)
    if found != replace(recipe, name=found.name, data=data):
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
