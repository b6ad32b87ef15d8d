"""Tables of experiments/README.md: recipes and their variants, without other measurements."""

import statistics
from types import SimpleNamespace

from pictures import open_sides
from sweep import HERE, SHOWN, titled_sweep

from gsp_tf.visual import INK, RUN_COLORS, transparent_figure

C2 = '--loss={"name":"contrastive","positive_margin":0.0,"negative_margin":0.5}'
ADAPTED = ["--training.adapt_batches=8"]
GSP = ["--pooling.transport_ratio=0.25", "--pooling.entropy_smoothing=10", *ADAPTED]
OPTIONS = {
    "gsp": GSP, "gsp_max": GSP, "gsp_mean": GSP, "net_vlad": ADAPTED,
    "optimal_transport": ADAPTED, "gsop": ["--pooling.reduced_dim=32"],
}  # fmt: skip
POOLINGS = (
    "gap", "max", "average_max", "generalized_mean", "generalized_max", "weldon", "crow", "cbam",
    "delf", "gsop", "solar", "smk", "net_vlad", "optimal_transport", "gsp", "gsp_max", "gsp_mean",
)  # fmt: skip
BEST = ("gap", "gsp", "cbam", "generalized_mean", "gsp_mean", "solar", "weldon")


def small_collage():
    """Every pooling with C2, the five best of them with ProxyNCA++ too, and every system."""
    pnca = ["--loss.name=proxy_nca"]
    systems = ("agrouping", "crt", "multihead")
    variants = {name: [str(HERE / f"small_collage_{name}.yaml")] for name in systems}
    variants["crt-pnca"] = [*variants["crt"], *pnca, "--miner=null"]
    variants |= {f"c2-{name}": [C2, *pooled(name)] for name in POOLINGS}
    variants |= {f"pnca-{name}": [*pnca, *pooled(name)] for name in BEST}
    variants["pnca-gsp-zs"] = [*pnca, *pooled("gsp"), "--zero_shot.weight=0.1"]
    rows = sorted(variants.items())
    return {name: (f"small_collage_{name}", options) for name, options in rows}


def pooled(name):
    """Options of a pooling."""
    return [f"--pooling.name={name}", *OPTIONS.get(name, ())]


def omniglot_ccp():
    """C2 and MS by themselves, with a memory of as many embeddings as 8 proxies a class, with one
    problem and with CCP; and two more losses with CCP."""
    memory = [
        "--loss_wrapper.name=cross_batch_memory", "--loss_wrapper.capacity=776",
        "--loss_wrapper.batch_weight=1.0",
    ]  # fmt: skip
    ccp = "--trainer=ccp"
    losses = {
        "c2": [],
        "ms": ['--loss={"name":"multi_similarity","alpha":2.0,"beta":40.0,"base":0.5}'],
    }
    variants = {"c1-ccp-8": ["--loss.name=cosine_contrastive", "--loss.margin=0.5", ccp]}
    for loss, options in losses.items():
        variants |= {
            loss: options,
            f"{loss}-ccp-1": [*options, ccp, "--ccp.proxies_per_class=1"],
            f"{loss}-ccp-8": [*options, ccp, "--ccp.proxies_per_class=8"],
            f"{loss}-single-8": [*options, ccp, "--ccp.max_projections=1", "--ccp.patience=40"],
            f"{loss}-xbm": [*options, *memory],
        }
    variants["triplet-ccp-8"] = ["--loss.name=triplet", "--loss.margin=0.1", ccp]
    return {name: (f"omniglot_ccp_{name}", options) for name, options in variants.items()}


def omniglot_collage(title="Omniglot collage", name="omniglot_collage", options=()):
    """GAP and GSP on collages."""
    return {
        f"{title}, {pooling.upper()}": (
            f"{name}_{pooling}",
            [str(HERE / f"omniglot_collage_{pooling}.yaml"), *options],
        )
        for pooling in ("gap", "gsp")
    }


def random_background():
    """The same on a background without a common trait."""
    options = ["--data.collage.background_groups=[]"]
    return omniglot_collage("random background", "random_background", options)


def demo():
    """The pair of `gsp-tf demo`."""
    recipe = str(HERE / "demo.yaml")
    return {
        "demo, GAP": ("demo_gap", [recipe, "--pooling.name=gap", "--zero_shot.weight=0"]),
        "demo, GSP": ("demo_gsp", [recipe]),
    }


SWEEPS = {
    "small_collage": (["small_collage.yaml"], small_collage),
    "omniglot_ccp": (["omniglot_ccp.yaml"], omniglot_ccp),
    "omniglot_collage": ([], omniglot_collage),
    "random_background": ([], random_background),
    "demo": ([], demo),
}


def named(name):
    """One of `SWEEPS` as a study."""
    files, variants = SWEEPS[name]

    def study(seeds: tuple[int, ...] = (0, 1, 2), jobs: int = 1, runs: str = "runs"):
        folders = titled_sweep([HERE / file for file in files], variants(), seeds, runs, jobs)
        return [row for key, folder in folders.items() for row in run_rows(*key, folder)], {}

    drawn = {"draw": draw_small_collage} if name == "small_collage" else {}
    return SimpleNamespace(study=study, **drawn)


def run_rows(variant, seed, folder):
    """Rows of a table: test metrics in percent, and how the run went."""
    metrics, steps = folder.metrics(), folder.recipe().training.steps_per_epoch
    test = {
        **SHOWN,
        "R-precision": "r_precision",
        **{f"R@{k}": f"recall_at_{k}" for k in (2, 4, 8)},
    }
    values = {shown: 100 * metrics["test"][name] for shown, name in test.items()}
    values |= {
        "validation MAP@R": 100 * metrics["best_val_map_at_r"],
        "steps": steps * metrics["epochs"],
        "best epoch": metrics["best_epoch"],
        "minutes": metrics["training_seconds"] / 60,
    }
    return [(variant, seed, *item) for item in values.items()]


def draw_small_collage(values):
    """MAP@R of every pooling with C2, and of the others: bars of means, a mark for each seed."""
    found = {name: list(row["MAP@R"].values()) for name, row in values.items()}
    panels = [
        sorted((statistics.mean(found[name]), name) for name in found if name[:3] in start)
        for start in (("c2-",), ("agr", "crt", "mul", "pnc"))
    ]
    figure = transparent_figure(10, 0.8 + 0.27 * max(map(len, panels)))
    titles = "C2", "ProxyNCA++ and systems"
    for axes, title, bars in zip(figure.subplots(1, 2, sharex=True), titles, panels, strict=True):
        colors = [RUN_COLORS[1] if "gsp" in name else RUN_COLORS[0] for _, name in bars]
        axes.barh(range(len(bars)), [mean for mean, _ in bars], color=colors, alpha=0.55)
        for place, (_, name) in enumerate(bars):
            axes.plot(found[name], [place] * len(found[name]), "o", color=INK, markersize=3)
        shown = [name.removeprefix("c2-").removeprefix("pnca-") for _, name in bars]
        axes.set_yticks(range(len(bars)), shown)
        axes.set(title=title, xlabel="MAP@R of unseen classes (%)")
    open_sides(figure)
    figure.tight_layout()
    return {"small_collage": figure}
