"""Writes losses of pytorch-metric-learning with other arguments than its own to an .npz file.

`make reference-pml` runs it in `.venv-pml` and writes tests/oracles/loss_arguments.npz, in float64:
losses with every distance and every reducer, regularisers, and losses with regularisers, on batches
of `reference.py`.

Keys: `BATCH/labels`, `BATCH/embeddings`, `proxies`, and for each loss `LOSS/values` and
`LOSS/gradients`, as in `reference.py`, with `LOSS/weights_gradients` of losses with proxies, and
`LOSS/none/BATCH` for the losses that are not reduced, in a matrix or vector. Reduced losses have
fewer batches.
"""

import sys

import numpy as np
import torch
from pytorch_metric_learning import losses, reducers, regularizers
from pytorch_metric_learning.distances import (
    CosineSimilarity,
    DotProductSimilarity,
    LpDistance,
    SNRDistance,
)
from reference import CLASSES, COLUMNS, batches, value_and_gradients

NAMES = ("random", "ties", "singles", "coincident", "zeros", "square")
FEW = ("random", "singles", "square")
CLASS_WEIGHTS = torch.arange(1.0, CLASSES + 1) % 4


def raw(p, power=1):
    return LpDistance(normalize_embeddings=False, p=p, power=power)


DISTANCES = {
    "contrastive_cosine": lambda: losses.ContrastiveLoss(0.9, 0.2, distance=CosineSimilarity()),
    "contrastive_dot": lambda: losses.ContrastiveLoss(
        0.5, -0.3, distance=DotProductSimilarity(normalize_embeddings=False)
    ),
    "contrastive_l1": lambda: losses.ContrastiveLoss(0.3, 4, distance=raw(1)),
    "contrastive_l3_squared": lambda: losses.ContrastiveLoss(0.3, 9, distance=raw(3, 2)),
    "contrastive_squared": lambda: losses.ContrastiveLoss(0.1, 1.7, distance=LpDistance(power=2)),
    "contrastive_snr": lambda: losses.ContrastiveLoss(0.13, 3.7, distance=SNRDistance()),
    "generalized_lifted_l1": lambda: losses.GeneralizedLiftedStructureLoss(1, 0.2, distance=raw(1)),
    "intra_pair_l2": lambda: losses.IntraPairVarianceLoss(0, 0, distance=LpDistance()),
    "lifted_cosine": lambda: losses.LiftedStructureLoss(-0.5, distance=CosineSimilarity()),
    "margin_cosine": lambda: losses.MarginLoss(0.2, beta=0.3, distance=CosineSimilarity()),
    "margin_squared": lambda: losses.MarginLoss(0.3, beta=1.4, distance=LpDistance(power=2)),
    "multi_similarity_l1": lambda: losses.MultiSimilarityLoss(2, 20, 1.5, distance=raw(1)),
    "n_pairs_l2": lambda: losses.NPairsLoss(distance=LpDistance()),
    "nca_l2": lambda: losses.NCALoss(3, distance=LpDistance()),
    "nca_cosine": lambda: losses.NCALoss(3, distance=CosineSimilarity()),
    "nt_xent_l2": lambda: losses.NTXentLoss(0.5, distance=LpDistance()),
    "ranked_list_l1": lambda: losses.RankedListLoss(1.4, 1, alpha=4, distance=raw(1)),
    "supervised_contrastive_l1": lambda: losses.SupConLoss(0.7, distance=raw(1)),
    "triplet_cosine": lambda: losses.TripletMarginLoss(0.2, distance=CosineSimilarity()),
    "triplet_l1_root": lambda: losses.TripletMarginLoss(0.2, distance=raw(1, 0.5)),
    "triplet_l1_swap": lambda: losses.TripletMarginLoss(0.37, swap=True, distance=raw(1)),
    "triplet_snr": lambda: losses.TripletMarginLoss(0.21, distance=SNRDistance()),
    "triplet_squared_soft": lambda: losses.TripletMarginLoss(
        0.2, smooth_loss=True, distance=LpDistance(power=2)
    ),
}
OF_PROXIES = {
    "normalized_softmax_l2": lambda **k: losses.NormalizedSoftmaxLoss(
        CLASSES, COLUMNS, 0.3, distance=LpDistance(), **k
    ),
    "arc_face_regularized": lambda **k: losses.ArcFaceLoss(
        CLASSES,
        COLUMNS,
        scale=8,
        weight_regularizer=regularizers.RegularFaceRegularizer(),
        weight_reg_weight=0.5,
        embedding_regularizer=regularizers.LpRegularizer(),
        embedding_reg_weight=0.1,
        **k,
    ),
}
REDUCED = {
    "arc_face": lambda **k: losses.ArcFaceLoss(CLASSES, COLUMNS, scale=8, **k),
    "circle": lambda **k: losses.CircleLoss(0.4, 8, **k),
    "contrastive": lambda **k: losses.ContrastiveLoss(0.1, 1.3, **k),
    "fast_ap": lambda **k: losses.FastAPLoss(**k),
    "margin": lambda **k: losses.MarginLoss(0.3, beta=1.1, **k),
    "multi_similarity": lambda **k: losses.MultiSimilarityLoss(2, 20, 0.4, **k),
    "nca": lambda **k: losses.NCALoss(2, **k),
    "nt_xent": lambda **k: losses.NTXentLoss(0.5, **k),
    "triplet": lambda **k: losses.TripletMarginLoss(0.3, **k),
    "triplet_swap": lambda **k: losses.TripletMarginLoss(0.3, swap=True, **k),
    "tuplet_margin": lambda **k: losses.TupletMarginLoss(20, 4, **k),
}
REDUCERS = {
    "mean": lambda: reducers.MeanReducer(),
    "sum": lambda: reducers.SumReducer(),
    "nonzero_mean": lambda: reducers.AvgNonZeroReducer(),
    "between": lambda: reducers.ThresholdReducer(low=0.11, high=0.77),
    "below": lambda: reducers.ThresholdReducer(high=0.53),
    "class_weights": lambda: reducers.ClassWeightedReducer(CLASS_WEIGHTS),
    "per_anchor": lambda: reducers.PerAnchorReducer(),
}
# MarginLoss has one term for each triplet there, the sum of two here. They have no terms of
# anchors for triplets, and stop for tuplets.
LEFT_OUT = {
    "margin_nonzero_mean", "margin_between", "margin_below", "margin_per_anchor",
    "triplet_per_anchor", "triplet_swap_per_anchor", "tuplet_margin_per_anchor",
}  # fmt: skip
REGULARIZERS = {
    "center_invariant": regularizers.CenterInvariantRegularizer,
    "lp": regularizers.LpRegularizer,
    "lp_1_squared": lambda: regularizers.LpRegularizer(1, 2),
    "lp_3": lambda: regularizers.LpRegularizer(3),
    "regular_face": regularizers.RegularFaceRegularizer,
    "sparse_centers_3": lambda: regularizers.SparseCentersRegularizer(4, 3),
    "zero_mean": regularizers.ZeroMeanRegularizer,
}


def unreduced(loss, labels, embeddings):
    """The losses of the pairs in a matrix `(B, B)`, or of the samples in a vector `(B,)`."""
    of_kinds = loss(torch.tensor(embeddings), torch.tensor(labels))
    total = 0.0
    for kind in of_kinds.values():
        if kind["indices"] is None:
            continue
        indices = kind["indices"]
        places = indices if isinstance(indices, (tuple, list)) else (indices,)
        matrix = np.zeros((len(labels),) * len(places))
        np.add.at(
            matrix, tuple(x.numpy() for x in places), kind["losses"].detach().numpy().reshape(-1)
        )
        total = total + matrix
    return total


def main(path):
    torch.set_default_dtype(torch.float64)
    cases = {name: batch for name, batch in batches().items() if name in NAMES}
    arrays = {f"{name}/labels": labels for name, (labels, _) in cases.items()}
    arrays |= {f"{name}/embeddings": embeddings for name, (_, embeddings) in cases.items()}
    arrays["proxies"] = proxies = np.random.default_rng(1).normal(size=(CLASSES, COLUMNS))

    def with_proxies(loss):
        for weights in loss.parameters():
            weights.data = torch.tensor(proxies.T.copy())
        return loss

    def put(key, make, names=NAMES):
        values, gradients, weights_gradients = [], [], []
        for labels, embeddings in (cases[name] for name in names):
            loss = with_proxies(make())
            value, (gradient,) = value_and_gradients(loss, embeddings, labels=torch.tensor(labels))
            values.append(value)
            gradients.append(gradient)
            weights_gradients += [
                np.full(proxies.shape, np.nan) if x.grad is None else x.grad.numpy().T.copy()
                for x in loss.parameters()
            ]
        arrays[f"{key}/values"] = np.array(values)
        arrays[f"{key}/gradients"] = np.concatenate(gradients).astype("float32")
        if weights_gradients:
            arrays[f"{key}/weights_gradients"] = np.stack(weights_gradients).astype("float32")

    for key, make in (DISTANCES | OF_PROXIES).items():
        put(key, make)
    for key, make in REDUCED.items():
        for name, reducer in REDUCERS.items():
            if f"{key}_{name}" not in LEFT_OUT:
                put(
                    f"{key}_{name}", lambda make=make, reducer=reducer: make(reducer=reducer()), FEW
                )
        if key not in ("margin", "triplet", "triplet_swap"):
            loss = with_proxies(make(reducer=reducers.DoNothingReducer()))
            for name in ("random", "square"):
                arrays[f"{key}/none/{name}"] = unreduced(loss, *cases[name])
    points = {"proxies": proxies, "zeros": cases["zeros"][1], "coincident": cases["coincident"][1]}
    for key, make in REGULARIZERS.items():
        for name, rows in points.items():
            value, (gradient,) = value_and_gradients(make(), rows)
            arrays[f"{key}/{name}/value"], arrays[f"{key}/{name}/gradient"] = value, gradient
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
