"""The rows of each table of the study evidence, as files and options of recipes.

A row is a list for `sweep`: recipe files and options, laid over the files of its table. Numbers are
those of the papers where the files cite them.
"""

from sweep import HERE

from gsp_tf._names import NAMES
from gsp_tf.recipe import ClassRecipe, parameters

METHODS, OWN = HERE / "methods", HERE / "evidence"
WHOLE = (OWN / "cars.yaml",)
CARS = (*WHOLE, OWN / "features.yaml")
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
POOLED_START = "gsp-pooled-start"
RIVALS = ("gap", "max", "generalized_mean", "delf")
UPPER = ("gap", SHARP)  # rows of cars on canvases that train more of the network, too
WARM = (*UPPER, "gsp-0.15-20", "delf")  # rows of the smallest cars with a warm-up, too
TUNED = ("head", "wide-head", "lora", "full")  # rows of fine-tuning with three seeds
LINEAR = "tuning-linear-frozen"  # the frozen network with a head that is computed
LONGER = ("plain-1200", "ccp-1200")  # rows of CCP with three seeds, too
PATIENT = 10_000  # epochs: a patience that never ends a problem
MEMORY = 73 * 8  # embeddings: as many as 8 proxies of each training class (section 3.3.2.1)
PRINTED = ["--zero_shot.scale=1", "--zero_shot.reduction=sum_of_means"]
PROGRAM = ["--zero_shot.scale=9.5", "--zero_shot.reduction=mean"]
"""L_ZS as eq. 4.4 of the GSP paper prints it, and as in its authors' program."""
HALF_COLLAGE = [
    "--training.steps_per_epoch=100",
    "--backbone.frozen_to=stage_2",
    "--data.feature_cache=runs/features",
]
"""Half of the steps, the last stage alone trains: options of the tables with many rows."""
MULTIPLIERS = "--training.learning_rate_multipliers="


def pooled(name):
    """Options of a pooling: it reads the backbone's features, before the linear map."""
    options = ["--embedding.position=after_pooling", f"--pooling.name={name}"]
    if name in ("net_vlad", "optimal_transport"):
        options.append("--training.adapt_batches=16")
    return options


def crossed(table, losses, options):
    """Rows of a table: the files and options of each loss with each of the options."""
    return {
        f"{table}_{loss}-{name}": [*files, *added]
        for loss, files in losses.items()
        for name, added in options.items()
    }


COLLAGE_LOSSES = {name: [str(METHODS / f"cifar_collage/{name}.yaml")] for name in ("c2", "pnca")}


def collage_gsp(weight=0, form=PROGRAM):
    """GSP on Cifar Collage (section 5.3.2), with the zero-shot loss at a weight and in a form."""
    return [
        str(METHODS / "cifar_collage/gsp.yaml"),
        "--training.adapt_from=local",
        f"--zero_shot.weight={weight}",
        *form,
    ]


def collage_rows():
    """Table 1: every row of Fig. 3b of the GSP paper, with both losses."""
    tile = ["--data.collage.grid=1", "--data.image_size=32"]
    gsp, zero_shot = collage_gsp(), collage_gsp(0.5, PRINTED)
    options = {"gap": [], "gsp": gsp, "gsp-zs": zero_shot, "tile": tile}
    return crossed("collage", COLLAGE_LOSSES, options)


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
        "gsp-fast-prototypes": [*gsp, f"{MULTIPLIERS}{{prototypes: 10}}"],
        "gsp-slow-prototypes": [*gsp, f"{MULTIPLIERS}{{prototypes: 0.1}}"],
        "gsp-after": [*gsp, "--embedding.position=after_pooling"],
    }
    return crossed("causes", {"c2": COLLAGE_LOSSES["c2"]}, _halved(options))


def pooling_rows():
    """Table 2: the 15 poolings of Fig. 5.12 of the thesis on Cifar Collage, with both losses.

    The prototypes of GSP start from local features, or from pooled vectors as in the program.
    """
    pooled_start = [*collage_gsp(), "--training.adapt_from=pooled"]
    options = {"gap": [], "gsp": collage_gsp(), POOLED_START: pooled_start}
    options |= {name: pooled(name) for name in POOLINGS}
    return crossed("poolings", COLLAGE_LOSSES, _halved(options))


def _halved(options):
    """Options of the rows of a table, by name, with `HALF_COLLAGE`, which they may change."""
    return {name: [*HALF_COLLAGE, *added] for name, added in options.items()}


ONE_IMAGE = ["--data.classes_per_batch=64"]  # proxies take one image of a class
CARS_LOSSES = {
    "c2": [str(METHODS / "cars196/c2.yaml")],
    "ms": [str(METHODS / "cars196/ms.yaml")],
    "pnca": [str(METHODS / "pnca.yaml"), *ONE_IMAGE],
    "pa": [str(METHODS / "pa.yaml"), *ONE_IMAGE],
}


def cars_gsp(loss, weight=0):
    """GSP on Cars196 (section 5.2.4), smoother with proxies, and a weight of the zero-shot loss."""
    smoothing = {"pnca": 0.5, "pa": 0.5}.get(loss, 5.0)
    return [
        str(METHODS / "gsp.yaml"),
        f"--pooling.entropy_smoothing={smoothing}",
        f"--zero_shot.weight={weight}",
        "--training.adapt_batches=16",
        "--training.adapt_from=local",
    ]


def cars_rows():
    """Table 3: GAP, GSP and GSP with the zero-shot loss, with each loss."""
    rows = {}
    for loss, files in CARS_LOSSES.items():
        options = {"gap": [], "gsp": cars_gsp(loss), "gsp-zs": cars_gsp(loss, 0.1)}
        rows |= crossed("cars", {loss: files}, options)
    return rows


def sharp_rows():
    """Table 3: GSP that selects, with the numbers that lose nothing where cars fill pictures."""
    sharp = "--pooling.entropy_smoothing=20"
    return {
        f"cars_{loss}-{SHARP}": [*CARS_LOSSES[loss], *cars_gsp(loss), sharp]
        for loss in ("c2", "pa")
    }


def whole_rows():
    """Table 3: two rows that train the whole network, from the photographs."""
    return {f"whole_c2-{name}": cars_rows()[f"cars_c2-{name}"] for name in ("gap", "gsp")}


def cars_pooling_rows(names):
    """Table 3: some of `POOLINGS` with the losses by which they were chosen."""
    losses = {loss: CARS_LOSSES[loss] for loss in COLLAGE_LOSSES}
    return crossed("cars", losses, {name: pooled(name) for name in names})


def system_rows():
    """Table 3: A-grouping with ProxyNCA++, CRT and two heads with the losses of their papers."""
    return {
        "cars_agrouping": [*CARS_LOSSES["pnca"], str(OWN / "agrouping.yaml")],
        "cars_crt": [str(OWN / "crt.yaml")],
        "cars_multihead": [str(OWN / "multihead.yaml")],
    }


def fast_head_rows():
    """Table 3: the systems again, their untrained heads at ten times the rate of the network."""
    rates = {name: "{pooling: 10, proxies: 100}" for name in ("cars_agrouping", "cars_multihead")}
    return {
        f"{name}-fast": [*row, MULTIPLIERS + rates.get(name, "{pooling: 10}")]
        for name, row in system_rows().items()
    }


CCP = str(METHODS / "ccp.yaml")
SINGLE = [CCP, "--ccp.max_projections=1", f"--ccp.patience={PATIENT}"]
CCP_LOSSES = {loss: [*CARS_LOSSES[loss], str(OWN / "ccp.yaml")] for loss in ("c2", "ms")}


def ccp_rows():
    """Table 4: each loss by itself, with a memory, with one proxy problem and with CCP."""
    memory = [str(METHODS / "xbm.yaml"), f"--loss_wrapper.capacity={MEMORY}"]
    memory.append("--loss_wrapper.warmup_steps=100")
    options = {"plain": [], "memory": memory, "single": SINGLE, "ccp": [CCP]}
    return crossed("ccp", CCP_LOSSES, options)


def ccp_cause_rows():
    """Table 4: CCP with fast proxies, a larger weight of the batch, more steps, or a trained start.

    The last starts from the plain run of seed 0, which has been trained before.
    """
    fast, longer = f"{MULTIPLIERS}{{proxies: 100}}", "--training.epochs=48"
    options = {
        "single-fast": [*SINGLE, fast],
        "ccp-fast": [CCP, fast],
        "single-batch": [*SINGLE, "--ccp.batch_weight=1"],
        "ccp-batch": [CCP, "--ccp.batch_weight=1"],
        "plain-1200": [longer],
        "ccp-1200": [CCP, longer],
    }
    after = {
        f"ccp_{loss}-ccp-after": [*files, CCP, f"--initial_run=runs/evidence/ccp_{loss}-plain-0"]
        for loss, files in CCP_LOSSES.items()
    }
    return crossed("ccp", CCP_LOSSES, options) | after


def tuning_rows():
    """Table 7: how much of the network trains, and what holds all of it near its start, with C2."""
    head, lora, full = (str(OWN / f"{name}.yaml") for name in ("head", "lora", "full"))
    # A linear map that keeps the dimension of the features and begins as the identity, at the rate
    # of gsp-tf adapt.
    wide = ["--embedding.dim=null", "--embedding.position=after_pooling"]
    wide.append("--training.learning_rate=3e-4")
    cold = ["--training.warmup_epochs=0", "--training.warmup_steps=0"]
    even, last = "--training.lowest_layer_multiplier=1", "--training.ema_momentum=0"
    options = {
        "head": [head],
        "wide-head": [head, *wide],
        "lora": [lora],
        "full": [],
        "full-warm-up": [full, even, last],
        "full-decay": [full, *cold, last],
        "full-averages": [full, *cold, even],
        "full-all": [full],
    }
    return crossed("tuning", {"c2": CARS_LOSSES["c2"]}, options)


HEADS = (*WHOLE, OWN / "head.yaml", OWN / "parts.yaml")
GROUPINGS = {
    "agrouping": [str(METHODS / "agrouping_4.yaml")],
    "agrouping-alike": [str(METHODS / "agrouping_4.yaml"), "--loss_wrapper.diversity_weight=0"],
    **{f"{name}_grouping": [str(METHODS / f"{name}_grouping.yaml")] for name in "mgcn"},
}


def grouping_rows():
    """Table 9: the groupings of A-grouping's Table 3, and A-grouping without its diversity loss."""
    return crossed("groupings", {"margin": [str(METHODS / "margin.yaml")]}, GROUPINGS)


def branch_rows():
    """Table 10: CRT with consistency (its eq. 5), without, and as one branch; then plain branches
    and the loss alone, as in its Table 6. Prototypes and networks are smaller, to fit."""
    sizes = ["--head.num_prototypes=[16,16]", "--head.hidden_dim=64", "--embedding.second_dim=512"]
    crt, plain = [str(OWN / "crt.yaml"), *sizes], str(OWN / "crt.yaml")
    dense = [plain, "--head={name: dense_branches}", "--embedding.second_dim=512"]
    alone = ["--head=null", "--embedding.second_dim=null", "--loss_weights={}"]
    without, single = "--head.consistency_weight=0", "--loss_weights={first: 1, second: 0}"
    options = {
        "crt": crt,
        "crt-inconsistent": [*crt, without],
        "crt-single": [*crt, without, single],
        "dense": dense,
        "gap": [plain, *alone],
    }
    common = ["--embedding.position=after_pooling", "--training.learning_rate=1e-3"]
    return crossed("branches", {"ms": common}, options)


CHARACTERS = (HERE / "omniglot_ccp.yaml",)


def hybrid_rows():
    """Table 11: global and local heads with each loss of their Fig. 7, evaluated every 50 steps."""
    heads = '--head={"name": "global_local", "key_dim": 32}'
    data = "--data.image_size=14", "--data.classes_per_batch=16", "--data.path=data/omniglot"
    options = [heads, *data, "--training.epochs=12", f"{MULTIPLIERS}{{proxies: 10}}"]
    losses = {
        "hybrid": ["--loss.name=hybrid"],
        "pa": ["--loss.name=proxy_anchor"],
        "ms": ["--loss.name=hybrid", "--loss.proxy_weight=0"],
        "ms-0.5": ["--loss.name=hybrid", "--loss.proxy_weight=0", "--loss.base=0.5"],
    }
    return crossed("hybrid", {"heads": options}, losses)


def loss_rows(table):
    """Table 8: every loss that takes classes, with the library's numbers; proxies learn at 1e-2.

    On the table "cars", or "collage"; fewer steps than in their other rows, and less of the network
    trains.
    """
    factor, budget = {
        "cars": (100, ["--training.epochs=4", "--backbone.frozen_to=block6d_add"]),
        "collage": (10, ["--training.epochs=1", *HALF_COLLAGE]),
    }[table]
    rows = {}
    for name in class_losses():
        counts = {"num_classes", "num_proxies"} & set(parameters("loss", ClassRecipe(name)))
        weights = [f"{MULTIPLIERS}{{proxies|betas: {factor}}}"] if counts else []
        rows[f"losses_{table}-{name}"] = [f"--loss.name={name}", *weights, *budget]
    return rows


def class_losses():
    """Names of the losses that train alone from classes, without lengths and views."""
    of_lengths = {"ada_face", "large_margin_softmax", "sphere_face"}
    of_views = {"barlow_twins", "sim_siam", "vicreg"}
    others = of_lengths | of_views | {"hier", "hybrid", "weighted_sum"}
    return [name for name in sorted(NAMES["loss"]) if name not in others]


GRID = {DEFAULT: (0.3, 5.0), **{f"gsp-{ratio:g}-20": (ratio, 20.0) for ratio in (0.15, 0.3, 0.7)}}
"""Transport ratio μ and entropy smoothing ε of GSP that held-out classes choose from."""


def dose_rows(share, size=160):
    """Table 6: the rivals of GSP, GSP as printed and with other μ and ε, with C2, on cars that
    cover a share of pictures of a size."""
    view = [f"--data.image_size={size}", f"--data.canvas.share={share}"]
    rows = {"gap": []} | {name: pooled(name) for name in RIVALS[1:]}
    for name, (ratio, smoothing) in GRID.items():
        numbers = f"--pooling.transport_ratio={ratio}", f"--pooling.entropy_smoothing={smoothing}"
        rows[name] = [*cars_gsp("c2"), *numbers]
    return {
        f"{dose_name(share, size)}-{name}": [*CARS_LOSSES["c2"], *options, *view]
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
