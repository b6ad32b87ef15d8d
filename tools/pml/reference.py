"""Writes values and gradients of pytorch-metric-learning's losses to an .npz file, in float64.

`make reference-pml` runs it in `.venv-pml` and writes tests/oracles/losses_field.npz. Every loss is
computed with several parameters on every batch: random classes, embeddings full of ties, classes of
one sample, a single class, no class with two samples, coincident embeddings, and zero vectors. A
value of NaN marks what the library cannot compute.

Keys: `BATCH/labels`, `BATCH/embeddings`, `proxies`, and for each loss `LOSS/values` of the batches
in their order, `LOSS/gradients`, the rows of one batch after those of the other, and, with weights,
`LOSS/weights_gradients`.
"""

import sys

import numpy as np
import torch
from pytorch_metric_learning import losses, miners

COLUMNS, CLASSES = 5, 12


def batches():
    """Labels and embeddings by name; every label is below `CLASSES`."""
    rng = np.random.default_rng(0)
    threes = np.repeat(np.arange(4), 3)
    order = rng.permutation(12)
    normal = rng.normal(size=(12, COLUMNS)) + 0.8 * rng.normal(size=(4, COLUMNS))[threes]
    coincident = normal.copy()
    coincident[[1, 4]] = coincident[[0, 3]]  # of one class
    coincident[7] = coincident[3]  # of two classes
    zeros = normal.copy()
    zeros[[2, 5]] = 0.0
    singles = np.array([0, 1, 1, 2, 3, 3, 3, 4, 5, 6, 6, 7])
    return {
        "random": (threes[order], normal[order]),
        "ties": (threes, np.sign(normal) * (rng.uniform(size=normal.shape) < 0.7)),
        "singles": (singles, normal),
        "one_class": (np.zeros(12, int), normal),
        "no_positives": (np.arange(12), normal),
        "coincident": (threes, coincident),
        "zeros": (threes, zeros),
        "square": (np.repeat(np.arange(3), 3), normal[:9]),
    }


class FixedHistogram(losses.DynamicSoftMarginLoss):
    """The loss with a histogram that is not differentiated, as in the paper."""

    def update_histogram(self, data):
        super().update_histogram(data.detach())


class Named(losses.ManifoldLoss):
    """The loss with the meta-classes that the labels name."""

    def forward(self, embeddings, labels):
        return super().forward(embeddings, indices_tuple=labels % self.K)


PAIRS = {
    "generalized_lifted": lambda: losses.GeneralizedLiftedStructureLoss(1, 0),
    "generalized_lifted_0.4_0.2": lambda: losses.GeneralizedLiftedStructureLoss(0.4, 0.2),
    "histogram_100": lambda: losses.HistogramLoss(100),
    "histogram_7": lambda: losses.HistogramLoss(7),
    "instance_64": lambda: losses.InstanceLoss(64),
    "instance_3": lambda: losses.InstanceLoss(3),
    "intra_pair_variance": lambda: losses.IntraPairVarianceLoss(),
    "intra_pair_variance_0.3_0.1": lambda: losses.IntraPairVarianceLoss(0.3, 0.1),
    "nca_1": lambda: losses.NCALoss(1),
    "nca_6": lambda: losses.NCALoss(6),
    "nt_xent_0.07": lambda: losses.NTXentLoss(0.07),
    "nt_xent_0.5": lambda: losses.NTXentLoss(0.5),
    "pnp_O": lambda: losses.PNPLoss(variant="O"),
    "pnp_Iu": lambda: losses.PNPLoss(variant="Iu", anneal=0.1),
    "pnp_Ib_5": lambda: losses.PNPLoss(b=5, variant="Ib", anneal=0.2),
    "pnp_Ds": lambda: losses.PNPLoss(variant="Ds", anneal=0.1),
    "pnp_Dq_3": lambda: losses.PNPLoss(alpha=3, variant="Dq", anneal=0.3),
    "ranked_list": lambda: losses.RankedListLoss(0.4, 10),
    "ranked_list_0.6_2": lambda: losses.RankedListLoss(0.6, 2, 0.3, 1.1, 3),
    "signal_to_noise": lambda: losses.SignalToNoiseRatioContrastiveLoss(),
    "signal_to_noise_0.2_3": lambda: losses.SignalToNoiseRatioContrastiveLoss(
        pos_margin=0.2, neg_margin=3
    ),
    "smooth_ap_0.01": lambda: losses.SmoothAPLoss(0.01),
    "smooth_ap_0.2": lambda: losses.SmoothAPLoss(0.2),
    "threshold_consistent": lambda: losses.ThresholdConsistentMarginLoss(),
    "threshold_consistent_0.5_0.1": lambda: losses.ThresholdConsistentMarginLoss(2, 3, 0.5, 0.1),
    "triplet_swap_0.3": lambda: losses.TripletMarginLoss(0.3, swap=True),
    "triplet_soft_0.1": lambda: losses.TripletMarginLoss(0.1, smooth_loss=True),
    "triplet_swap_soft_1": lambda: losses.TripletMarginLoss(1, swap=True, smooth_loss=True),
    "tuplet_margin": lambda: losses.TupletMarginLoss(),
    "tuplet_margin_20_8": lambda: losses.TupletMarginLoss(20, 8),
    "dynamic_soft_margin": lambda: FixedHistogram(),
    "dynamic_soft_margin_-2.5_30": lambda: FixedHistogram(-2.5, 30, 0.3),
    "weighted_sum": lambda: losses.MultipleLosses(
        [losses.TupletMarginLoss(), losses.IntraPairVarianceLoss()], weights=[1, 0.5]
    ),
}

OF_PROXIES = {
    "large_margin_softmax_4": lambda: losses.LargeMarginSoftmaxLoss(CLASSES, COLUMNS),
    "large_margin_softmax_3": lambda: losses.LargeMarginSoftmaxLoss(CLASSES, COLUMNS, 3, 2),
    "sphere_face_4": lambda: losses.SphereFaceLoss(CLASSES, COLUMNS),
    "sphere_face_2": lambda: losses.SphereFaceLoss(CLASSES, COLUMNS, 2, 3),
    "sub_center_arc_face_3": lambda: losses.SubCenterArcFaceLoss(
        num_classes=CLASSES, embedding_size=COLUMNS
    ),
    "sub_center_arc_face_2": lambda: losses.SubCenterArcFaceLoss(
        margin=50, scale=8, sub_centers=2, num_classes=CLASSES, embedding_size=COLUMNS
    ),
    "p2s_grad": lambda: losses.P2SGradLoss(COLUMNS, CLASSES),
    "manifold_3": lambda: Named(COLUMNS, 3),
    "manifold_5": lambda: Named(COLUMNS, 5, 0.3, 0.6, 0.05),
}
ROWS_ARE_PROXIES = ("manifold_3", "manifold_5")

OF_VIEWS = {
    "vicreg": lambda: losses.VICRegLoss(),
    "vicreg_2_3_5": lambda: losses.VICRegLoss(2, 3, 5, 0.01),
    "self_supervised": lambda: losses.SelfSupervisedLoss(losses.NTXentLoss(0.3)),
    "self_supervised_one_way": lambda: losses.SelfSupervisedLoss(
        losses.NTXentLoss(0.3), symmetric=False
    ),
}
IN_MEMORY = {
    "angular": lambda: losses.AngularLoss(),
    "circle": lambda: losses.CircleLoss(0.3, 8),
    "contrastive": lambda: losses.ContrastiveLoss(0.1, 1.3),
    "margin": lambda: losses.MarginLoss(0.3, beta=1.1),
    "multi_similarity": lambda: losses.MultiSimilarityLoss(2, 20, 0.4),
    "mined": lambda: losses.MultiSimilarityLoss(2, 20, 0.4),
    "supervised_contrastive": lambda: losses.SupConLoss(0.5),
    "triplet": lambda: losses.TripletMarginLoss(0.3),
}
OF_REFERENCES = [
    name
    for name in PAIRS
    if name.startswith(("generalized", "intra_pair", "nca", "nt_xent", "signal", "tuplet"))
]


def value_and_gradients(loss, *points, **arguments):
    """Value, and gradients of the points (tensors), or NaN for what the library cannot compute."""
    points = [torch.tensor(point, requires_grad=True) for point in points]
    try:
        value = loss(*points, **arguments)
        value.backward()
    except (IndexError, RuntimeError, ValueError):
        return np.nan, [np.full(point.shape, np.nan) for point in points]
    return value.item(), [
        np.zeros(point.shape) if point.grad is None else point.grad.numpy() for point in points
    ]


def main(path):
    torch.set_default_dtype(torch.float64)
    cases = batches()
    arrays = {f"{name}/labels": labels for name, (labels, _) in cases.items()}
    arrays |= {f"{name}/embeddings": embeddings for name, (_, embeddings) in cases.items()}
    arrays["proxies"] = proxies = np.random.default_rng(1).normal(size=(3 * CLASSES, COLUMNS))

    def put(key, results):
        values, gradients, *weights_gradients = zip(*results, strict=True)
        arrays[f"{key}/values"] = np.array(values)
        arrays[f"{key}/gradients"] = np.concatenate(gradients).astype("float32")
        if weights_gradients:
            arrays[f"{key}/weights_gradients"] = np.stack(*weights_gradients).astype("float32")

    def of_pairs(make, labels, embeddings):
        value, gradients = value_and_gradients(make(), embeddings, labels=torch.tensor(labels))
        return value, *gradients

    def of_proxies(make, rows_are_proxies, labels, embeddings):
        loss = make()
        (weights,) = loss.parameters()
        chosen = torch.tensor(proxies[: weights.shape[0 if rows_are_proxies else 1]])
        weights.data = (chosen if rows_are_proxies else chosen.T).contiguous()
        value, gradients = value_and_gradients(loss, embeddings, labels=torch.tensor(labels))
        weights_gradient = weights.grad.numpy()
        return value, *gradients, weights_gradient if rows_are_proxies else weights_gradient.T

    for key, make in PAIRS.items():
        put(key, [of_pairs(make, *batch) for batch in cases.values()])
    for key, make in OF_PROXIES.items():
        rows = key in ROWS_ARE_PROXIES
        put(key, [of_proxies(make, rows, *batch) for batch in cases.values()])

    first, second = cases["random"][1], cases["zeros"][1]
    for key, make in OF_VIEWS.items():
        loss = make()
        value, gradients = value_and_gradients(
            lambda x, y, loss=loss: loss(x, ref_emb=y), first, second
        )
        put(key, [(value, np.concatenate(gradients))])
    labels, reference_labels = (torch.tensor(cases[name][0]) for name in ("square", "singles"))
    for key in OF_REFERENCES:
        loss = PAIRS[key]()
        value, gradients = value_and_gradients(
            lambda x, y, loss=loss: loss(x, labels, ref_emb=y, ref_labels=reference_labels),
            cases["square"][1],
            second,
        )
        put(f"{key}/references", [(value, np.concatenate(gradients))])
    # Two batches of one loss, and the histogram that they leave.
    loss = FixedHistogram()
    put("two_batches", [of_pairs(lambda: loss, *cases[name]) for name in ("random", "square")])
    arrays["two_batches/histogram"] = loss.hist_.numpy()
    # Batches of several sizes of one loss, with a memory that overflows in the second.
    for key, make in IN_MEMORY.items():
        miner = miners.MultiSimilarityMiner() if key == "mined" else None
        loss = losses.CrossBatchMemory(make(), COLUMNS, 20, miner)
        results = []
        for labels, embeddings in (cases[name] for name in ("random", "square", "singles")):
            unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
            results.append(of_pairs(lambda loss=loss: loss, labels, unit))
        put(f"memory_{key}", results)
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
