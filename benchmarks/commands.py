"""Time of the commands of `gsp-tf` beyond their forward passes and their reading of photographs.

`.venv/bin/python benchmarks/commands.py` runs each command as a process of its own on 1,000
photographs, laid out as a folder of 32 classes: those of the subfolders of the folder in the
environment variable PHOTOGRAPHS, or windows of two photographs. The network is EfficientNet-Lite0
with its weights, at 224 pixels. The forward passes and the reading (check, decoding and resizing)
of the same photographs are timed as `RunModel.embed_images` does them once the model is loaded and
traced, and the passes alone too. The rest of a command is its time without theirs: the start of
Python and of TensorFlow, loading and tracing of the model, the command itself. *Keras alone* is
what cannot be spared: it starts as a command does, loads the same network from a .keras file of
Keras' own layers, and embeds one photograph or exports the network.

Processor time (user and system) of other programs does not count; the time of the clock is longer
where other programs run.
"""

import functools
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import rounds
from pipeline import photographs_in
from results import Ratio, Table, main

from gsp_tf import backbones
from gsp_tf.data import FileImages
from gsp_tf.recipe import BackboneRecipe, DataRecipe, Recipe, TrainingRecipe
from gsp_tf.runs import RunFolder, build_learner, evaluation_batches, load_splits
from gsp_tf.search import RunModel
from gsp_tf.training import inference

NETWORK, SIDE = "efficientnet_lite0", 224
NEIGHBOURS = 10
SAMPLE, ALTERED, ALTERATIONS = 512, 64, 4  # of `calibrate_on_copies`, besides a JPEG of each
EXAMPLES = 64  # test images whose place maps a report shows
TARGET = 3.0
FORMATS = "saved_model", "onnx", "litert", "keras"
START = "from gsp_tf import cli; cli._shorten_imports(); import tensorflow, keras"
LOADED = f"{START}; model = keras.models.load_model('network.keras'); "
EMBEDS = LOADED + f"model(tensorflow.zeros((1, {SIDE}, {SIDE}, 3)), training=False).numpy()"
IMAGES = f"keras.InputSpec('float32', (None, {SIDE}, {SIDE}, 3), name='images')"
EXPORTS = LOADED + f"model.export({{!r}}, {{!r}}, input_signature=[{IMAGES}], verbose=False)"
OF_KERAS = {  # its names of formats, and endings of files
    "saved_model": ("tf_saved_model", ""),
    "onnx": ("onnx", ".onnx"),
    "litert": ("litert", ".tflite"),
}


def make_run(folder, classes):
    """A run of the network as it is, with photographs of its own."""
    weights = backbones.pretrained(NETWORK)
    recipe = Recipe(
        name="commands",
        data=DataRecipe("folder", str(classes), image_size=SIDE),
        backbone=BackboneRecipe(NETWORK, weights[0] if weights else None),
        training=TrainingRecipe(epochs=0),
    )
    run = RunFolder(Path(folder, "run")).start(recipe)
    build_learner(recipe, num_classes=2, channels=3).save(run.model_path)
    run.update_metrics(status="finished", epochs=0, best_epoch=None)
    return run, load_splits(recipe)


class Clock:
    """Seconds of the clock and of the processor, of this process or of those that it started."""

    def __init__(self, who):
        self._who = who

    def __call__(self, function):
        before = self._now()
        function()
        return [after - start for start, after in zip(before, self._now(), strict=True)]

    def _now(self):
        used = resource.getrusage(self._who)
        return time.perf_counter(), used.ru_utime + used.ru_stime


def of_a_photograph(run, paths, num_rounds):
    """Seconds of a photograph for its pass, then with its reading: of clock and processor."""
    model, clock = RunModel(run.path), Clock(resource.RUSAGE_SELF)
    files = [str(path) for path in paths]
    model.embed_images(files[:64])
    forward = inference(model.embedder)
    images = FileImages(files, [0] * len(files), [""])
    batch, _ = next(iter(evaluation_batches(model.recipe, images)))
    forward(batch)
    passes = -(-len(files) // len(batch))
    parts = {
        "passes": lambda: [forward(batch).numpy() for _ in range(passes)],
        "both": lambda: model.embed_images(files),
    }
    taken = [[clock(part) for part in parts.values()] for _ in range(num_rounds)]
    medians = np.median(taken, axis=0)
    return medians[0] / (passes * len(batch)), medians[1] / len(files)


def commands(run, splits, classes, paths):
    """Names, arguments, and the photographs that pass through the model and that are read alone."""
    folder, count = run.path.parent, len(paths)
    embedded, index = run.path / "embeddings", run.path / "index"
    copies = min(SAMPLE, count) + ALTERATIONS * min(ALTERED, count)
    test, validation = len(splits.test), len(splits.validation)
    duplicates = ["dedup", classes, "--run", run.path, "--out", folder / "duplicates"]
    rate = ["--false-match-rate", "0.05"]
    thresholds = folder / "thresholds.json"
    return [
        ("embed", ["embed", run.path, classes], count, 0),
        ("index", ["index", run.path], 0, 0),
        ("search", ["search", run.path, paths[0]], 1, 0),
        ("search --html", ["search", run.path, paths[0], "--html"], 1, 1 + NEIGHBOURS),
        ("search, by embeddings", ["search", index, embedded], 0, 0),
        ("calibrate, a run", ["calibrate", run.path, *rate, "--out", thresholds], validation, 0),
        ("calibrate, embeddings", ["calibrate", embedded, *rate], 0, 0),
        ("dedup", duplicates, count + copies, 0),
        ("dedup, again", duplicates, 0, 0),
        ("clean", ["clean", classes, "--run", run.path, "--out", folder / "errors"], count, 0),
        ("clean, embeddings", ["clean", index, "--out", folder / "errors2"], 0, 0),
        ("evaluate", ["evaluate", run.path], test + EXAMPLES, EXAMPLES),
        ("rank, embeddings", ["rank", embedded], 0, 0),
        ("report", ["report", run.path, "--out", folder / "tables"], 0, 0),
        ("publish", ["publish", run.path], 4, 0),
        *((f"export, {name}", ["export", run.path, "--format", name], 8, 0) for name in FORMATS),
    ]


def run(quick=False):
    count = 200 if quick else 1000
    clock = Clock(resource.RUSAGE_CHILDREN)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        classes, paths = photographs_in(folder, count)
        made, splits = make_run(folder, classes)
        forward, both = of_a_photograph(made, paths, min(3, rounds(quick)))
        backbones.create(NETWORK, (SIDE, SIDE, 3)).save(Path(folder, "network.keras"))
        exports = [
            (f"Keras alone, export, {name}", EXPORTS.format(f"network{ending}", form))
            for name, (form, ending) in OF_KERAS.items()
        ]
        starts = [
            ("import of TensorFlow and Keras", "import tensorflow, keras"),
            ("the same, as in a command", START),
            ("Keras alone, one photograph", EMBEDS),
            *exports,
        ]
        done = (
            (name, ["-m", "gsp_tf", *arguments], *of)
            for name, arguments, *of in commands(made, splits, classes, paths)
        )
        starts = ((name, ["-c", program], 0, 0) for name, program in starts)
        for name, arguments, passes, read in (*starts, *done):
            program = [sys.executable, *map(str, arguments)]
            options = {"stdout": subprocess.DEVNULL, "cwd": folder, "check": True}
            wall, used = clock(functools.partial(subprocess.run, program, **options))
            reading = both[1] - forward[1]
            parts = passes * forward[1], (passes + read) * reading
            rest = Ratio(max(wall - passes * both[0] - read * reading, 1e-3), TARGET, unit=" s")
            print(f"{name}: {wall:.1f} s", flush=True)
            rows.append((name, passes, wall, used, *parts, used - sum(parts), rest))
    columns = ["command", "photographs embedded", "s", "processor, s", "of it forward passes"]
    columns += ["of it reading", "of it the rest", "the rest of s"]
    note = (
        f"{len(paths):,} photographs. Passes and reading are timed in one process, and the time of "
        "the clock has both at once. Copies of photographs that dedup "
        "makes to measure its distance count as photographs embedded."
    )
    return [Table("Commands", columns, rows, note)]


if __name__ == "__main__":
    main(run)
