"""What each rung of `gsp-tf train FOLDER` is worth, on folders of photographs.

python experiments/studies/ladder.py [--folders "[grocery, cars-25x25]"] [--seeds "[0, 1, 2]"]

`gsp-tf train` climbs its ladder on each folder with each seed. cars-25x25 is 25 classes of the
folder cars, evenly spaced, with the first 25 photographs of each. grocery.csv is the folder grocery
with its super-classes spread over training, validation and test. Adds to
experiments/results/evidence/ladder.csv the P@1 and MAP@R of the test classes, the MAP@R of the
validation classes and the minutes of each rung. What that file has is not trained again, and a
ladder that was stopped continues.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import records
from jsonargparse import auto_cli
from PIL import Image

from gsp_tf._files import replacing
from gsp_tf.data import (
    CanvasImages,
    FileImages,
    load_cifar100,
    load_folder,
    load_glyphs,
    load_omniglot,
    split_classes,
)
from gsp_tf.runs import RunFolder, choose_recipe

OUT = Path(__file__).parents[1] / "results/evidence/ladder.csv"
RUNS = Path("runs/ladder")
RUNGS = ("head", "block", "network")
SHOWN = {"P@1": "precision_at_1", "MAP@R": "map_at_r"}
PHOTOGRAPHS = {"grocery": "data/grocery", "cars": "data/cars196_half", "messy": "data/cars196_half"}
DRAWN = {
    "cifar100": lambda: load_cifar100("data/cifar100"),
    "omniglot": lambda: load_omniglot("data/omniglot", 105, counts={}),
    "letters": lambda: load_glyphs(48),
    "canvases": lambda: CanvasImages(
        load_folder("data/cars196_half"), load_cifar100("data/cifar100"), 224, 0.4
    ),
}
FOLDERS = (
    "grocery",
    "grocery.csv",
    "grocery-20x25",
    "cars-25x25",
    "letters-100x20",
    "omniglot-100x20",
    "messy-25x25",
    "canvases-25x25",
    "cifar100-100x25",
    "cars-98x83",
)


def photographs(name):
    """The folder or manifest of a name: all of a folder, or a part, written once."""
    source, _, part = name.partition("-")
    if source in PHOTOGRAPHS and not part:
        return Path(PHOTOGRAPHS[source])
    target = RUNS / "photographs" / name
    if target.exists():
        return target
    if name.endswith(".csv"):
        write_manifest(target, Path(PHOTOGRAPHS[target.stem]))
        return target
    images = DRAWN[source]() if source in DRAWN else load_folder(PHOTOGRAPHS[source])
    total = len(images.class_names)
    num_classes, each = map(int, part.split("x")) if part else (total, len(images))
    temporary = target.with_name(f"{name}.new")
    for label in range(0, total, max(1, total // num_classes))[:num_classes]:
        folder = temporary / f"{label:04}"
        folder.mkdir(parents=True, exist_ok=True)
        for number in np.flatnonzero(images.labels == label)[:each]:
            if source in DRAWN:
                image = np.asarray(images.image(number), "uint8").squeeze()
                Image.fromarray(image).save(folder / f"{number:06}.png")
            else:
                shutil.copy2(images.paths[number], folder)
    if source == "messy":
        make_messy(temporary)
    temporary.rename(target)
    return target


def write_manifest(target, folder):
    """The splits that `train` makes of a folder, with the super-classes that it lists."""
    groups = pd.read_csv(folder / "super_classes.csv", index_col="class")["super_class"]
    images = load_folder(folder)
    names = images.class_names
    images = FileImages(images.paths, images.labels, names, groups[[*names]].tolist())
    parts = split_classes(images, choose_recipe(str(folder)).data.split_fractions)
    rows = [
        (Path(path).resolve(), part.class_names[label], split)
        for split, part in zip(("train", "validation", "test"), parts, strict=True)
        for path, label in zip(part.paths, part.labels, strict=True)
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as temporary:
        pd.DataFrame(rows, columns=["path", "label", "split"]).to_csv(temporary, index=False)


def make_messy(folder):
    """Copies under other names and in other classes, grey and cut files, lone and empty classes."""
    classes = sorted(folder.iterdir())
    for number, path in enumerate(classes):
        files = sorted(path.iterdir())
        Image.open(files[0]).convert("L").save(path / "GREY.PNG")
        Image.open(files[1]).save(path / "again.jpeg", quality=40)
        shutil.copy2(files[2], classes[number - 1] / f"{path.name} wrong.jpg")
        (path / "cut.jpg").write_bytes(files[3].read_bytes()[:2000])
        (path / "notes.txt").write_text("not a photograph")
    (folder / "empty").mkdir()
    (folder / "lone").mkdir()
    shutil.copy2(files[4], folder / "lone")


def rows(path):
    """Rows of variant, quantity and value of a ladder."""
    rungs = [(name, RunFolder(path / "rungs" / name).metrics()) for name in RUNGS]
    rungs = [(name, metrics) for name, metrics in rungs if "test" in metrics]
    kept = [("kept", RunFolder(path).metrics())]
    alone = [("frozen", rungs[0][1], "frozen"), ("computed head", rungs[0][1], "head")]
    for name, metrics, entry in [*alone, *((*rung, "test") for rung in rungs + kept)]:
        for quantity, key in SHOWN.items():
            yield name, quantity, 100 * metrics[entry][key]
        if entry == "test":
            yield name, "validation MAP@R", 100 * metrics["best_val_map_at_r"]
    for name, metrics in rungs:
        yield name, "minutes", metrics["seconds"] / 60


def main(folders: tuple[str, ...] = FOLDERS, seeds: tuple[int, ...] = (0, 1, 2)):
    """Climbs the ladders and writes their numbers.

    Args:
        folders: names of folders: grocery, cars, messy, canvases, cifar100, omniglot or letters,
            or parts of them such as cars-25x25, or grocery.csv.
        seeds: seeds of the runs; the classes are divided alike.
    """
    known = records.read(OUT) if OUT.exists() else {}
    for seed in seeds:
        for name in folders:
            if seed in known.get(f"{name} kept", {}).get("MAP@R", {}):
                continue
            path = RUNS / f"{name}-{seed}"
            command = ["train", photographs(name), "--seed", seed, "--run", path]
            command = [sys.executable, "-m", "gsp_tf", *map(str, command)]
            subprocess.run(command, check=True)
            found = [(f"{name} {rung}", seed, what, value) for rung, what, value in rows(path)]
            records.add(OUT, found)
    print(OUT)


if __name__ == "__main__":
    auto_cli(main, as_positional=False)
