"""Run a study of the papers, or draw it again from its table.

python experiments/run.py NAME [--out FOLDER] [--figures FOLDER] [--draw] [options of the study]

A study trains what is missing in `runs/`, and continues what was stopped. It writes NAME.csv, one
value a line (variant, seed, quantity, value), and its pictures. --draw draws those that come from
the table alone. `--help` after a name shows the options of the study.
"""

import argparse
import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE / "studies"))

import pictures  # noqa: E402
import records  # noqa: E402
import sweeps  # noqa: E402
from jsonargparse import auto_cli  # noqa: E402

# The classifier, the ladder and the program are programs of their own.
HELPERS = ("classifier", "ladder", "pictures", "program", "records", "sweep", "sweeps")


def names():
    """All studies."""
    found = {path.stem for path in (HERE / "studies").glob("*.py")} - {*HELPERS}
    return sorted({name for name in found if not name.startswith("evidence_")} | {*sweeps.SWEEPS})


def module(name):
    """The study of a name."""
    return sweeps.named(name) if name in sweeps.SWEEPS else importlib.import_module(name)


def run(name, arguments, out=None, figures=None, draw=False):
    """Run a study with its options; the paths of its tables."""
    study = module(name)
    out = Path(out or HERE / ("results" if name in sweeps.SWEEPS else "results/studies"))
    paths, drawn = [out / f"{table}.csv" for table in getattr(study, "FILES", [name])], {}
    if not draw:
        found = auto_cli(study.study, as_positional=False, args=arguments)
        if found is None:  # it writes tables of its own
            return []
        *tables, drawn = found
        for path, rows in zip(paths, tables, strict=True):
            records.write(path, rows)
    if hasattr(study, "draw"):
        drawn |= study.draw(*map(records.read, paths))
    own = HERE / "figures" if name in sweeps.SWEEPS else HERE.parent / "docs/figures"
    for picture, figure in drawn.items():
        pictures.save(figure, Path(figures or own, f"{picture}.png"))
    return paths


def main():
    if sys.argv[1:] in ([], ["--help"]):
        print(f"{__doc__}\nStudies: {', '.join(names())}")
        return
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("name", choices=names())
    parser.add_argument("--out")
    parser.add_argument("--figures")
    parser.add_argument("--draw", action="store_true")
    given, arguments = parser.parse_known_args()
    if hasattr(module(given.name), "ONE_CORE"):
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
    for path in run(given.name, arguments, given.out, given.figures, given.draw):
        print(records.table(path), end="\n\n")


if __name__ == "__main__":
    main()
