"""What each rung of `gsp-tf train FOLDER` is worth, on folders of photographs.

python experiments/studies/ladder.py [--folders "{cars: data/cars196_half, grocery: data/grocery}"]
    [--seeds "[0, 1, 2]"]

`gsp-tf train` climbs its ladder on each folder with each seed. A name with an ending such as
cars-25x25 takes 25 of the folder's classes, evenly spaced, with the first 25 photographs of each;
`1000x20` is all classes of a folder that has fewer. Adds to experiments/results/evidence/ladder.csv
the P@1 and MAP@R of the test classes, the MAP@R of the validation classes and the minutes of each
rung. A ladder that was stopped continues.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import records
from jsonargparse import auto_cli

from gsp_tf.runs import RunFolder

OUT = Path(__file__).parents[1] / "results/evidence/ladder.csv"
RUNS = Path("runs/ladder")
RUNGS = ("head", "block", "network")
SHOWN = {"P@1": "precision_at_1", "MAP@R": "map_at_r"}


def photographs(name, folder):
    """The folder of a name: all of it, or copies of a part."""
    found = re.fullmatch(r".*-(\d+)x(\d+)", name)
    if found is None:
        return Path(folder)
    num_classes, each = map(int, found.groups())
    classes = sorted(path for path in Path(folder).iterdir() if path.is_dir())
    for path in classes[:: max(1, len(classes) // num_classes)][:num_classes]:
        target = RUNS / "photographs" / name / path.name
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted(path.iterdir())[:each]:
            if not (target / file.name).exists():  # with its time, by which it is known
                shutil.copy2(file, target)
    return RUNS / "photographs" / name


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


def main(folders: dict[str, str], seeds: tuple[int, ...] = (0, 1, 2)):
    """Climbs the ladders and writes their numbers.

    Args:
        folders: folders of photographs by name, with a folder for each class.
        seeds: seeds of the runs; the classes are divided alike.
    """
    for seed in seeds:
        for name, folder in folders.items():
            path = RUNS / f"{name}-{seed}"
            command = ["train", photographs(name, folder), "--seed", seed, "--run", path]
            command = [sys.executable, "-m", "gsp_tf", *map(str, command)]
            subprocess.run(command, check=True)
            found = [(f"{name} {rung}", seed, what, value) for rung, what, value in rows(path)]
            records.add(OUT, found)
    print(OUT)


if __name__ == "__main__":
    auto_cli(main, as_positional=False)
