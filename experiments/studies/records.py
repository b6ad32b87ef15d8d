"""Tables of studies, one value a line: variant, seed, quantity, value.

python experiments/studies/records.py experiments/results/studies/NAME.csv...

prints a Markdown table of each file: mean ± standard deviation over the seeds.
"""

import csv
import io
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from gsp_tf._files import replace_text


def write(path, rows):
    """Write rows `(variant, seed, quantity, value)`, whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("variant", "seed", "quantity", "value"))
    writer.writerows([*place, f"{value:.8g}"] for *place, value in rows)
    replace_text(path, text.getvalue())


def add(path, rows):
    """Put rows into a file, made if it is not there; they replace those of the same place."""
    values = read(path) if Path(path).exists() else {}
    for variant, seed, quantity, value in rows:
        values.setdefault(variant, {}).setdefault(quantity, {})[seed] = value
    write(
        path,
        [
            (variant, seed, quantity, value)
            for variant, quantities in values.items()
            for quantity, by_seed in quantities.items()
            for seed, value in by_seed.items()
        ],
    )


def read(path):
    """Values of a file by variant, quantity and seed, in the file's order."""
    values = defaultdict(lambda: defaultdict(dict))
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values[row["variant"]][row["quantity"]][int(row["seed"])] = float(row["value"])
    return {variant: dict(quantities) for variant, quantities in values.items()}


def mean_and_deviation(values):
    """`mean ± standard deviation` of one or more numbers: four digits, and two or the unit."""
    mean = f"{statistics.mean(values):.4g}"
    if len(values) == 1:
        return mean
    deviation = statistics.stdev(values)
    return f"{mean} ± {deviation:.2g}" if deviation < 100 else f"{mean} ± {deviation:.0f}"


def percent(values):
    """`mean ± standard deviation` of percents with two decimals."""
    values = list(values)
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation}"


def shown_seeds(seeds):
    """`0, 1, 2`, or `0 to 19` for more than three in a row."""
    if len(seeds) > 3 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def markdown(lines):
    """A Markdown table of lists of texts, the first of which is the header."""
    lines = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def table(path):
    """Markdown table of a file: a row for each variant and a column for each quantity."""
    values = read(path)
    if all("R-precision" in row for row in values.values()):
        return _table_of_runs(values)
    quantities = list(dict.fromkeys(name for row in values.values() for name in row))
    lines = [["variant", *quantities, "seeds"]]
    for variant, row in values.items():
        seeds = sorted({seed for by_seed in row.values() for seed in by_seed})
        cells = [
            mean_and_deviation(row[name].values()) if name in row else "" for name in quantities
        ]
        lines.append([variant, *cells, shown_seeds(seeds)])
    return markdown(lines)


def _table_of_runs(values):
    """The test metrics of whole runs, with the steps and the best epoch of every seed."""
    shown = ("P@1", "MAP@R", "R-precision")
    lines = [["run", "seeds", *shown, "steps", "best epochs"]]
    for variant, row in values.items():
        each = [", ".join(f"{v:g}" for v in row[q].values()) for q in ("steps", "best epoch")]
        means = [percent(row[name].values()) for name in shown]
        lines.append([variant, ", ".join(map(str, row["P@1"])), *means, *each])
    return markdown(lines)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(table(given), end="\n\n")
