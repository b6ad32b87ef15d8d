"""Heads of `gsp-tf adapt` on a frozen network, and how they find classes that came later.

1,000 photographs are the first 20 of each of the first 50 classes of a folder, Cars196 (half) by
default. `gsp-tf adapt` trains each head on them with each seed, 10 of the classes test it, and the
network alone and each head embed 1,200 photographs of the next 60 classes. The seconds are those of
`gsp-tf adapt` as a whole; the first run computes the features of the photographs. The table is
experiments/results/evidence/heads.csv, which docs/pretrained.md sums up.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import records
from sweep import HERE, SHOWN, embedded

from gsp_tf.data import load_folder
from gsp_tf.evaluation import ranking_metrics
from gsp_tf.runs import Run, pretrained_run

OUT = HERE / "results/evidence/heads.csv"
NETWORK, HEADS = "efficientnet_lite0", ("linear", "mlp", "gsp")
IMAGES, CLASSES, FURTHER = 20, 50, 60


def copied(folder, classes, target):
    """A folder with the first photographs of some classes of another."""
    for name in classes:
        (target / name).mkdir(parents=True, exist_ok=True)
        for path in sorted((folder / name).iterdir())[:IMAGES]:
            if not (target / name / path.name).exists():  # with its time, by which it is known
                shutil.copy2(path, target / name)
    return target


def on_further(run, images):
    """P@1 and MAP@R of classes that came later, with the ends of their intervals, in percent."""
    means = ranking_metrics(*embedded(run.learner.embedder, run.recipe, images)).means()
    return [
        (f"further {shown}{end}", 100 * value)
        for shown, name in SHOWN.items()
        for end, value in zip(("", " from", " to"), means[name], strict=True)
    ]


def adapted(photos, head, seed):
    """The run of a head, and its seconds and seconds of processor time."""
    path = Path("runs/heads", f"{head}-{seed}")
    shutil.rmtree(path, ignore_errors=True)
    command = ["adapt", str(photos), "--head", head, "--seed", str(seed), "--run", str(path)]
    start, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-m", "gsp_tf", *command], check=True)
    after, seconds = os.times(), time.perf_counter() - start
    busy = sum(after[2:4]) - sum(before[2:4])
    return Run(path), [("seconds", seconds), ("processor seconds", busy)]


def study(photographs: str = "data/cars196_half", seeds: tuple[int, ...] = (0, 1, 2)):
    """Trains the heads and adds their numbers to the table as they come."""
    folder, place = Path(photographs), Path("runs/heads")
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
    photos = copied(folder, classes[:CLASSES], place / "photos")
    copied(folder, classes[CLASSES : CLASSES + FURTHER], place / "further")
    further = load_folder(place / "further")
    alone = Run(pretrained_run(NETWORK))
    records.add(OUT, [("network", 0, *found) for found in on_further(alone, further)])
    for seed in seeds:
        for head in HEADS:
            run, rows = adapted(photos, head, seed)
            metrics = run.folder.metrics()
            rows += [(shown, 100 * metrics["test"][name]) for shown, name in SHOWN.items()]
            rows += on_further(run, further)
            records.add(OUT, [(head, seed, *found) for found in rows])
            frozen = [(shown, 100 * metrics["frozen"][name]) for shown, name in SHOWN.items()]
            records.add(OUT, [("network", 0, *found) for found in frozen])
