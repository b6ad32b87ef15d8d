"""Mean and standard deviation over seeds, one Markdown row for each recipe name.

python experiments/summarize.py experiments/results/omniglot_collage_*
"""

import statistics
import sys
from collections import defaultdict

from gsp_tf.runs import RunFolder

METRICS = {"precision_at_1": "P@1", "map_at_r": "MAP@R", "r_precision": "R-precision"}


def percent(values):
    """`mean ± standard deviation` in percent, over seeds."""
    values = [100 * value for value in values]
    deviation = f"{statistics.stdev(values):.2f}" if len(values) > 1 else "–"
    return f"{statistics.mean(values):.2f} ± {deviation}"


def summarize(paths):
    """Rows of a Markdown table, one for each name of the runs' recipes."""
    runs = defaultdict(dict)
    for path in paths:
        folder = RunFolder(path)
        recipe = folder.recipe()
        steps = len(folder.history()["loss"]) * recipe.training.steps_per_epoch
        runs[recipe.name][recipe.seed] = folder.metrics() | {"steps": steps}
    header = ["run", "seeds", *METRICS.values(), "steps", "best epochs"]
    lines = [header, ["---"] * len(header)]
    for name, results in sorted(runs.items()):
        seeds = sorted(results)
        tests = [results[seed]["test"] for seed in seeds]
        lines.append(
            [
                name,
                ", ".join(map(str, seeds)),
                *(percent(test[key] for test in tests) for key in METRICS),
                ", ".join(str(results[seed]["steps"]) for seed in seeds),
                ", ".join(str(results[seed]["best_epoch"]) for seed in seeds),
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(summarize(sys.argv[1:]))
