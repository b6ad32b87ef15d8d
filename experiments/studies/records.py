"""Numbers of a study, one value a line, and the table of their means over seeds.

python experiments/studies/records.py experiments/results/studies/NAME.csv...

prints, for each file, a Markdown table with a row for each variant and a column for each quantity:
mean ± standard deviation over the seeds.
"""

import csv
import io
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from gsp_tf._files import replace_text

FIELDS = ("variant", "seed", "quantity", "value")


def write(path, rows):
    """Write `(variant, seed, quantity, value)` rows, whole or not at all.

    Args:
        path: file to write; its folder is made.
        rows: iterable of tuples, values of which are numbers.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    for variant, seed, quantity, value in rows:
        writer.writerow([variant, seed, quantity, f"{value:.6g}"])
    replace_text(path, text.getvalue())


def add(path, rows):
    """Put rows into a file of `write`, which is made if it is not there.

    Args:
        path: file to write.
        rows: as `write` takes them; a value of the same variant, seed and quantity is replaced.
    """
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
    """Values of a file.

    Args:
        path: file of `write`.

    Returns:
        dict from variant to a dict from quantity to a dict from seed to value, in the file's order.
    """
    values = defaultdict(lambda: defaultdict(dict))
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values[row["variant"]][row["quantity"]][int(row["seed"])] = float(row["value"])
    return {variant: dict(quantities) for variant, quantities in values.items()}


def mean_and_deviation(values):
    """`mean ± standard deviation` of one or more numbers: four digits, and two or the unit.

    Args:
        values: numbers, one a seed.
    """
    mean = f"{statistics.mean(values):.4g}"
    if len(values) == 1:
        return mean
    deviation = statistics.stdev(values)
    return f"{mean} ± {deviation:.2g}" if deviation < 100 else f"{mean} ± {deviation:.0f}"


def shown_seeds(seeds):
    """`0, 1, 2`, or `0 to 19` for more than three in a row.

    Args:
        seeds: sorted integers.
    """
    if len(seeds) > 3 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def table(path):
    """Markdown table of a file.

    Args:
        path: file of `write`.
    """
    values = read(path)
    quantities = list(dict.fromkeys(name for row in values.values() for name in row))
    lines = [["variant", *quantities, "seeds"], ["---"] * (len(quantities) + 2)]
    for variant, row in values.items():
        seeds = sorted({seed for by_seed in row.values() for seed in by_seed})
        cells = [
            mean_and_deviation(row[name].values()) if name in row else "" for name in quantities
        ]
        lines.append([variant, *cells, shown_seeds(seeds)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(table(given), end="\n\n")
