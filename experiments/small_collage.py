"""Picture of small_collage.sh: MAP@R of every pooling with C2, and of the others with ProxyNCA++.

python experiments/small_collage.py [--results FOLDER] [--out FILE.png]
"""

import statistics
from collections import defaultdict
from pathlib import Path

from jsonargparse import auto_cli

from gsp_tf._files import replacing
from gsp_tf.runs import RunFolder
from gsp_tf.visual import INK, RUN_COLORS, transparent_figure

HERE = Path(__file__).parent
PREFIX = "small_collage_"
PANELS = {"C2": "c2-", "ProxyNCA++ and systems": ""}


def map_at_r(results):
    """MAP@R in percent of the test classes, one value a seed.

    Args:
        results: folder of run folders.

    Returns:
        dict from the name of a run to a list.
    """
    values = defaultdict(list)
    for path in sorted(Path(results).glob(f"{PREFIX}*")):
        folder = RunFolder(path)
        values[folder.recipe().name].append(100 * folder.metrics()["test"]["map_at_r"])
    return dict(values)


def picture(values):
    """Bars of the means, a mark for each seed, the best on top.

    Args:
        values: as `map_at_r` returns.

    Returns:
        matplotlib Figure.
    """
    is_c2 = {name: name.startswith(PANELS["C2"]) for name in values}
    panels = [
        [(statistics.mean(values[name]), name) for name in values if is_c2[name] == wanted]
        for wanted in (True, False)
    ]
    figure = transparent_figure(10, 0.8 + 0.27 * max(map(len, panels)))
    left, right = figure.subplots(1, 2, sharex=True)
    for axes, title, bars in zip((left, right), PANELS, panels, strict=True):
        names = [name for _, name in sorted(bars)]
        colors = [RUN_COLORS[1] if "gsp" in name else RUN_COLORS[0] for name in names]
        means = [mean for mean, _ in sorted(bars)]
        axes.barh(range(len(names)), means, color=colors, alpha=0.55)
        for place, name in enumerate(names):
            axes.plot(values[name], [place] * len(values[name]), "o", color=INK, markersize=3)
        shown = [name.removeprefix("c2-").removeprefix("pnca-") for name in names]
        axes.set_yticks(range(len(names)), shown)
        axes.set(title=title, xlabel="MAP@R of unseen classes (%)")
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure


def main(results: str = str(HERE / "results"), out: str = str(HERE / "figures/small_collage.png")):
    """Draws the picture.

    Args:
        results: folder of the runs' folders.
        out: file to write.
    """
    values = map_at_r(results)
    if not values:
        raise FileNotFoundError(f"No folder {PREFIX}* in {results}.")
    with replacing(out) as path:
        picture(values).savefig(path, format="png", dpi=150, facecolor="white")


if __name__ == "__main__":
    auto_cli(main, as_positional=False)
