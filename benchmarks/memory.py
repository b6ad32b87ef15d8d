"""Peak memory of the commands on a run, by the number of its test images.

`.venv/bin/python benchmarks/memory.py` trains a few steps at 227 pixels on JPEG files of 500 x 375
pixels, with few and with 10,000 test images. It then evaluates the run again, embeds and indexes
its images, and writes a page of nearest neighbours. Every command runs in its own process, and its
peak is the largest resident memory that Linux reports. The backbone is a single convolution, so
images and results weigh more than features. Test images beyond the first 256 are links to these.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pipeline import write_photographs
from results import Ratio, Table, main

COMMAND = """
import sys
import keras
from gsp_tf.backbones import register
from gsp_tf.cli import main

@register("one_convolution")
def one_convolution(input_shape=(None, None, 3)):
    images = keras.Input(input_shape)
    x = keras.layers.Rescaling(1 / 127.5, offset=-1.0)(images)
    x = keras.layers.Conv2D(64, 16, strides=16, activation="relu")(x)
    return keras.Model(images, x, name="one_convolution")

main(sys.argv[1:])
"""
GIBIBYTE = 1 << 30
NUM_FILES = 256
CLASSES = {"train": 16, "validation": 8}
IMAGES_PER_CLASS = 16
RECIPE = """
data: {{name: manifest, path: {manifest}, image_size: {side}, classes_per_batch: 8}}
backbone: {{name: one_convolution}}
embedding: {{dim: 128}}
training: {{epochs: 1, steps_per_epoch: 4}}
"""


def write_recipe(folder, num_test_images, num_files, side):
    """A recipe with a manifest that lists files of training, validation and test classes."""
    folder.mkdir()
    files = write_photographs(folder, num_files)
    rows, label = ["path,label,split"], 0
    for split, classes in {**CLASSES, "test": num_test_images // IMAGES_PER_CLASS}.items():
        (folder / split).mkdir()
        for number in range(classes * IMAGES_PER_CLASS):
            path = folder / split / f"{number}.jpg"
            os.link(files[number % num_files], path)
            rows.append(f"{path},{label + number // IMAGES_PER_CLASS},{split}")
        label += classes
    (folder / "manifest.csv").write_text("\n".join(rows))
    recipe = RECIPE.format(manifest=folder / "manifest.csv", side=side)
    (folder / "recipe.yaml").write_text(recipe)
    return folder / "recipe.yaml"


def measured(*arguments):
    """Peak bytes and seconds of a command."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"gsp-tf {' '.join(map(str, arguments))} failed.")
    return 1024 * usage.ru_maxrss, time.perf_counter() - started


def run(quick=False):
    few, many, side = (32, 64, 32) if quick else (256, 10_000, 227)
    num_files = 32 if quick else NUM_FILES
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        recipes = {
            count: write_recipe(folder / str(count), count, num_files, side)
            for count in (few, many)
        }
        path, images = folder / "run", folder / str(many) / "test"
        query = next(images.iterdir())
        commands = [
            ("train", few, ["train", recipes[few], "--run", folder / "few"]),
            ("train", many, ["train", recipes[many], "--run", path]),
            ("evaluate", many, ["evaluate", path]),
            ("embed", many, ["embed", path, images]),
            ("index", many, ["index", path / "embeddings"]),
            ("search", many, ["search", path, query]),
            ("search --html", many, ["search", path, query, "--k", many * 4 // 5, "--html"]),
        ]
        base = None
        for name, count, arguments in commands:
            peak, seconds = measured(*arguments)
            bound = base and round(base + 1, 3)
            shown = Ratio(peak / GIBIBYTE, bound, unit=" GiB")
            base = base or shown.value
            rows.append((name, count, shown, seconds))
        pages = [path / "report.html", path / "search.html"]
        sizes = [f"{page.name} {page.stat().st_size / 1e6:.1f} MB" for page in pages]
    columns = ["command", "test images", "peak", "s"]
    title = f"Memory of commands, images of {side} pixels, 128 dimensions"
    note = (
        "Peaks of whole processes; bounds: 1 GiB above training with few test images. search "
        f"--html has k = {many * 4 // 5:,}. Pages: {', '.join(sizes)}."
    )
    return [Table(title, columns, rows, note)]


if __name__ == "__main__":
    main(run)
