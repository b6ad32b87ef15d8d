"""Whole jobs of a user, from files to a result, beside what they would run instead.

`.venv/bin/python benchmarks/jobs.py` runs every job as a process of its own and in turn with its
peers of `peers.py`, which `make peers` installs in `.venv-peers`. The photographs are those of the
folder in the environment variable PHOTOGRAPHS, which has a subfolder for each class, or windows of
two photographs. The network is EfficientNet-Lite0 with its weights, at 224 pixels.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import collection
import faiss
import numpy as np
from losses import SOP_CLASSES, batch, memory_functions
from measure import medians
from PIL import Image
from pipeline import photographs_in
from results import Ratio, Table, main

from gsp_tf.recipe import load_recipe
from gsp_tf.runs import Run
from gsp_tf.search import Embeddings, build_index

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers/bin/python"
NETWORK, SIDE, BATCH = "efficientnet_lite0", 224, 64
STEPS = 10
MEGAPIXELS = 4000, 3000


def enlarged(paths, folder):
    """The photographs with 12 megapixels, in one class."""
    (folder / "0").mkdir(parents=True)
    for path in paths:
        large = Image.open(path).convert("RGB").resize(MEGAPIXELS, Image.Resampling.BICUBIC)
        large.save(folder / "0" / path.name, quality=90)
    return folder


def ours(*arguments):
    """A command of `gsp-tf`."""
    return [sys.executable, "-m", "gsp_tf", *map(str, arguments)]


def here(function, *arguments):
    """A function of this file, in a process of its own."""
    program = f"import sys; sys.path.insert(0, {str(HERE)!r}); import jobs; "
    return [sys.executable, "-c", program + f"jobs.{function}(*{tuple(map(str, arguments))})"]


def peer(function, *arguments):
    """A function of `peers.py`, with its own libraries."""
    return [str(PEERS), str(HERE / "peers.py"), function, *map(str, arguments)]


# A process counts the memory of the one that starts it until its own program begins: a small one
# starts each program, and prints what it took.
STARTER = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20)
sys.exit(code)
"""


def run_side(program, folder):
    """Seconds that a program prints, or takes, and the peak GiB of its largest process."""
    started = time.perf_counter()
    program = [sys.executable, "-S", "-c", STARTER, *program]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.run(program, cwd=folder, **options)
    taken, text = time.perf_counter() - started, process.stdout
    if process.returncode:
        raise SystemExit(f"{' '.join(program[4:])} failed:\n{text[-3000:]}")
    printed = re.search(r"^seconds (\S+)$", text, re.MULTILINE)
    peak = re.findall(r"^peak (\S+)$", text, re.MULTILINE)[-1]
    return float(printed[1]) if printed else taken, float(peak)


def train(folder, steps, frozen=False):
    """Prints the seconds of a step of multi-similarity training, after the first three."""
    import keras

    class Times(keras.callbacks.Callback):
        ends = []

        def on_train_batch_end(self, batch, logs=None):
            self.ends.append(time.perf_counter())

    options = {
        "data.name": "folder",
        "data.path": folder,
        "data.image_size": SIDE,
        "data.classes_per_batch": BATCH // 4,
        "data.images_per_class": 4,
        "data.horizontal_flip": "true",
        "data.min_crop_area": 0.25,
        "backbone.name": NETWORK,
        "backbone.weights": "imagenet",
        "backbone.freeze_batch_normalization": "true",
        "embedding.dim": "null",
        "pooling.name": "gap",
        "loss.name": "multi_similarity",
        "training.epochs": 1,
        "training.steps_per_epoch": steps,
        "training.learning_rate": 1e-4,
    }
    if frozen:
        options |= {"backbone.frozen_to": "block6d_add", "data.feature_cache": "features"}
        options["data.min_crop_area"] = 1.0
    run = Run("run", load_recipe([], [f"--{name}={value}" for name, value in options.items()]))
    run.fit([Times()])
    print("seconds", np.diff(Times.ends)[2:].mean())


def train_frozen(folder, steps):
    """The same with kept features of the lower part."""
    train(folder, steps, frozen=True)


def decode_and_forward(folder):
    """The bare work of `embed`: decoding and resizing the files, then the forward passes."""
    import tensorflow as tf

    from gsp_tf import backbones

    def image(path):
        decoded = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        return tf.image.resize(decoded, (SIDE, SIDE))

    paths = sorted(map(str, Path(folder).glob("*/*")))
    network = backbones.create(NETWORK, (SIDE, SIDE, 3), weights=backbones.pretrained(NETWORK)[0])
    any_number = [tf.TensorSpec((None, SIDE, SIDE, 3))]
    forward = tf.function(lambda x: tf.reduce_mean(network(x, training=False), (1, 2)), any_number)
    batches = tf.data.Dataset.from_tensor_slices(paths).map(image, tf.data.AUTOTUNE).batch(BATCH)
    kept = next(iter(batches))
    forward(kept)
    started = time.perf_counter()
    for _ in batches.prefetch(2):
        pass
    for start in range(0, len(paths), BATCH):
        forward(kept[: len(paths) - start]).numpy()
    print("seconds", time.perf_counter() - started)


def memory_step(size, batch_size):
    """Prints the seconds of a step with a full memory and a new batch, in graph mode."""
    size, batch_size = int(size), int(batch_size)
    step = memory_functions(["ContrastiveLoss"], batch_size, size, jit_compile=False)
    times = medians(step, lambda number: batch(batch_size, SOP_CLASSES, seed=2 + number), 30)
    print("seconds", times["ContrastiveLoss"] / 1e3)


def queries(count, dim, number):
    """Rows of microseconds of one query at an index, at its faiss index alone, and beyond that."""
    values = collection.vectors(dim, count + number)
    table = Embeddings.from_arrays(values[number:])
    rows = []
    for kind in ("exact", "hnsw", "ivf_sq8"):
        with tempfile.TemporaryDirectory() as folder:
            index = build_index(table, Path(folder, "index"), kind=kind)
            bare = faiss.read_index(str(next(Path(folder).glob("index/vectors*"))))
            times = {"ours": [], "alone": []}
            asked = values[:number, None]
            mapped = index.metadata.search_space().vectors(asked)  # as the vectors of the file are
            sides = [("ours", index.search, asked), ("alone", bare.search, mapped)]
            for row in range(number):
                sides.reverse()  # the second finds what the first has brought into the cache
                for name, search, rows_of in sides:
                    started = time.perf_counter()
                    search(rows_of[row], 10)
                    times[name].append(1e6 * (time.perf_counter() - started))
        more = np.median(np.subtract(times["ours"], times["alone"]))
        medians = map(np.median, times.values())
        rows.append((kind, *medians, Ratio(max(more, 0.1), at_most=10.0, unit=" µs")))
    return rows


def sides_of(folder, count):
    """Jobs: their names, our program, the programs of peers, and the ratios to reach."""
    classes, paths = photographs_in(folder, count)
    large = enlarged(paths[: count // 10], Path(folder, "large"))
    vectors, out = Path(folder, "vectors.npy"), Path(folder, "out")
    run_side(ours("embed", NETWORK, classes, "--out", folder / "known"), folder)
    run_side(ours("index", folder / "known", "--out", folder / "index"), folder)
    run_side(peer("embed_best", classes, vectors), folder)
    embed = {"eager": "embed", "channels last": "embed_best"}
    for name, images in (
        (f"embed {count:,} photographs", classes),
        (f"embed {count // 10:,} photographs of 12 megapixels", large),
    ):
        peers = {key: peer(function, images, vectors) for key, function in embed.items()}
        peers["decoding and passes alone"] = here("decode_and_forward", images)
        targets = {"eager": 3.5, "channels last": 1.3, "decoding and passes alone": 0.9}
        yield name, ours("embed", NETWORK, images, "--out", out), peers, targets
    given = classes, STEPS
    name = "pytorch-metric-learning"
    for job, function, target in (
        ("training step, whole network", "train", 1.2),
        ("training step, upper part on kept features", "train_frozen", 4.0),
    ):
        yield job, here(function, *given), {name: peer(function, *given)}, {name: target}
    step = 8192, 64
    mine, theirs = here("memory_step", *step), peer("memory_step", *step)
    yield "step with a memory of 8,192", mine, {name: theirs}, {name: 1.2}
    name, references = "script with faiss", vectors
    for number in (1, count):
        mine = ours("search", NETWORK, *paths[:number], "--index", folder / "index")
        theirs = {name: peer("search", references, *paths[:number])}
        yield f"search {number:,} of {count:,}", mine, theirs, {name: None}
    name = "imagededup"
    mine = ours("dedup", classes, "--run", NETWORK, "--out", out)
    theirs = {name: peer("duplicates", classes, Path(folder, "duplicates.json"))}
    yield f"duplicates among {count:,} photographs", mine, theirs, {name: 1.5}


def run(quick=False):
    if not PEERS.exists():
        raise SystemExit(
            f"{PEERS} is missing: make peers installs what the jobs are compared with."
        )
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for job, mine, peers, targets in sides_of(folder, 128 if quick else 1000):
            sides = {"gsp_tf": mine} | peers
            taken = {side: [] for side in sides}
            for _ in range(1 if quick else 3):
                for side, program in sides.items():
                    for left in ("out", "run", "features"):
                        shutil.rmtree(folder / left, ignore_errors=True)
                    taken[side].append(run_side(program, folder))
                    print(f"{job}, {side}: {taken[side][-1]}", flush=True)
            medians = {side: np.median(both, axis=0) for side, both in taken.items()}
            seconds, peak = medians.pop("gsp_tf")
            times = np.array([both[0] for both in taken["gsp_tf"]])
            for side, (theirs, their_peak) in medians.items():
                ratio = np.median([both[0] for both in taken[side]] / times)
                ratio = Ratio(ratio, at_least=targets[side])
                rows.append((job, side, seconds, theirs, ratio, peak, their_peak))
    columns = "job", "beside", "s", "s of it", "times faster", "peak GiB", "peak GiB of it"
    count = 1_000 if quick else 100_000
    at_index = queries(count, 128, 20 if quick else 1000)
    return [
        Table("Whole jobs", columns, rows, "Medians of 3 rounds, of ratios within a round."),
        Table(
            f"One query, {count:,} x 128 in clusters",
            ("index", "µs", "µs of faiss alone", "more"),
            at_index,
        ),
    ]


if __name__ == "__main__":
    main(run)
