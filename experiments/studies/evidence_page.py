"""Tables and the figure of docs/studies/evidence.md, and the table of docs/losses.md.

python experiments/studies/evidence_page.py

Each row has mean ± standard deviation over its seeds, and the mean of its paired differences (the
same seed, so the same batches, with and without the method) with the 95% interval of Student's t.
"""

import re
import statistics
from pathlib import Path

import numpy as np
import records
from evidence_plan import BEST, DEFAULT, HERE, RIVALS, SHARE_OF_SIZES, SHARES, SIZES, dose_name
from pictures import save
from records import percent
from scipy import stats

from gsp_tf._files import replace_text
from gsp_tf.visual import INK, run_style, transparent_figure

BEGIN, END = "<!-- evidence_page.py writes from here -->\n", "<!-- to here -->\n"
MAP = "MAP@R"
BY_WEIGHTS, OF_AVERAGE = "gradient by weights / by features", "by features / of GAP"
DOCS = HERE.parent / "docs"
FIGURE = (
    "![GSP compared with other poolings by the share of the object](../figures/evidence_dose.png)"
)
TITLES = {
    "collage": "Cifar Collage",
    "poolings": "Poolings on Cifar Collage",
    "causes": "What decides on Cifar Collage",
    "collage_maps": "Cifar Collage from kept features: what selection can add, and what heads add",
    "program": "The authors' program on the same arrays (Cifar Collage)",
    "cars": "Cars196 (half)",
    "ccp": "CCP on Cars196 (half)",
    "dose": "Cars on canvases",
    "tuning": "Fine-tuning on Cars196 (half)",
    "groupings": "Groups on the frozen network, Cars196 (half)",
    "branches": "Branches of CRT on the frozen network, Cars196 (half)",
    "hybrid": "Losses of global and local heads on characters",
    "covering_bound": "The bound of the covering radius (thesis, Props. 3.2.1 and 3.2.2)",
    "heads": "Heads of `gsp-tf adapt` on 1,000 photographs of Cars196 (half)",
    "clutter": "Heads under natural clutter (Grocery Store)",
    "ladder": "The ladder of `gsp-tf train`",
    "zero_shot": "Zero-shot prototypes on CIFAR-100 (thesis, section 5.3.3)",
    "average_pooling_plane": "Average pooling on ten classes of CIFAR-100 (thesis, section 4.3)",
}
PLAIN = (
    "collage_maps",
    "program",
    "covering_bound",
    "heads",
    "clutter",
    "ladder",
    "zero_shot",
    "average_pooling_plane",
)
"""Tables with quantities of their own."""
COLUMNS = {
    "ccp": ("best step",),
    "groupings": ("validation MAP@R", "cosine", "correlation", "overlap", "one group"),
    "branches": ("validation MAP@R", "best step"),
    "hybrid": ("validation MAP@R", *(f"R@1, {steps} steps" for steps in (50, 100, 200, 400, 600))),
    "tuning": ("gain", "over a linear head", "best step"),
    "causes": ("deviation of weights", BY_WEIGHTS, OF_AVERAGE),
    "dose": ("μ", "ε", "weight on the object", "deviation of weights"),
}
NAMES = {
    "c2": "C2", "ms": "MS", "pnca": "ProxyNCA++", "pa": "Proxy-Anchor", "gap": "GAP",
    "gsp": "GSP", "gsp-zs": "GSP + L_ZS", "tile": "tile alone, GAP", "frozen": "frozen, GAP",
    "agrouping": "A-grouping", "crt": "CRT", "multihead": "two heads", "ccp": "CCP",
    "single": "single problem", "single-fast": "single problem, fast proxies",
    "ccp-fast": "CCP, fast proxies", "single-batch": "single problem, batch weight 1",
    "ccp-batch": "CCP, batch weight 1", "plain-1200": "plain, 1,200 steps",
    "ccp-after": "600 steps of CCP after the plain ones",
    "ccp-1200": "CCP, 1,200 steps", BEST: "GSP, chosen μ and ε", "gap-800": "GAP, 800 steps",
    "gsp-800": "GSP, 800 steps", "gsp-zs-800": "GSP + L_ZS, 800 steps",
    "gsp-zs-program": "GSP + L_ZS as in the program, λ 0.5", "gsp-zs-0.1": "GSP + L_ZS, λ 0.1",
    "gsp-zs-program-0.1": "GSP + L_ZS as in the program, λ 0.1", "gsp-0.1-10": "GSP, μ 0.1, ε 10",
    "gsp-0.5-10": "GSP, μ 0.5, ε 10", "gsp-0.2-2": "GSP, μ 0.2, ε 2",
    "gsp-0.2-50": "GSP, μ 0.2, ε 50", "gsp-16-prototypes": "GSP, 16 prototypes",
    "gsp-random-prototypes": "GSP, prototypes begin at random",
    "gsp-fast-prototypes": "GSP, prototypes at ten times the rate",
    "gsp-slow-prototypes": "GSP, prototypes at a tenth of the rate",
    "gsp-pooled-start": "GSP, prototypes from pooled vectors",
    "gsp-after": "GSP before the linear map", "fast": "heads at ten times the rate",
    "linear-frozen": "frozen, computed linear head", "head": "head alone",
    "wide-head": "head alone, 1,280 dimensions",
    "generalized_mean": "generalized mean", "delf": "DELF's attention",
    "lora": "LoRA, rank 8", "full": "whole network",
    "full-warm-up": "whole network, warm-up", "full-decay": "whole network, layer-wise rates",
    "full-averages": "whole network, averages", "full-all": "whole network, all three",
    "gsp-0.15-20": "GSP, μ 0.15, ε 20", "gsp-0.3-20": "GSP, μ 0.3, ε 20",
    "gsp-0.7-20": "GSP, μ 0.7, ε 20", "margin": "margin", "agrouping-alike": "A-grouping, no L_div",
    "m_grouping": "M-grouping", "g_grouping": "G-grouping", "c_grouping": "C-grouping",
    "n_grouping": "N-grouping: GAP", "crt-inconsistent": "CRT, no L_CON",
    "crt-single": "CRT, one branch", "dense": "two linear branches", "heads": "two heads",
    "hybrid": "hybrid",
    "ms-0.5": "MS, σ 0.5",
}  # fmt: skip
ON_CANVASES = {"upper": ", upper half trains", "warm": ", warm-up"}
BASELINES = {
    "ccp": "plain", "tuning": "full", "groupings": "agrouping", "branches": "crt-inconsistent",
    "hybrid": "hybrid",
}  # fmt: skip
OTHER_BASELINES = {
    "cars_agrouping": "cars_pnca-gap", "cars_agrouping-fast": "cars_pnca-gap",
    "ccp_c2-ccp-1200": "ccp_c2-plain-1200", "ccp_ms-ccp-1200": "ccp_ms-plain-1200",
}  # fmt: skip


def interval(first, second, confidence=0.95):
    """Mean of the differences of two dicts from seed to number, and half of its confidence interval
    by Student's t: `None` for one shared seed. Without a shared seed this is `None`."""
    shared = sorted(set(first) & set(second))
    if not shared:
        return None
    differences = [first[seed] - second[seed] for seed in shared]
    mean = statistics.mean(differences)
    if len(shared) == 1:
        return mean, None
    quantile = stats.t.ppf((1 + confidence) / 2, len(shared) - 1)
    return mean, quantile * statistics.stdev(differences) / len(shared) ** 0.5


def shown_interval(found):
    """`+0.12 ± 0.30` of `interval`, or an empty text."""
    if found is None:
        return ""
    mean, half = found
    return f"{mean:+.2f}" if half is None else f"{mean:+.2f} ± {half:.2f}"


def quantity(row, name):
    """Mean and deviation over the seeds of one of `COLUMNS`; a gain with its interval."""
    if name not in row:
        return ""
    if name != "gain":
        return records.mean_and_deviation(row[name].values())
    gain, low, high = (statistics.mean(row[name + end].values()) for end in ("", " from", " to"))
    return f"{gain:+.2f} [{low:.2f}, {high:.2f}]"


def baseline_of(table, variant):
    """The variant that a variant is compared with: the same group with the plain method."""
    plain = f"{variant.partition('-')[0]}-{BASELINES.get(table, 'gap')}"
    return OTHER_BASELINES.get(variant, plain)


def label(variant):
    """The group and the method of a variant, in the words of the page."""
    group, _, method = variant.partition("-")
    kind, *parts = group.split("_")
    if "dose" in (kind, *parts):
        *kinds, share, size = kind, *parts
        trained = "".join(ON_CANVASES.get(kind, "") for kind in kinds)
        return f"{share}%, {size} pixels{trained}", NAMES.get(method, method)
    (group,) = parts or [""]
    if kind == "whole":
        return f"{NAMES[group]}, whole network", NAMES[method]
    if not method:
        return ("ProxyNCA++" if group == "agrouping" else "its own"), NAMES[group]
    return NAMES.get(group, group), NAMES.get(method, method.replace("_", " "))


def markdown(table, values):
    """Markdown table of the numbers of a table."""
    plain = NAMES.get(BASELINES.get(table, "gap"), "plain training")
    more = COLUMNS.get(table, ())
    of = {"dose": "picture", "hybrid": "head"}.get(table, "loss")
    lines = [[of, "method", "P@1", MAP, f"{MAP}: difference from {plain}", *more, "seeds"]]
    variants = sorted(values, key=_place_on_canvas) if table == "dose" else values
    for variant in variants:
        row = values[variant]
        other = values.get(baseline_of(table, variant), {})
        is_itself = baseline_of(table, variant) == variant or variant.endswith("frozen")
        difference = None if is_itself or MAP not in other else interval(row[MAP], other[MAP])
        cells = [quantity(row, name) for name in more]
        measured = percent(row["P@1"].values()), percent(row[MAP].values())
        seeds = "" if variant.endswith("frozen") else records.shown_seeds(sorted(row[MAP]))
        lines.append([*label(variant), *measured, shown_interval(difference), *cells, seeds])
    return records.markdown(lines)


def _place_on_canvas(variant):
    """Sorts by what trains, size and falling share; the frozen network and GAP come first."""
    group, _, method = variant.partition("-")
    kind, *_, share, size = group.split("_")
    return kind, int(size), -int(share), method != "frozen", method != "gap"


def losses_markdown(values):
    """Markdown table of the losses: their numbers on Cars196 and Cifar Collage side by side."""
    lines = [["`loss.name`", "Cars196 P@1", f"Cars196 {MAP}", "Collage P@1", f"Collage {MAP}"]]
    names = dict.fromkeys(variant.partition("-")[2] for variant in values)
    for name in sorted(
        names, key=lambda name: -statistics.mean(values[f"losses_cars-{name}"][MAP].values())
    ):
        rows = (values.get(f"losses_{data}-{name}", {}) for data in ("cars", "collage"))
        cells = [percent(row[q].values()) if row else "" for row in rows for q in ("P@1", MAP)]
        lines.append(["the network alone" if name == "frozen" else f"`{name}`", *cells])
    return records.markdown(lines)


def gains(values, method, rival, places):
    """Differences of MAP@R between GSP and a rival at each share or size."""
    found = []
    for x, prefix in places:
        rows = [values.get(f"{prefix}-{name}", {}) for name in (method, rival)]
        difference = interval(*(row[MAP] for row in rows)) if all(rows) else None
        if difference is not None:
            found.append((x, difference[0], difference[1] or 0))
    return found


def is_shown(values):
    """Whether the table dose has gains of GSP as printed at two shares, so that a line runs."""
    found = [gains(values, DEFAULT, "gap", [(share, dose_name(share))]) for share in SHARES]
    return sum(map(bool, found)) > 1


def picture(values):
    """How far GSP is ahead of each rival, by the share of the object and the size of pictures."""
    figure = transparent_figure(10, 6.2)
    figure.set_layout_engine("constrained")
    shares = [(100 * share, dose_name(share)) for share in sorted(SHARES)]
    sizes = [(size, dose_name(SHARE_OF_SIZES, size)) for size in SIZES]
    panels = figure.subplots(2, 2, sharey=True)
    views = (
        (shares, "share of the object in the picture (%)"),
        (sizes, "side of the picture (pixels)"),
    )
    for line, method in zip(panels, (DEFAULT, BEST), strict=True):
        for axes, (places, name) in zip(line, views, strict=True):
            for place, rival in enumerate(RIVALS):
                found = gains(values, method, rival, places)
                if found:
                    _draw_gains(axes, found, place, f"over {NAMES.get(rival, rival)}")
            axes.axhline(0, color=INK, linewidth=0.8)
            axes.set_title("GSP as printed" if method == DEFAULT else NAMES[BEST], color=INK)
            axes.set_xlabel(name, color=INK)
            ticks = [x for x, _ in places]
            axes.set_xticks(ticks)
            axes.set_xlim(0.9 * ticks[0], 1.03 * ticks[-1])
            axes.tick_params(colors=INK)
            axes.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(f"gain in {MAP} (points)", color=INK)
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside lower center",
        ncols=len(RIVALS), frameon=False,
    )  # fmt: skip
    return figure


def _draw_gains(axes, found, place, name):
    """A line with intervals, moved a little so that the lines of several rivals stay apart."""
    color, marker = run_style(place)
    x, means, halves = map(np.asarray, zip(*found, strict=True))
    shift = (place - (len(RIVALS) - 1) / 2) * 0.01 * max(x.max(), 1)
    axes.errorbar(
        x + shift, means, halves, color=color, marker=marker, markersize=5, capsize=3, label=name
    )


def page(text, results):
    """The text of the page with its tables written again."""
    parts = []
    for table, title in TITLES.items():
        path = Path(results, f"{table}.csv")
        if path.exists():
            values = records.read(path)
            shown = records.table(path) if table in PLAIN else markdown(table, values)
            figure = f"{FIGURE}\n\n" if table == "dose" and is_shown(values) else ""
            parts.append(f"### {title}\n\n{figure}{shown}\n")
    return between_marks(text, "\n".join(parts))


def between_marks(text, written):
    """A page with another text between its two marks; one without them is refused."""
    marked = f"{BEGIN}\n{written}\n{END}"
    page, found = re.subn(f"{BEGIN}.*{END}", lambda _: marked, text, flags=re.DOTALL)
    if not found:
        raise ValueError(f"The page lacks the marks {BEGIN.strip()} and {END.strip()}.")
    return page


def write(results=HERE / "results/evidence"):
    """Write the tables of a folder of CSV files into the pages, and draw the figure."""
    evidence, losses = DOCS / "studies/evidence.md", DOCS / "losses.md"
    replace_text(evidence, page(evidence.read_text("utf-8"), results))
    if Path(results, "losses.csv").exists():
        table = losses_markdown(records.read(Path(results, "losses.csv")))
        replace_text(losses, between_marks(losses.read_text("utf-8"), table + "\n"))
    dose = Path(results, "dose.csv")
    if dose.exists() and is_shown(records.read(dose)):
        save(picture(records.read(dose)), DOCS / "figures/evidence_dose.png")


if __name__ == "__main__":
    write()
