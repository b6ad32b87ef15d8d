"""Costs of the training pipeline, as ratios taken in one run.

`.venv/bin/python benchmarks/pipeline.py` makes JPEG files of 500 x 375 pixels from photographs. It
prints the throughput of the training view (random crop, 227 x 227, flip, batches of 32) relative to
a bare `tf.io.decode_jpeg` of the same files with as many threads, and to the kernels of TensorFlow
that such a view needs. It prints the share of time that training steps of resnet20 wait for data,
and the cost of the class-balanced sampler at the size of Stanford Online Products.
"""

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from measure import rounds
from PIL import Image
from results import Ratio, Table, main
from sklearn.datasets import load_sample_images

from gsp_tf import backbones
from gsp_tf.data import ClassBalancedSampler, FileImages, reduce_images, training_dataset
from gsp_tf.layers import L2Normalization
from gsp_tf.losses import ContrastiveLoss

SIDE = 227
SMALLEST_AREA = (40 / 256) ** 2  # of a random crop, in that of the central square
NUM_FILES = 256
CLASSES = 32
BATCH_SIZE = 32
WARM_UP_BATCHES = 8
ROUND_BATCHES = 24
STEPS = 20


def write_photographs(folder, num_files):
    """JPEG files of 500 x 375 pixels: windows of two photographs."""
    rng = np.random.default_rng(0)
    photographs = [Image.fromarray(image) for image in load_sample_images().images]
    paths = []
    for number in range(num_files):
        photograph = photographs[number % len(photographs)]
        width = int(rng.integers(400, photograph.height * 4 // 3))
        height = width * 3 // 4
        left = int(rng.integers(0, photograph.width - width))
        top = int(rng.integers(0, photograph.height - height))
        part = photograph.crop((left, top, left + width, top + height))
        paths.append(Path(folder) / f"{number}.jpg")
        part.resize((500, 375), Image.Resampling.LANCZOS).save(paths[-1], quality=90)
    return paths


def photographs(folder, count):
    """Photographs of the folder in PHOTOGRAPHS, evenly spaced, or windows of two, written here."""
    given = os.environ.get("PHOTOGRAPHS")
    if given is None:
        return write_photographs(folder, count)
    found = sorted(Path(given).glob("*/*.jpg"))
    return found[:: max(1, len(found) // count)][:count]


def photographs_in(folder, count):
    """A folder of 32 classes with `count` photographs in all, and their paths."""
    files, target, paths = photographs(folder, count), Path(folder, "photographs"), []
    for number, path in enumerate(files):
        paths.append(target / f"{number * CLASSES // len(files):02}" / f"{number:05}.jpg")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, paths[-1])
    return target, paths


def bare(paths, work):
    """Batches of the work on each file, with as many threads."""
    dataset = tf.data.Dataset.from_tensor_slices([str(path) for path in paths]).repeat()
    dataset = dataset.map(work, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH_SIZE)
    options = tf.data.Options()
    options.threading.max_intra_op_parallelism = 1
    options.autotune.enabled = False
    return dataset.prefetch(2).with_options(options)


def decode(path):
    """Decodes a file and ignores its pixels."""
    return tf.shape(tf.io.decode_jpeg(tf.io.read_file(path), channels=3))


def decode_and_resize(path):
    """The kernels that a view needs: a square of the central one's area is decoded and resized."""
    contents = tf.io.read_file(path)
    size = tf.io.extract_jpeg_shape(contents)[:2]
    area = tf.random.uniform((), SMALLEST_AREA, 1.0)
    side = tf.cast(tf.sqrt(area) * tf.cast(tf.reduce_min(size), tf.float32), tf.int32)
    window = tf.concat([(size - side) // 2, [side, side]], axis=0)
    method = {"channels": 3, "dct_method": "INTEGER_ACCURATE"}
    pixels = tf.io.decode_and_crop_jpeg(contents, window, **method)
    return tf.ensure_shape(tf.image.resize(pixels, (SIDE, SIDE)), (SIDE, SIDE, 3))


def training_view(images, side):
    return training_dataset(
        images,
        image_size=side,
        classes_per_batch=8,
        images_per_class=4,
        seed=0,
        horizontal_flip=True,
        min_crop_area=SMALLEST_AREA,
        resize=256,
    )


def seconds_per_round(datasets, num_rounds, warm_up_batches, num_batches):
    """Seconds for some batches of every data set in turn, each time from its beginning."""
    times = {name: [] for name in datasets}
    for round_number in range(num_rounds + 1):
        for name, dataset in datasets.items():
            iterator = iter(dataset)
            for _ in range(warm_up_batches):
                next(iterator)
            started = time.perf_counter()
            for _ in range(num_batches):
                next(iterator)
            if round_number >= 1:
                times[name].append(time.perf_counter() - started)
            del iterator  # otherwise it keeps fetching
    return {name: statistics.median(taken) for name, taken in times.items()}


def waiting_share(dataset, side, num_steps):
    """Share of the training time in which the model waits for its batch."""
    model = keras.Sequential(
        [
            backbones.create("resnet20", (side, side, 3)),
            keras.layers.GlobalAveragePooling2D(),
            L2Normalization(),
        ]
    )
    model.compile("adam", loss=ContrastiveLoss())
    iterator = iter(dataset)
    for _ in range(3):
        model.train_on_batch(*next(iterator))
    waited, started = 0.0, time.perf_counter()
    for _ in range(num_steps):
        asked = time.perf_counter()
        batch = next(iterator)
        waited += time.perf_counter() - asked
        model.train_on_batch(*batch)
    return waited / (time.perf_counter() - started)


def sampler_times(num_classes, num_batches):
    """Seconds to the first batch, and seconds per later batch (median and maximum)."""
    labels = np.repeat(np.arange(num_classes), 5)
    started = time.perf_counter()
    batches = iter(ClassBalancedSampler(labels, 8, 4, seed=0))
    next(batches)
    first = time.perf_counter() - started
    times = []
    for _ in range(num_batches):
        started = time.perf_counter()
        next(batches)
        times.append(time.perf_counter() - started)
    return first, statistics.median(times), max(times)


def throughput(quick):
    side, num_files, num_batches = (48, 128, 2) if quick else (SIDE, NUM_FILES, ROUND_BATCHES)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_photographs(folder, num_files)
        files = FileImages(paths, np.arange(num_files) % 32, [str(c) for c in range(32)])
        copies = reduce_images(files, Path(folder) / "copies", 256)
        times = seconds_per_round(
            {
                "bare decode_jpeg": bare(paths, decode),
                "kernels of the view alone": bare(paths, decode_and_resize),
                "training view": training_view(files, side),
                "training view, reduced copies": training_view(copies, side),
            },
            rounds(quick),
            1 if quick else WARM_UP_BATCHES,
            num_batches,
        )
        share = waiting_share(training_view(files, side), side, 2 if quick else STEPS)
    decoding, kernels, *_ = times.values()
    rows = [
        (name, num_batches * BATCH_SIZE / each, Ratio(decoding / each), Ratio(kernels / each))
        for name, each in times.items()
    ]
    return Table(
        f"Training view of JPEG files of 500 x 375 pixels, batches of {BATCH_SIZE} at {side}",
        ["side", "images/s", "times bare decoding", "times the kernels"],
        rows,
        f"A training step of resnet20 at {side} waits for data {100 * share:.1f}% of the time.",
    )


def sampler(quick):
    rows = []
    for num_classes in (100, 200) if quick else (100, 1_000, 11_318):
        first, typical, longest = sampler_times(num_classes, 30 if quick else 3000)
        rows.append((num_classes, 1e3 * first, 1e3 * typical, 1e3 * longest))
    columns = "classes", "ms until the first batch", "ms for each of the next", "at most"
    return Table("Class-balanced sampler, 8 classes of 4 images", columns, rows)


def run(quick=False):
    return [throughput(quick), sampler(quick)]


if __name__ == "__main__":
    main(run)
