"""The numbers of every row of the papers' tables, as the papers print them.

"§" is a section of the thesis (Gürbüz, 2022), "GSP §" one of the GSP paper (ICCV 2023);
"A-grouping §", "multi-head §" and "CRT §" are sections of the papers of these systems.
"""

import functools
import operator
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gsp_tf.recipe import load_recipe, recipe_values

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
UNSAID = ...  # the row is not of this data set


class Each(NamedTuple):
    """A number for each data set, in the order of the thesis' lists."""

    cub200: Any
    cars196: Any
    in_shop: Any
    sop: Any


class Whole(dict):
    """Entries of a recipe that has no others there."""


def printed(section, **fields):
    """The section, and the fields by their dotted names."""
    return section, dict(flat(fields))


def flat(fields, prefix=""):
    for name, value in fields.items():
        if type(value) is dict:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


# What follows is printed: section, and the fields of recipes.

DATA = printed(
    "§5.3.4.1 Data augmentation, §3.3.2.1 the same",
    data=dict(
        resize=256,
        image_size=227,
        min_crop_area=pytest.approx((40 / 256) ** 2, abs=1e-4),
        horizontal_flip=True,
    ),
)
FAIR_SPLITS = printed(
    "§5.3.4.1 Training Splits, §3.3.2.1 the same", protocol=dict(name="mlrc", num_folds=4)
)
FAIR_TRAINING = printed(
    "§5.3.4.1 Training Procedure, GSP §5.2 Hyperparameters",
    training=dict(
        optimizer="adam",
        beta_2=0.999,  # printed: default, and .99
        learning_rate=1e-5,
        schedule=dict(name="constant"),
        l2_regularization=1e-4,
    ),
)
PAIR_BATCH = printed(
    "§5.3.4.1 Training Procedure, GSP §5.2 Hyperparameters",
    data=dict(classes_per_batch=8, images_per_class=4),
    training=dict(warmup_epochs=0, learning_rate_multipliers=Whole()),
)
CHAPTER_5 = printed(
    "§5.3.4.1 Training Procedure",
    training=dict(steps_per_epoch=Each(100, 100, 1000, 1000), patience=Each(15, 15, 10, 10)),
)
CHAPTER_3 = printed(
    "§3.3.2.1 Training Procedure",
    training=dict(steps_per_epoch=Each(25, 25, 250, 250), patience=60),
)
FAIR_MODEL = printed(
    "§5.3.4.1 Embedding Vectors, §3.3.2.1 the same, §5.2.4",
    embedding=dict(dim=128),
    backbone=dict(name="bn_inception"),
)
GAP = printed(
    "§5.2.4, §3.3.2.1 Fairness",
    pooling=dict(name="gap"),
    embedding=dict(position="before_pooling"),
    zero_shot=dict(weight=0.0),
)

C1 = printed("§5.3.4.1 C1, §3.3.2.1 C1", loss=dict(name="cosine_contrastive", margin=0.5))
C2 = printed(
    "§5.3.4.1 C2, §3.3.2.1 C2",
    loss=dict(
        name="contrastive",
        positive_margin=Each(0, 0.2652, 0.2858, 0.2858),
        negative_margin=Each(0.3841, 0.5409, 0.5130, 0.5130),
    ),
)
TRIPLET = printed(
    "§5.3.4.1 Triplet, §3.3.2.1 Triplet",
    loss=dict(name="triplet", margin=Each(0.0961, 0.1190, 0.0451, 0.0451)),
)
MS = printed(
    "§5.3.4.1 MS, §3.3.2.1 MS",
    loss=dict(
        name="multi_similarity",
        alpha=Each(2, 14.35, 8.49, 2),
        beta=Each(40, 75.83, 57.38, 40),
        base=Each(0.5, 0.66, 0.41, 0.5),
    ),
)
PROXY_BATCH = printed(
    "§5.3.4.1 ProxyAnchor and ProxyNCA++, §3.3.2.1 the same and SoftTriple",
    data=dict(classes_per_batch=32, images_per_class=1),
    training=dict(warmup_epochs=1, learning_rate_multipliers=Whole(proxies=100)),
)
PANCHOR = printed(
    "§5.3.4.1 ProxyAnchor, §3.3.2.1 ProxyAnchor",
    loss=dict(name="proxy_anchor", margin=0.1, alpha=32.0),
)
PANCHOR_RATE = printed(
    "§5.3.4.1 ProxyAnchor", training=dict(learning_rate=Each(1e-5, 1e-5, 1e-5, 5e-6))
)
PNCA = printed("§5.3.4.1 ProxyNCA++", loss=dict(name="proxy_nca", temperature=0.11))
PNCA_CHAPTER_3 = printed("§3.3.2.1 ProxyNCA++", loss=dict(name="proxy_nca", temperature=0.1))
SOFT_TRIPLE = printed(
    "§3.3.2.1 SoftTriple",
    loss=dict(
        name="soft_triple",
        scale=Each(20, 17.69, 20, 100),
        gamma=Each(0.1, 19.18, 0.1, 47.9),
        tau=Each(0.2, 0.0669, 0.2, 0.2),
        margin=Each(0.01, 0.3588, 0.01, 0.3145),
    ),
)
SOFT_TRIPLE_L = printed("§3.3.2.2 Fair Evaluation", loss=dict(centers_per_class=Each(10, 10, 4, 4)))
SOFT_TRIPLE_S = printed("§3.3.2.2 Fair Evaluation", loss=dict(centers_per_class=1))
XBM = printed(
    "§5.3.4.1 XBM, §3.3.2.1 XBM", loss_wrapper=dict(name="cross_batch_memory", warmup_steps=1000)
)
XBM_L = printed(
    "§5.3.4.1 XBM, §3.3.2.1 XBM: 25, 400 and 1400 batches",
    loss_wrapper=dict(capacity=Each(25 * 32, 25 * 32, 400 * 32, 1400 * 32)),
)
XBM_S = printed(
    "§3.3.2.1 XBM: 100 batches on In-shop",
    loss_wrapper=dict(capacity=Each(UNSAID, UNSAID, 100 * 32, UNSAID)),
)
CCP = printed(
    "§3.3.2.1 CCP, §3.2.4",
    trainer="ccp",
    ccp=dict(projection_weight=2e-4, pool_size=Each(12, 12, 7, 7), patience=3),
    training=dict(warmup_epochs=0, learning_rate_multipliers=Whole(), patience=None),
)
CCP_L = printed("§3.3.2.1 CCP", ccp=dict(proxies_per_class=Each(8, 8, 4, 4)))
CCP_S = printed("§3.3.2.1 XBM, §3.3.2.2", ccp=dict(proxies_per_class=1))

GSP = printed(
    "§5.3.4.1 GSP, §5.2.4, GSP §4.4",
    pooling=dict(num_prototypes=Each(64, 64, 128, 128), transport_ratio=0.3),
    zero_shot=dict(ridge=0.05, weight=0.1),
)
OF_PAIRS = printed("§5.3.4.1 GSP", pooling=dict(entropy_smoothing=5.0))
OF_PROXIES = printed("§5.3.4.1 GSP", pooling=dict(entropy_smoothing=0.5))
GSP_ALONE = printed(
    "§5.2.4, GSP §4.4", pooling=dict(name="gsp"), embedding=dict(position="before_pooling")
)
NO_L_ZS = printed("§5.3.4.3, GSP §5.2.2", zero_shot=dict(weight=0.0))
NO_GSP = printed("§5.3.4.3, GSP §5.2.2", pooling=dict(transport_ratio=1.0))
DELF = printed("GSP §5.2.1", pooling=dict(name="delf"))
GEMEAN = printed("GSP §5.2.1", pooling=dict(name="generalized_mean"))
GEMEAN_GSP = printed("GSP §5.2.1", pooling=dict(name="gsp_mean"))
GMP = printed("GSP §5.2.1", pooling=dict(name="max"))
GMP_GAP = printed("GSP §5.2.1", pooling=dict(name="average_max"))
GMP_GSP = printed("GSP §5.2.1", pooling=dict(name="gsp_max"))

CONVENTIONAL = printed(
    "§5.3.4.1 Training Procedure and Splits, §3.3.2.1 the same",
    protocol=dict(name="conventional"),
    training=dict(
        optimizer="adam",
        beta_2=0.999,  # printed: default, and .99
        learning_rate=Each(1e-5, 1e-4, 1e-4, 1e-4),
        schedule=dict(name="plateau", patience=4),
        steps_per_epoch=Each(25, 25, 250, 250),
    ),
    data=dict(images_per_class=4),
)
STOP = printed(
    "§5.3.4.1 Training Procedure, §3.3.2.1 the same", training=dict(patience=Each(15, 15, 10, 10))
)
BN_INCEPTION = printed(
    "§5.3.4.1 Training Procedure, §3.3.2.1 the same: batches of 128",
    backbone=dict(name="bn_inception"),
    training=dict(l2_regularization=1e-4),
    data=dict(classes_per_batch=128 // 4),
)
RESNET50 = printed(
    "§5.3.4.1 Training Procedure, §3.3.2.1 the same: batches of 112",
    backbone=dict(name="resnet50"),
    training=dict(l2_regularization=4e-4),
    data=dict(classes_per_batch=112 // 4),
)
DIM_512 = printed("§5.3.4.1 Embedding Vectors, §3.3.2.1 the same", embedding=dict(dim=512))
DIM_128 = printed("§5.3.4.1 Embedding Vectors", embedding=dict(dim=128))
GAP_AND_GMP = printed(
    "§5.3.4.2 Conventional Evaluation",
    pooling=dict(name="average_max"),
    embedding=dict(position="after_pooling"),
    zero_shot=dict(weight=0.0),
)
GSP_AND_GMP = printed(
    "§5.3.4.2 Conventional Evaluation",
    pooling=dict(name="gsp_max"),
    embedding=dict(position="after_pooling"),
)
MEMORY_OF_128 = printed(
    "§5.3.4.1 XBM: 25 batches on CUB and Cars196",
    loss_wrapper=dict(capacity=Each(25 * 128, 25 * 128, UNSAID, UNSAID)),
)
MEMORY_OF_112 = printed(
    "§5.3.4.1 XBM: 25 batches on CUB and Cars196",
    loss_wrapper=dict(capacity=Each(25 * 112, 25 * 112, UNSAID, UNSAID)),
)

FAIR = [DATA, FAIR_SPLITS, FAIR_TRAINING, FAIR_MODEL]
PAIRS = [*FAIR, PAIR_BATCH]
PROXIES = [*FAIR, PROXY_BATCH]
CCP_PAIRS = [*PAIRS, CCP]
INCEPTION = [DATA, CONVENTIONAL, BN_INCEPTION, DIM_512]
RESNET_512 = [DATA, CONVENTIONAL, RESNET50, DIM_512]
C1_XBM = [STOP, C1, XBM]
OF_PAIR_LOSS = {"C1": C1, "C2": C2, "MS": MS, "Triplet": TRIPLET}

ROWS = {
    "C1": [*PAIRS, CHAPTER_5, C1, GAP],
    "C1+XBM": [*PAIRS, CHAPTER_5, C1, XBM, XBM_L, GAP],
    "C1+XBM+GSP": [*PAIRS, CHAPTER_5, C1, XBM, XBM_L, GSP, OF_PAIRS, GSP_ALONE],
    "C1+CCP": [*CCP_PAIRS, CCP_L, C1, GAP],
    "C1+CCP+GSP": [*CCP_PAIRS, CCP_L, C1, GSP, OF_PAIRS, GSP_ALONE],
    "C2": [*PAIRS, CHAPTER_5, C2, GAP],
    "C2+GSP": [*PAIRS, CHAPTER_5, C2, GSP, OF_PAIRS, GSP_ALONE],
    "C2+GSP without L_ZS": [*PAIRS, CHAPTER_5, C2, GSP, OF_PAIRS, GSP_ALONE, NO_L_ZS],
    "C2+L_ZS without GSP": [*PAIRS, CHAPTER_5, C2, GSP, OF_PAIRS, GSP_ALONE, NO_GSP],
    "C2+DeLF": [*PAIRS, CHAPTER_5, C2, DELF],
    "C2+GeMean": [*PAIRS, CHAPTER_5, C2, GEMEAN],
    "C2+GeMean+GSP": [*PAIRS, CHAPTER_5, C2, GSP, OF_PAIRS, GEMEAN_GSP],
    "C2+GMP": [*PAIRS, CHAPTER_5, C2, GMP],
    "C2+GMP+GAP": [*PAIRS, CHAPTER_5, C2, GMP_GAP],
    "C2+GMP+GSP": [*PAIRS, CHAPTER_5, C2, GSP, OF_PAIRS, GMP_GSP],
    "MS": [*PAIRS, CHAPTER_5, MS, GAP],
    "MS+GSP": [*PAIRS, CHAPTER_5, MS, GSP, OF_PAIRS, GSP_ALONE],
    "Triplet": [*PAIRS, CHAPTER_5, TRIPLET, GAP],
    "Triplet+GSP": [*PAIRS, CHAPTER_5, TRIPLET, GSP, OF_PAIRS, GSP_ALONE],
    "PNCA": [*PROXIES, CHAPTER_5, PNCA, GAP],
    "PNCA+GSP": [*PROXIES, CHAPTER_5, PNCA, GSP, OF_PROXIES, GSP_ALONE],
    "PNCA+DeLF": [*PROXIES, CHAPTER_5, PNCA, DELF],
    "PNCA+GeMean": [*PROXIES, CHAPTER_5, PNCA, GEMEAN],
    "PNCA+GeMean+GSP": [*PROXIES, CHAPTER_5, PNCA, GSP, OF_PROXIES, GEMEAN_GSP],
    "PNCA+GMP": [*PROXIES, CHAPTER_5, PNCA, GMP],
    "PNCA+GMP+GAP": [*PROXIES, CHAPTER_5, PNCA, GMP_GAP],
    "PNCA+GMP+GSP": [*PROXIES, CHAPTER_5, PNCA, GSP, OF_PROXIES, GMP_GSP],
    "PAnchor": [*PROXIES, PANCHOR_RATE, CHAPTER_5, PANCHOR, GAP],
    "PAnchor+GSP": [*PROXIES, PANCHOR_RATE, CHAPTER_5, PANCHOR, GSP, OF_PROXIES, GSP_ALONE],
    "C1+XBM-L": [*PAIRS, CHAPTER_3, C1, XBM, XBM_L, GAP],
    "C2+XBM-L": [*PAIRS, CHAPTER_3, C2, XBM, XBM_L, GAP],
    "ProxyAnchor, chapter 3": [*PROXIES, CHAPTER_3, PANCHOR, GAP],
    "ProxyNCA++, chapter 3": [*PROXIES, CHAPTER_3, PNCA_CHAPTER_3, GAP],
    "SoftTriple-L": [*PROXIES, CHAPTER_3, SOFT_TRIPLE, SOFT_TRIPLE_L, GAP],
    "SoftTriple-S": [*PROXIES, CHAPTER_3, SOFT_TRIPLE, SOFT_TRIPLE_S, GAP],
    "C1+XBM-S on In-shop": [*PAIRS, CHAPTER_3, C1, XBM, XBM_S, GAP],
    "C2+XBM-S on In-shop": [*PAIRS, CHAPTER_3, C2, XBM, XBM_S, GAP],
    **{f"{name}, chapter 3": [*PAIRS, CHAPTER_3, loss, GAP] for name, loss in OF_PAIR_LOSS.items()},
    **{f"{name}+CCP-L": [*CCP_PAIRS, CCP_L, loss, GAP] for name, loss in OF_PAIR_LOSS.items()},
    **{f"{name}+CCP-S": [*CCP_PAIRS, CCP_S, loss, GAP] for name, loss in OF_PAIR_LOSS.items()},
    **{
        f"conventional, {network}, {name}+CCP-L": [*blocks, CCP, CCP_L, loss]
        for network, blocks in (("BN-Inception", INCEPTION), ("ResNet50", RESNET_512))
        for name, loss in OF_PAIR_LOSS.items()
        if name != "Triplet"
    },
    **{
        f"conventional, {network}, C1+XBM{gsp} on CUB, Cars196": [*blocks, *C1_XBM, memory, *pooled]
        for network, blocks, memory in (
            ("BN-Inception", INCEPTION, MEMORY_OF_128),
            ("ResNet50", RESNET_512, MEMORY_OF_112),
            ("ResNet50, 128 dimensions", [DATA, CONVENTIONAL, RESNET50, DIM_128], MEMORY_OF_112),
        )
        for gsp, pooled in (("", [GAP_AND_GMP]), ("+GSP", [GSP, OF_PAIRS, GSP_AND_GMP]))
    },
}

COLLAGE = printed(
    "§5.3.2, GSP §5.1",
    data=dict(
        name="cifar_collage",
        collage=dict(label="super_class"),  # 16 classes
        classes_per_batch=16,
        images_per_class=4,
    ),
    backbone=dict(name="resnetv2_20", weights="runs/resnetv2_20_cifar100-0"),
    training=dict(
        optimizer="adam",
        beta_2=0.999,  # default Adam
        learning_rate=1e-3,
        l2_regularization=0.0,
        schedule=dict(
            name="plateau", decay_factor=0.5, patience=5, min_delta=0, cooldown=0, minimum=0
        ),
        learning_rate_multipliers=Whole(),
    ),
)
COLLAGE_MODEL = printed("§5.2.4, GSP §4.4", embedding=dict(dim=128, position="before_pooling"))
COLLAGE_GSP = printed(
    "§5.3.2",
    pooling=dict(name="gsp", num_prototypes=64, transport_ratio=0.2, entropy_smoothing=10.0),
    zero_shot=dict(
        weight=0.5,
        ridge=0.05,  # §5.2.4
        scale=1.0,  # GSP eq. 4.4
        reduction="sum_of_means",
    ),
)
COLLAGE_C2 = printed("§5.3.5", loss=dict(name="contrastive"))
DISTILLED = printed(
    "GSP Fig. 3: the data set without collages, the shared classes left out",
    data=dict(collage=dict(grid=1), image_size=32),
)
COLLAGE_ROWS = {
    "Collage, C2": [COLLAGE, COLLAGE_MODEL, COLLAGE_C2, GAP],
    "Collage, Distilled": [COLLAGE, COLLAGE_MODEL, COLLAGE_C2, GAP, DISTILLED],
    "Collage, C2+GSP": [COLLAGE, COLLAGE_MODEL, COLLAGE_C2, COLLAGE_GSP],
    "Collage, C2+GSP without L_ZS": [COLLAGE, COLLAGE_MODEL, COLLAGE_C2, COLLAGE_GSP, NO_L_ZS],
    "Collage, PNCA": [COLLAGE, COLLAGE_MODEL, PNCA, GAP],
    "Collage, PNCA+GSP": [COLLAGE, COLLAGE_MODEL, PNCA, COLLAGE_GSP],
}

GROUPED = printed(
    "A-grouping §4.1, Table 1",
    data=dict(image_size=224, horizontal_flip=True, classes_per_batch=56, images_per_class=2),
    protocol=dict(name="conventional"),
    training=dict(optimizer="adam", schedule=dict(name="constant")),
    loss=dict(name="class_margin", margin=0.2, beta=1.2),
    miner=None,
    loss_wrapper=dict(name="grouped"),
    head=dict(name="attentive_grouping"),
    evaluation=dict(recall_at=(1, 2, 10), clustering=True),
)
GROUPED_RESNET50 = printed(
    "A-grouping §4.2, §4.3; Table 1: η at 5e-4",
    backbone=dict(name="resnet50"),
    training=dict(learning_rate=1e-5, learning_rate_multipliers=dict(betas=5e-4 / 1e-5)),
)
GROUPED_INCEPTION = printed(
    "A-grouping §4.2, §4.3; Table 1: η at 5e-4",
    backbone=dict(name="googlenet"),
    training=dict(learning_rate=2e-5, learning_rate_multipliers=dict(betas=5e-4 / 2e-5)),
)
THREE_GROUPS = printed(
    "A-grouping §4.2: λ1 0.02, λ2 0.003",
    embedding=dict(dim=3 * 170),
    head=dict(num_groups=3),
    loss_wrapper=dict(diversity_weight=0.02),
    training=dict(l2_regularization=2 * 0.003),
)
FOUR_GROUPS = printed(
    "A-grouping §4.3: λ1 0.01, λ2 0.001",
    embedding=dict(dim=4 * 128),
    head=dict(num_groups=4),
    loss_wrapper=dict(diversity_weight=0.01),
    training=dict(l2_regularization=2 * 0.001),
)
MULTI_HEAD = printed(
    "multi-head §4.2; Table 3: Recall@1, 10, 20, 40",
    backbone=dict(name="resnet50"),
    data=dict(
        resize=256,
        image_size=224,
        horizontal_flip=True,
        classes_per_batch=100 // 4,
        images_per_class=4,
    ),
    head=dict(
        name="global_local",
        scale=1.0,  # ζ
    ),
    loss=dict(
        name="hybrid",
        proxy_weight=0.03,  # λ
        alpha=2.0,  # γ
        beta=50.0,
        base=1.0,  # σ
        proxy_alpha=32.0,
        margin=0.1,  # δ
    ),
    training=dict(
        optimizer="adamw",
        learning_rate=1e-4,
        learning_rate_multipliers=dict(proxies=1e-2 / 1e-4),
        schedule=dict(name="constant"),
        patience=None,
        epochs=20,
        steps_per_epoch=Each(*(-(-n // 100) for n in (5864, 8054, 25882, 59551))),
    ),
    evaluation=dict(
        recall_at=Each((1, 2, 4, 8), (1, 2, 4, 8), (1, 10, 20, 40), (1, 10, 100, 1000))
    ),
)
CRT = printed(
    "CRT §4.1, §4.3, Table 9",
    data=dict(
        image_size=227,
        horizontal_flip=True,
        classes_per_batch=Each(16, 16, 36, 36),
        images_per_class=5,
    ),
    embedding=dict(
        dim=128,
        second_dim=1024,  # §3.3
    ),
    head=dict(
        name="coded_residual",
        num_prototypes=(64, 64),
        share_weights=True,  # §4.4
        diversity_weight=1.0,
        consistency_weight=0.9,  # λ2
    ),
    loss=dict(name="multi_similarity", alpha=2.0, beta=50.0, base=1.0),
    miner=dict(name="multi_similarity", epsilon=0.1),
    loss_weights=dict(
        first=1.0,  # λ1
        second=Each(0.1, 0.1, 0.9, 0.9),
    ),
    training=dict(learning_rate=3e-5),
    evaluation=dict(recall_at=Each((1, 2, 4, 8), (1, 2, 4, 8), (1, 10, 20, 30), UNSAID)),
)
BY_32 = printed(
    "ours: sides of MiT are multiples of 32, those of DeiT of 16", data=dict(image_size=224)
)


OTHER_ROWS = {
    "Ours-R": [GROUPED, GROUPED_RESNET50, THREE_GROUPS],
    "Ours-I": [GROUPED, GROUPED_INCEPTION, THREE_GROUPS],
    "ResNet-50 + Margin, A-grouping": [GROUPED, GROUPED_RESNET50, FOUR_GROUPS],
    "Inception-v1 + Margin, A-grouping": [GROUPED, GROUPED_INCEPTION, FOUR_GROUPS],
    "Ours, 512 dimensions": [MULTI_HEAD, printed("multi-head Table 1", embedding=dict(dim=512))],
    "Ours, 128 dimensions": [MULTI_HEAD, printed("multi-head Table 1", embedding=dict(dim=128))],
    "Ours, 64 dimensions": [MULTI_HEAD, printed("multi-head Table 1", embedding=dict(dim=64))],
    "CRT, MiT-B2": [CRT, BY_32, printed("CRT §4.1", backbone=dict(name="mit_b2"))],
    "CRT, GoogLeNet": [CRT, printed("CRT Table 5", backbone=dict(name="googlenet"))],
    "CRT, BN-Inception": [CRT, printed("CRT Table 5", backbone=dict(name="bn_inception"))],
    "CRT, ResNet-50": [CRT, printed("CRT Table 5", backbone=dict(name="resnet50"))],
    "CRT, DeiT-S": [CRT, BY_32, printed("CRT Table 5", backbone=dict(name="deit_small"))],
    "CRT, MiT-B1": [CRT, BY_32, printed("CRT Table 5", backbone=dict(name="mit_b1"))],
}

# What follows is the README.

README = (EXPERIMENTS / "README.md").read_text("utf-8")
ROW = r"^\| (.*) \| `((?:(?:methods|conventional)/\S+\.yaml)(?: \S+)*)` \| .* \|$"
OTHER_PAPERS = "### Rows of A-grouping, global and local heads and CRT"


def rows_of(text):
    """Recipe files and options of every row of the tables, by the name of the row."""
    rows = re.findall(ROW, text, re.M)
    assert len({name for name, _ in rows}) == len(rows)
    return {name: content.split() for name, content in rows}


GSP_AND_CCP, OTHERS = map(rows_of, README.split(OTHER_PAPERS))


def recipe_of(content, data_set):
    """The recipe of a row on a data set, put together as the README says."""
    files = [part for part in content if part.endswith(".yaml")]
    options = content[len(files) :]
    is_thesis = files[0] in ("conventional/bn_inception.yaml", "conventional/resnet50.yaml")
    if is_thesis and data_set != "cub200":
        files.insert(1, f"conventional/{'cars196' if data_set == 'cars196' else 'large'}.yaml")
    paths = [f"benchmarks/{data_set}.yaml"]
    for file in files:
        folders = [data_set, "large"] if data_set in ("sop", "in_shop") else [data_set]
        own = [file.replace("methods/", f"methods/{folder}/") for folder in folders]
        paths.append(next((path for path in own if (EXPERIMENTS / path).is_file()), file))
    return load_recipe([EXPERIMENTS / path for path in paths], options)


def assert_has(recipe, fields):
    values = recipe_values(recipe)
    for field, (expected, section) in fields.items():
        value = functools.reduce(operator.getitem, field.split("."), values)
        value = tuple(value) if isinstance(value, list) else value
        assert expected is UNSAID or value == expected, f"{field}, {section}"


def expected_fields(blocks, data_set):
    """Field, value and section; a later block takes the place of an earlier one."""
    fields = {}
    for section, block in blocks:
        for field, value in block.items():
            value = getattr(value, data_set) if isinstance(value, Each) else value
            fields[field] = (value, section)
    return fields


def test_every_row_is_held_against_the_papers():
    assert set(GSP_AND_CCP) == set(ROWS) | set(COLLAGE_ROWS)
    assert set(OTHERS) == set(OTHER_ROWS)


@pytest.mark.parametrize("data_set", Each._fields)
@pytest.mark.parametrize("row", [*ROWS, *OTHER_ROWS])
def test_a_row_has_the_numbers_of_the_papers(row, data_set):
    recipe = recipe_of({**GSP_AND_CCP, **OTHERS}[row], data_set)
    assert_has(recipe, expected_fields({**ROWS, **OTHER_ROWS}[row], data_set))


@pytest.mark.parametrize("row", COLLAGE_ROWS)
def test_a_row_of_cifar_collage_has_the_numbers_of_the_papers(row):
    recipe = recipe_of(GSP_AND_CCP[row], "cifar_collage")
    assert_has(recipe, expected_fields(COLLAGE_ROWS[row], None))


@pytest.mark.parametrize(
    "grouping", ["n_grouping", "m_grouping", "g_grouping", "c_grouping", "agrouping_4"]
)
@pytest.mark.parametrize("loss", ["contrastive", "binomial_deviance", "margin"])
@pytest.mark.parametrize("backbone", ["resnet50", "inception_v1"])
def test_the_rows_of_groupings(backbone, loss, grouping):
    """A-grouping, Tables 3 and 4: 512 dimensions in four groups or none."""
    own_rate = "margin_inception_v1" if (backbone, loss) == ("inception_v1", "margin") else loss
    files = [f"conventional/groupings_{backbone}.yaml"]
    files += [f"methods/{own_rate}.yaml", f"methods/{grouping}.yaml"]
    assert all(file in README for file in files)
    recipe = recipe_of(files, "cub200")
    is_grouped = grouping != "n_grouping"
    assert recipe.embedding.dim == 512
    assert recipe.training.l2_regularization == 2 * 0.001
    assert (recipe.head is not None) == (recipe.loss_wrapper is not None) == is_grouped
    if is_grouped:
        assert (recipe.head.arguments["num_groups"], recipe.loss_wrapper.name) == (4, "grouped")
    if loss == "contrastive":
        margins = recipe.loss.arguments["positive_margin"], recipe.loss.arguments["negative_margin"]
        assert margins == (0.0, 1.0)
