"""Mean and standard deviation over seeds, from run folders: one Markdown row for each recipe name.

python experiments/summarize.py runs/omniglot_collage_*
"""

import statistics
import sys
from collections import defaultdict

from gsp_tf.experiment import RunFolder


def percent(values):
    """`mean ± standard deviation` in percent, over seeds."""
    values = [100 * value for value in values]
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def summarize(paths):
    """Rows of a Markdown table, one for each name of the runs' recipes."""
    runs = defaultdict(list)
    for path in paths:
        folder = RunFolder.open(path)
        runs[folder.recipe().name].append((folder.recipe().seed, folder.metrics()))
    lines = [
        "| run | seeds | P@1 | MAP@R | R-precision | best epoch | minutes |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, results in sorted(runs.items()):
        seeds = ", ".join(str(seed) for seed, _ in sorted(results, key=lambda result: result[0]))
        tests = [metrics["test"] for _, metrics in results]
        cells = [
            percent(test[key] for test in tests)
            for key in ("precision_at_1", "map_at_r", "r_precision")
        ]
        epochs = ", ".join(str(metrics["best_epoch"]) for _, metrics in results)
        minutes = statistics.mean(metrics["training_seconds"] for _, metrics in results) / 60
        lines.append(f"| {name} | {seeds} | {' | '.join(cells)} | {epochs} | {minutes:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(summarize(sys.argv[1:]))
