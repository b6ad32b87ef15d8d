"""What experiments/evidence.sh trains: the rows of each table, as files and options of recipes.

A row is a list for `sweep.sweep`: recipe files and command-line options, laid over the files of its
table. Numbers are those of the papers where the files cite them.
"""

from pathlib import Path

from gsp_tf._names import NAMES
from gsp_tf.recipe import ClassRecipe, parameters

HERE = Path(__file__).parents[1]
METHODS, OWN = HERE / "methods", HERE / "evidence"
WHOLE = (OWN / "cars.yaml",)
CARS = (OWN / "cars.yaml", OWN / "features.yaml")
CANVAS = (*CARS, OWN / "canvas.yaml")
COLLAGE = (HERE / "benchmarks/cifar_collage.yaml", OWN / "collage.yaml")
CLASSIFIER = HERE / "resnet20_cifar100.yaml"
SEEDS = (0, 1, 2)

POOLINGS = (
    "max", "average_max", "cbam", "crow", "delf", "generalized_max", "generalized_mean", "gsop",
    "optimal_transport", "solar", "smk", "net_vlad", "weldon",
)  # fmt: skip
"""The 13 poolings that the thesis compares with GAP and GSP (section 5.3.5)."""

SHARES = (0.4, 1.0, 0.2, 0.7)  # in the order in which they train
SIZES = (96, 160, 224)
SHARE_OF_SIZES = 0.4
DEFAULT, SHARP, BEST = "gsp", "gsp-0.3-20", "gsp-best"
RIVALS = ("gap", "max", "generalized_mean", "delf")
UPPER = ("gap", SHARP)  # rows of cars on canvases that train more of the network, too
WARM = (*UPPER, "gsp-0.15-20", "delf")  # rows of the smallest cars with a warm-up, too
TUNED = ("head", "wide-head", "lora", "full")  # rows of fine-tuning with three seeds
LINEAR = "tuning-linear-frozen"  # the frozen network with a head that is computed
LONGER = ("plain-1200", "ccp-1200")  # rows of CCP with three seeds, too
PATIENT = 10_000  # epochs: a patience that never ends a problem
MEMORY = 73 * 8  # embeddings: as many as 8 proxies of each training class (section 3.3.2.1)


def pooled(name, adapt_batches=16):
    """Options of a pooling of `POOLINGS`: it reads the backbone's features, before the linear map.

    Args:
        name: name of the pooling in a recipe.
        adapt_batches: batches that give the initial prototypes, where there are any.
    """
    options = ["--embedding.position=after_pooling", f"--pooling.name={name}"]
    if name in ("net_vlad", "optimal_transport"):
        options.append(f"--training.adapt_batches={adapt_batches}")
    return options


def crossed(table, losses, options):
    """Rows of a table: each loss with each of the options.

    Args:
        table: what the names of the rows begin with.
        losses: files and options of each loss by name.
        options: lists of options by name.
    """
    return {
        f"{table}_{loss}-{name}": [*files, *added]
        for loss, files in losses.items()
        for name, added in options.items()
    }


def collage_losses():
    """Files of the losses on Cifar Collage by name."""
    return {name: [str(METHODS / f"cifar_collage/{name}.yaml")] for name in ("c2", "pnca")}


PRINTED = ["--zero_shot.scale=1", "--zero_shot.reduction=sum_of_means"]
"""L_ZS as eq. 4.4 of the GSP paper prints it. The recipes have the form of the authors' program."""


def collage_gsp(weight=0, form=()):
    """GSP on Cifar Collage (section 5.3.2), with the zero-shot loss at a weight and in a form."""
    return [str(METHODS / "cifar_collage/gsp.yaml"), f"--zero_shot.weight={weight}", *form]


HALF_COLLAGE = [
    "--training.steps_per_epoch=100",
    "--backbone.frozen_to=stage_2",
    "--data.feature_cache=runs/features",
]
"""Half of the steps, the last stage alone trains: options of the tables with many rows."""


def collage_rows():
    """Table 1: every row of Fig. 3b of the GSP paper, with both losses."""
    options = {
        "gap": [],
        "gsp": collage_gsp(),
        "gsp-zs": collage_gsp(0.5, PRINTED),
        "tile": ["--data.collage.grid=1", "--data.image_size=32"],
    }
    return crossed("collage", collage_losses(), options)


def cause_rows():
    """Rows with C2 on half of the network: four times the steps, other L_ZS, other numbers."""
    longer = ["--training.epochs=8"]
    gsp, zero_shot = collage_gsp(), collage_gsp(0.5, PRINTED)
    options = {
        "gap": [],
        "gsp": gsp,
        "gsp-zs": zero_shot,
        "gap-800": longer,
        "gsp-800": [*gsp, *longer],
        "gsp-zs-800": [*zero_shot, *longer],
        "gsp-zs-program": collage_gsp(0.5),
        "gsp-zs-0.1": collage_gsp(0.1, PRINTED),
        "gsp-zs-program-0.1": collage_gsp(0.1),
        "gsp-0.1-10": [*gsp, "--pooling.transport_ratio=0.1"],
        "gsp-0.5-10": [*gsp, "--pooling.transport_ratio=0.5"],
        "gsp-0.2-2": [*gsp, "--pooling.entropy_smoothing=2"],
        "gsp-0.2-50": [*gsp, "--pooling.entropy_smoothing=50"],
        "gsp-16-prototypes": [*gsp, "--pooling.num_prototypes=16"],
        "gsp-random-prototypes": [*gsp, "--training.adapt_batches=0"],
        "gsp-fast-prototypes": [*gsp, "--training.learning_rate_multipliers={prototypes: 10}"],
        "gsp-slow-prototypes": [*gsp, "--training.learning_rate_multipliers={prototypes: 0.1}"],
        "gsp-after": [*gsp, "--embedding.position=after_pooling"],
    }
    return crossed("causes", {"c2": collage_losses()["c2"]}, _halved(options))


def pooling_rows():
    """Table 2: the 15 poolings of Fig. 5.12 of the thesis on Cifar Collage, with both losses."""
    options = {"gap": [], "gsp": collage_gsp()} | {name: pooled(name) for name in POOLINGS}
    return crossed("poolings", collage_losses(), _halved(options))


def _halved(options):
    """Options of the rows of a table, by name, with `HALF_COLLAGE`, which they may change."""
    return {name: [*HALF_COLLAGE, *added] for name, added in options.items()}


def cars_losses():
    """Files and options of the losses on Cars196 by name; proxies take one image of a class."""
    one_image = ["--data.classes_per_batch=64"]
    return {
        "c2": [str(METHODS / "cars196/c2.yaml")],
        "ms": [str(METHODS / "cars196/ms.yaml")],
        "pnca": [str(METHODS / "pnca.yaml"), *one_image],
        "pa": [str(METHODS / "pa.yaml"), *one_image],
    }


def cars_gsp(loss, weight=0):
    """GSP on Cars196 (section 5.2.4), smoother with proxies, and a weight of the zero-shot loss."""
    smoothing = {"pnca": 0.5, "pa": 0.5}.get(loss, 5.0)
    return [
        str(METHODS / "gsp.yaml"),
        f"--pooling.entropy_smoothing={smoothing}",
        f"--zero_shot.weight={weight}",
        "--training.adapt_batches=16",
    ]


def cars_rows():
    """Table 3: GAP, GSP and GSP with the zero-shot loss, with each loss."""
    rows = {}
    for loss, files in cars_losses().items():
        options = {"gap": [], "gsp": cars_gsp(loss), "gsp-zs": cars_gsp(loss, 0.1)}
        rows |= crossed("cars", {loss: files}, options)
    return rows


def sharp_rows():
    """Table 3: GSP that selects, with the numbers that lose nothing where cars fill pictures."""
    return {
        f"cars_{loss}-{SHARP}": [
            *cars_losses()[loss],
            *cars_gsp(loss),
            "--pooling.entropy_smoothing=20",
        ]
        for loss in ("c2", "pa")
    }


def whole_rows():
    """Table 3: two rows that train the whole network, from the photographs."""
    return {
        name.replace("cars", "whole"): cars_rows()[name] for name in ("cars_c2-gap", "cars_c2-gsp")
    }


def cars_pooling_rows(names):
    """Table 3: some of `POOLINGS` with the losses by which they were chosen."""
    losses = {loss: cars_losses()[loss] for loss in collage_losses()}
    return crossed("cars", losses, {name: pooled(name) for name in names})


def system_rows():
    """Table 3: A-grouping with ProxyNCA++, CRT and two heads with the losses of their papers."""
    pnca = cars_losses()["pnca"]
    return {
        "cars_agrouping": [*pnca, str(OWN / "agrouping.yaml")],
        "cars_crt": [str(OWN / "crt.yaml")],
        "cars_multihead": [str(OWN / "multihead.yaml")],
    }


def fast_head_rows():
    """Table 3: the systems again, their untrained heads at ten times the rate of the network."""
    proxies = {"cars_agrouping": ", proxies: 100", "cars_multihead": ", proxies: 100"}
    return {
        f"{name}-fast": [*row, f"--training.learning_rate_multipliers={{pooling: 10{more}}}"]
        for name, row in system_rows().items()
        for more in [proxies.get(name, "")]
    }


def ccp_rows():
    """Table 4: each loss by itself, with a memory, with one proxy problem and with CCP."""
    memory = [str(METHODS / "xbm.yaml"), f"--loss_wrapper.capacity={MEMORY}"]
    options = {
        "plain": [],
        "memory": [*memory, "--loss_wrapper.warmup_steps=100"],
        "single": _SINGLE,
        "ccp": [_CCP],
    }
    return crossed("ccp", _ccp_losses(), options)


def ccp_cause_rows():
    """Table 4: CCP with fast proxies, a larger weight of the batch, more steps, or a trained start.

    The last starts from the plain run of seed 0, which `evidence.py` has trained before.
    """
    fast, longer = "--training.learning_rate_multipliers={proxies: 100}", "--training.epochs=48"
    options = {
        "single-fast": [*_SINGLE, fast],
        "ccp-fast": [_CCP, fast],
        "single-batch": [*_SINGLE, "--ccp.batch_weight=1"],
        "ccp-batch": [_CCP, "--ccp.batch_weight=1"],
        "plain-1200": [longer],
        "ccp-1200": [_CCP, longer],
    }
    after = {
        f"ccp_{loss}-ccp-after": [*files, _CCP, f"--initial_run=runs/evidence/ccp_{loss}-plain-0"]
        for loss, files in _ccp_losses().items()
    }
    return crossed("ccp", _ccp_losses(), options) | after


_CCP = str(METHODS / "ccp.yaml")
_SINGLE = [_CCP, "--ccp.max_projections=1", f"--ccp.patience={PATIENT}"]


def _ccp_losses():
    return {loss: [*cars_losses()[loss], str(OWN / "ccp.yaml")] for loss in ("c2", "ms")}


def tuning_rows():
    """Table 7: how much of the network trains, and what holds all of it near its start, with C2."""
    full = str(OWN / "full.yaml")
    head = str(OWN / "head.yaml")
    options = {
        "head": [head],
        "wide-head": [head, *_of_all_features()],
        "lora": [str(OWN / "lora.yaml")],
        "full": [],
        "full-warm-up": [full, "--training.lowest_layer_multiplier=1", "--training.ema_momentum=0"],
        "full-decay": [full, *_without_warm_up(), "--training.ema_momentum=0"],
        "full-averages": [full, *_without_warm_up(), "--training.lowest_layer_multiplier=1"],
        "full-all": [full],
    }
    return crossed("tuning", {"c2": cars_losses()["c2"]}, options)


def _of_all_features():
    """A linear map that keeps the dimension of the features and begins as the identity."""
    rate = "--training.learning_rate=3e-4"  # that of gsp-tf adapt
    return ["--embedding.dim=null", "--embedding.position=after_pooling", rate]


def _without_warm_up():
    return ["--training.warmup_epochs=0", "--training.warmup_steps=0"]


def loss_rows(table):
    """Table 8: every loss that takes classes, with the library's numbers; proxies learn at 1e-2.

    Args:
        table: "cars", or "collage"; fewer steps than its other rows, and less of the network
            trains.
    """
    factor, budget = {
        "cars": (100, ["--training.epochs=4", "--backbone.frozen_to=block6d_add"]),
        "collage": (10, ["--training.epochs=1", *HALF_COLLAGE]),
    }[table]
    rates = f"--training.learning_rate_multipliers={{proxies|betas: {factor}}}"
    rows = {}
    for name in class_losses():
        counts = {"num_classes", "num_proxies"} & set(parameters("loss", ClassRecipe(name)))
        weights = [rates] if counts else []
        rows[f"losses_{table}-{name}"] = [f"--loss.name={name}", *weights, *budget]
    return rows


def class_losses():
    """Names of the losses that train alone from classes, without lengths and views."""
    of_lengths = {"ada_face", "large_margin_softmax", "sphere_face"}
    of_views = {"barlow_twins", "sim_siam", "vicreg"}
    others = of_lengths | of_views | {"hier", "hybrid", "weighted_sum"}
    return [name for name in sorted(NAMES["loss"]) if name not in others]


def gsp_grid():
    """Transport ratio μ and entropy smoothing ε of GSP that held-out classes choose from."""
    chosen = {f"gsp-{ratio:g}-20": (ratio, 20.0) for ratio in (0.15, 0.3, 0.7)}
    return {DEFAULT: (0.3, 5.0), **chosen}


def dose_rows(share, size=160):
    """Table 6: the rivals of GSP, GSP as printed and with other μ and ε, with C2.

    Args:
        share: share of the picture that a car covers.
        size: side of the pictures in pixels.
    """
    view = [f"--data.image_size={size}", f"--data.canvas.share={share}"]
    rows = {"gap": []} | {name: pooled(name) for name in RIVALS[1:]}
    for name, (ratio, smoothing) in gsp_grid().items():
        numbers = f"--pooling.transport_ratio={ratio}", f"--pooling.entropy_smoothing={smoothing}"
        rows[name] = [*cars_gsp("c2"), *numbers]
    files = cars_losses()["c2"]
    return {
        f"{dose_name(share, size)}-{name}": [*files, *options, *view]
        for name, options in rows.items()
    }


def upper_rows():
    """Table 6: GAP and GSP with half of the network training, and cars of `SHARE_OF_SIZES`."""
    name, rows = dose_name(SHARE_OF_SIZES), dose_rows(SHARE_OF_SIZES)
    return {
        f"upper_{name}-{method}": [*rows[f"{name}-{method}"], "--backbone.frozen_to=block5c_add"]
        for method in UPPER
    }


def warm_rows():
    """Table 6: rows of which seeds end below the frozen network, with a warm-up of 50 steps."""
    rows, names = dose_rows(min(SHARES)), [f"{dose_name(min(SHARES))}-{name}" for name in WARM]
    rows = {name: rows[name] for name in names} | upper_rows()
    return {f"warm_{name}": [*row, "--training.warmup_epochs=1"] for name, row in rows.items()}


def dose_name(share, size=160):
    """What the names of `dose_rows` begin with: the share in percent, and the size."""
    return f"dose_{round(100 * share)}_{size}"
