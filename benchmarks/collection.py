"""Costs per image of embedding and indexing a large collection on one core.

`.venv/bin/python benchmarks/collection.py` prints how many images of 500 x 375 pixels one core
embeds with `BatchEmbedder`, and the shares of the time for checking, decoding and the model. The
model has random weights, whose values do not affect the time. It also prints the disk space, memory
and time that each kind of index takes per vector.

Every number is measured in a new process that is bound to one core (`os.sched_setaffinity`) and
uses one thread of TensorFlow and of faiss. Times are processor times (`time.process_time`), which
other programs on the machine change little.
"""

import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
import pyarrow as pa
import tensorflow as tf
from measure import in_fresh_processes, peak_bytes
from pipeline import write_photographs
from results import Ratio, Table, main

from gsp_tf.data import FileImages, read_image
from gsp_tf.recipe import BackboneRecipe, DataRecipe, EmbeddingRecipe, EvaluationRecipe, Recipe
from gsp_tf.runs import RunFolder, build_learner, evaluation_batches
from gsp_tf.search import (
    BatchEmbedder,
    EmbeddingsFolder,
    VectorIndex,
    choose_effort,
    exact_neighbours,
)
from gsp_tf.training import inference

KINDS = ("exact", "ivf_sq8", "ivf_pq")
NEIGHBOURS = 10
CLUSTER_SIZE = 50
NOISE = 0.35
TRAINING_POINTS = 65_536, 64  # the minimum, and the number per list, as in `build_index`
BATCH_SIZE = 32
NUM_FILES = 32
PROBES = 64  # lists that the timed searches visit
SEARCHES = 7  # rounds of a search


@dataclass(frozen=True)
class Sizes:
    """Backbones and sides; images; dimensions; vectors; queries; rounds."""

    backbones: tuple
    images: int
    dims: tuple
    vectors: int
    queries: int
    rounds: int


FULL = Sizes((("bn_inception", 227), ("resnet50", 224)), 256, (128, 512), 100_000, 256, 2)
QUICK = Sizes((("conv4", 32), ("resnet20", 32)), 64, (16,), 2_000, 32, 1)


def on_one_core():
    """Bind this process to one core and one thread, before it uses TensorFlow."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    faiss.omp_set_num_threads(1)


def seconds(function, rounds):
    """Median processor time of a function."""
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        function()
        taken.append(time.process_time() - started)
    return statistics.median(taken)


def throughput(backbone, side, sizes):
    """Seconds per image to embed, check, decode and run the model; bytes of its file."""
    on_one_core()
    data = {"image_size": side, "resize": round(side / 0.875)}
    with tempfile.TemporaryDirectory() as folder:
        photographs = write_photographs(folder, NUM_FILES)
        recipe = Recipe(
            data=DataRecipe(name="folder", path=folder, **data),
            backbone=BackboneRecipe(backbone),
            embedding=EmbeddingRecipe(max(sizes.dims)),
            evaluation=EvaluationRecipe(batch_size=BATCH_SIZE),
        )
        run = RunFolder(Path(folder) / "run").start(recipe)
        build_learner(recipe, num_classes=2, channels=3).save(run.model_path)
        embedder = BatchEmbedder(run.path)
        paths = [str(photographs[i % NUM_FILES]) for i in range(sizes.images)]
        images = FileImages(paths, np.zeros(len(paths), int), [""])
        batch, _ = next(iter(evaluation_batches(recipe, images)))
        forward = inference(embedder.model.embedder)
        forward(batch)
        embedder({"path": paths[: len(batch)]})
        parts = {
            "embed": lambda: embedder({"path": paths}),
            "check": lambda: [read_image(path) for path in paths],
            "decode": lambda: list(evaluation_batches(recipe, images)),
            "model": lambda: [forward(batch).numpy() for _ in range(len(paths) // len(batch))],
        }
        taken = {name: seconds(part, sizes.rounds) / len(paths) for name, part in parts.items()}
        return taken, statistics.mean(path.stat().st_size for path in photographs)


def throughputs(sizes):
    measured = in_fresh_processes(throughput, [(*model, sizes) for model in sizes.backbones])
    rows = [
        (f"{backbone} at {side}", 1 / taken["embed"], *(1e3 * taken[name] for name in taken))
        for (backbone, side), (taken, _) in zip(sizes.backbones, measured, strict=True)
    ]
    columns = ["model", "images/s of a core", "ms of an image", "check", "decode", "model alone"]
    note = (
        f"BatchEmbedder on {sizes.images} paths of {NUM_FILES} JPEG files of 500 x 375 pixels, of "
        f"{measured[0][1]:,.0f} bytes on average; medians of {sizes.rounds} rounds of the "
        "processor's time. The check decodes the whole file by Pillow, as gsp-tf embed does, to "
        "leave out broken ones. Random weights."
    )
    return Table(f"Embedding on one core, {max(sizes.dims)} dimensions", columns, rows, note)


def vectors(dim, count):
    """Unit vectors around random directions, in random order."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((max(1, count // CLUSTER_SIZE), dim), np.float32)
    values = centres[rng.integers(0, len(centres), count)]
    values += NOISE * rng.standard_normal(values.shape, np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def build(kind, dim, sizes, path):
    """Costs of an index in a file."""
    on_one_core()
    values, ids = vectors(dim, sizes.vectors), np.arange(sizes.vectors)
    index = VectorIndex.new(kind, dim, len(values), faiss.METRIC_L2).index
    rng = np.random.default_rng(0)
    lists = 0 if kind == "exact" else index.nlist
    points = min(len(values), max(TRAINING_POINTS[0], TRAINING_POINTS[1] * lists))
    started = time.process_time()
    if lists:
        index.train(values[rng.choice(len(values), points, replace=False)])
    trained = time.process_time()
    index.add_with_ids(values, ids)
    added = time.process_time()
    rows = np.sort(rng.choice(len(values), min(sizes.queries, len(values)), replace=False))
    queries, recall, codes, assigning, chosen = values[rows], 1.0, len(values), 0.0, 0
    if lists:
        truth = exact_neighbours([(ids, values)], queries, rows, NEIGHBOURS, faiss.METRIC_L2)
        recall = choose_effort(VectorIndex(kind, index), queries, rows, truth)
        chosen = index.nprobe
        index.nprobe = min(PROBES, lists)
        faiss.cvar.indexIVF_stats.reset()
        index.search(queries, NEIGHBOURS)
        codes = faiss.cvar.indexIVF_stats.ndis / len(queries)
        some = values[: 10 * BATCH_SIZE]
        assigning = seconds(lambda: index.quantizer.search(some, 1), SEARCHES) / len(some)
    searching = seconds(lambda: index.search(queries, NEIGHBOURS), SEARCHES) / len(queries)
    faiss.write_index(index, path)
    return {
        "lists": lists,
        "probes": chosen,
        "training": trained - started,
        "adding": (added - trained) / len(values),
        "assigning": assigning,
        "searching": searching,
        "codes": codes,
        "recall": recall,
        "disk": os.path.getsize(path) / len(values),
    }


def memory(path):
    """Bytes of memory that an index takes after it is read."""
    held, flags = [], faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE
    return peak_bytes(lambda: held.append(faiss.read_index(path, flags)))


def indexes(sizes):
    """The tables of the sizes and the times of indexes."""
    settings = [(kind, dim) for dim in sizes.dims for kind in KINDS]
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / f"{kind}-{dim}") for kind, dim in settings]
        tasks = [(*setting, sizes, path) for setting, path in zip(settings, paths, strict=True)]
        built = in_fresh_processes(build, tasks)
        held = in_fresh_processes(memory, [(path,) for path in paths])
    holds, takes = [], []
    for (kind, dim), costs, size in zip(settings, built, held, strict=True):
        of_memory = size / sizes.vectors
        holds.append((f"{kind}, D = {dim}", costs["lists"], costs["disk"], of_memory))
        holds[-1] += (costs["probes"], Ratio(costs["recall"]))
        of_code = 1e9 * (costs["searching"] - costs["lists"] * _per_list(costs)) / costs["codes"]
        takes.append(
            (f"{kind}, D = {dim}", costs["training"], 1e6 * costs["adding"])
            + (1e9 * _per_list(costs), 1e3 * costs["searching"], costs["codes"], of_code)
        )
    held_columns = ["kind", "lists", "bytes of a vector on disk", "in memory"]
    held_columns += ["lists looked into", f"recall of the {NEIGHBOURS} nearest"]
    time_columns = ["kind", "training, s", "adding, µs a vector", "assigning, ns a list"]
    time_columns += ["search, ms a query", "codes of a query", "ns a code"]
    data = (
        f"{sizes.vectors:,} unit vectors in clusters of {CLUSTER_SIZE}, with noise of {NOISE} of "
        "the standard deviation of their random centres. "
    )
    return [
        Table(
            "Indexes: what they hold",
            held_columns,
            holds,
            data + "Memory is that of a process which reads the index, per vector.",
        ),
        Table(
            "Indexes: the time of one core",
            time_columns,
            takes,
            f"The same indexes; medians of {SEARCHES} rounds, {sizes.queries} queries at a time. "
            "Assigning finds the list of a vector; it is a part of adding and of searching, and "
            f"grows with the number of lists. A search looks into {PROBES} lists; what is left of "
            "it without assigning is divided by the codes that it compares.",
        ),
    ]


def _per_list(costs):
    return costs["assigning"] / max(1, costs["lists"])


def files(sizes):
    """Bytes per vector in Parquet."""
    rows, count = [], 256 if sizes is QUICK else 4096
    for dim in sizes.dims:
        values = vectors(dim, sizes.vectors)[:count]
        paths = [f"/collection/{number // 1000:06}/{number:012}.jpg" for number in range(count)]
        with tempfile.TemporaryDirectory() as folder:
            written = EmbeddingsFolder(folder)
            columns = {"path": paths, "label": ["a class"] * count}
            columns["embedding"] = pa.FixedSizeListArray.from_arrays(values.ravel(), dim)
            written.write_shard(0, pa.table(columns))
            size = written.shard_path(0).stat().st_size / count
        rows.append((f"D = {dim}", 4 * dim, size))
    note = f"A shard of {count:,} rows: path of {len(paths[0])} characters, label and embedding."
    return Table("Parquet", ["embeddings", "bytes of the values", "bytes of the file"], rows, note)


def run(quick=False):
    sizes = QUICK if quick else FULL
    return [throughputs(sizes), files(sizes), *indexes(sizes)]


if __name__ == "__main__":
    main(run)
