"""Where pytorch-metric-learning has another number: the sentences of docs/migration are true.

`tools/pml/differences.py` wrote the numbers of the library.
"""

import re
import runpy
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gsp_tf import losses

PAGES = Path(__file__).parents[2] / "tools/migration/pages.py"
TABLE = runpy.run_path(PAGES)["TABLE"]["pytorch_metric_learning"]
WEIGHTED = losses.Reduction("mean", [float(number % 4) for number in range(1, 13)])
triplets = partial(losses.TripletMarginMiner, 0.17)
margin = {"margin": 0.3, "beta": 1.1, "reduction": "nonzero_mean"}
multi_similarity = partial(losses.MultiSimilarityLoss, 2, 50, 0.5)
circle = partial(losses.CircleLoss, 0.4, 8)
supcon = partial(losses.SupervisedContrastiveLoss, 0.5)
lifted, angular = partial(losses.LiftedStructureLoss, 1), partial(losses.AngularLoss, 40)
generalized_lifted = partial(losses.GeneralizedLiftedStructureLoss, 1)
nca, hard = partial(losses.NCALoss, 1), losses.BatchHardMiner

# For each number of the library: its row on the page, and our loss.
CASES = {
    "multi_similarity_triplets": ("losses.MultiSimilarityLoss", multi_similarity),
    "circle_triplets": ("losses.CircleLoss", circle),
    "supcon_triplets": ("losses.SupConLoss", supcon),
    "generalized_lifted_triplets": ("losses.GeneralizedLiftedStructureLoss", generalized_lifted),
    "nca_batch_hard": ("losses.NCALoss", lambda: nca(miner=hard())),
    "nca_memory": ("losses.NCALoss", lambda: losses.CrossBatchMemory(nca(), 64)),
    "angular_batch_hard": ("losses.AngularLoss", lambda: angular(miner=hard())),
    "triplet_hdc": (
        "miners.HDCMiner", lambda: losses.TripletLoss(0.3, miner=losses.HDCMiner(0.15)),
    ),
    "pnp_sum": ("losses.PNPLoss", lambda: losses.PNPLoss("O", reduction="sum")),
    "threshold_consistent_sum": (
        "losses.ThresholdConsistentMarginLoss",
        lambda: losses.ThresholdConsistentMarginLoss(reduction="sum"),
    ),
    "p2s_grad_sum": ("losses.P2SGradLoss", lambda: losses.P2SGradLoss(12, reduction="sum")),
    "margin_nonzero_mean": ("losses.MarginLoss", lambda: losses.MarginLoss(**margin)),
    "class_margin_nonzero_mean": (
        "losses.MarginLoss(learn_beta=True, num_classes=100)",
        lambda: losses.ClassMarginLoss(num_classes=12, **margin),
    ),
    "supcon_mean": ("losses.SupConLoss", lambda: supcon(reduction="mean")),
    **{
        f"{name}_class_weights": (
            "reducers.ClassWeightedReducer", lambda make=make: make(reduction=WEIGHTED),
        )
        for name, make in (
            ("lifted", lifted), ("generalized_lifted", generalized_lifted), ("angular", angular),
        )
    },
}  # fmt: skip


def batch(oracle, name="random"):
    labels, embeddings = (
        oracle("losses_field")[f"{name}/{kind}"] for kind in ("labels", "embeddings")
    )
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return labels, (embeddings / lengths).astype("float32")


def is_told(theirs, ours, other):
    """Whether the row of a name on the page has both numbers, with three digits."""
    row = next(row for rows in TABLE.values() for row in rows if row["theirs"] == theirs)
    numbers = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", row["difference"])}
    return {float(f"{number:.3g}") for number in (ours, other)} <= numbers


@pytest.mark.parametrize("key", CASES)
def test_the_page_has_our_number_and_theirs(oracle, key):
    row, make = CASES[key]
    loss = make(miner=triplets()) if key.endswith("triplets") else make()
    labels, embeddings = batch(oracle, "singles" if key == "supcon_mean" else "random")
    if key == "p2s_grad_sum":
        loss(labels, embeddings)
        loss.proxies.assign(oracle("losses_field")["proxies"][:12])
    ours, theirs = float(loss(labels, embeddings)), float(oracle("differences")[key])
    assert abs(ours - theirs) > 0.01 * theirs and is_told(row, ours, theirs)


def test_swapped_triplets_with_references_have_the_distance_of_positive_and_negative(oracle):
    labels, x = batch(oracle)
    loss, references = losses.TripletLoss(0.3, swap=True, reduction="nonzero_mean"), -x
    value = float(loss.pairwise(labels, x, labels, references))
    between = np.linalg.norm(x[:, None] - references, axis=-1)
    among = np.linalg.norm(references[:, None] - references, axis=-1)
    same = labels[:, None] == labels
    a, p, n = np.nonzero(same[:, :, None] & ~same[:, None])
    costs = between[a, p] - np.minimum(between[a, n], among[p, n]) + 0.3
    assert value == pytest.approx(costs[costs > 0].mean(), rel=1e-4)
    theirs = float(oracle("differences")["triplet_swap_references"])
    assert is_told("losses.TripletMarginLoss", value, theirs)
