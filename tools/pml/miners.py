"""Writes what pytorch-metric-learning's miners choose to an .npz file, in float64.

`make reference-pml` runs it in `.venv-pml` and writes tests/oracles/miners.npz. Every miner sees
the batches of `reference.py` as they are. The coordinates of the batch "ties" are whole numbers, so
equal distances are exactly equal.

Keys: `BATCH/labels`, `BATCH/embeddings`, `MINER/pairs (batches, 2, 12, 12)`, how often each
positive and each negative pair is chosen, `MINER/triplets (n, 4)` of the miners that choose
triplets, with the number of the batch first, and `LOSS/MINER/values` and `LOSS/MINER/gradients` of
losses that use a miner, as in `reference.py`.
"""

import sys

import numpy as np
import torch
from pytorch_metric_learning import losses, miners
from pytorch_metric_learning.distances import DotProductSimilarity, LpDistance
from reference import batches, value_and_gradients

DRAWS = 300
RAW = DotProductSimilarity(normalize_embeddings=False)
OF_PAIRS = {
    "batch_easy_hard": lambda **k: miners.BatchEasyHardMiner(**k),
    "batch_easy_hard_all_hard": lambda **k: miners.BatchEasyHardMiner("all", "hard", **k),
    "batch_easy_hard_easy_all": lambda **k: miners.BatchEasyHardMiner("easy", "all", **k),
    "batch_easy_hard_hard_easy": lambda **k: miners.BatchEasyHardMiner("hard", "easy", **k),
    "batch_easy_hard_semi_hard": lambda **k: miners.BatchEasyHardMiner("semihard", "hard", **k),
    "batch_easy_hard_semi_easy": lambda **k: miners.BatchEasyHardMiner("semihard", "easy", **k),
    "batch_easy_hard_within": lambda **k: miners.BatchEasyHardMiner(
        "hard", "semihard", (0.5, 2.2), (1.1, 3.1), **k
    ),
    "batch_hard": lambda **k: miners.BatchHardMiner(**k),
    "hdc": lambda **k: miners.HDCMiner(**k),
    "hdc_0.15": lambda **k: miners.HDCMiner(0.15, **k),
    "multi_similarity": lambda **k: miners.MultiSimilarityMiner(distance=RAW),
    "multi_similarity_0.7": lambda **k: miners.MultiSimilarityMiner(0.7, distance=RAW),
    "pair_margin": lambda **k: miners.PairMarginMiner(**k),
    "pair_margin_1.7_2.1": lambda **k: miners.PairMarginMiner(1.7, 2.1, **k),
    "uniform_histogram": lambda **k: miners.UniformHistogramMiner(**k),
    "uniform_histogram_4": lambda **k: miners.UniformHistogramMiner(4, 3, 20, **k),
}
OF_TRIPLETS = {
    "angular": lambda **k: miners.AngularMiner(),
    "angular_33": lambda **k: miners.AngularMiner(33),
    "triplet_margin": lambda **k: miners.TripletMarginMiner(**k),
    "triplet_margin_1_hard": lambda **k: miners.TripletMarginMiner(1, "hard", **k),
    "triplet_margin_1_semi_hard": lambda **k: miners.TripletMarginMiner(1, "semihard", **k),
    "triplet_margin_0.4_easy": lambda **k: miners.TripletMarginMiner(0.4, "easy", **k),
    "triplet_margin_-0.3": lambda **k: miners.TripletMarginMiner(-0.3, **k),
}
LOSSES = {
    "contrastive": lambda: losses.ContrastiveLoss(0.1, 1.3),
    "margin": lambda: losses.MarginLoss(0.3, beta=1.1),
    "nt_xent": lambda: losses.NTXentLoss(0.5),
    "triplet": lambda: losses.TripletMarginLoss(0.3),
    "triplet_swap": lambda: losses.TripletMarginLoss(0.3, swap=True),
}
IN_LOSSES = {
    "angular_33": lambda: miners.AngularMiner(33),
    "batch_hard": lambda: miners.BatchHardMiner(),
    "pair_margin": lambda: miners.PairMarginMiner(0.7, 1.3),
    "triplet_margin": lambda: miners.TripletMarginMiner(0.17),
    "triplet_margin_semi_hard": lambda: miners.TripletMarginMiner(0.4, "semihard"),
}


def pairs_of(output):
    """How often each pair is chosen: positives and negatives `(B, B)`."""
    anchors, positives, *rest = [x.numpy() for x in output]
    negative_anchors, negatives = rest if len(rest) == 2 else (anchors, *rest)
    counts = np.zeros((2, 12, 12))
    np.add.at(counts[0], (anchors, positives), 1)
    np.add.at(counts[1], (negative_anchors, negatives), 1)
    return counts


def main(path):
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    cases = batches()
    arrays = {f"{name}/labels": labels for name, (labels, _) in cases.items()}
    arrays |= {f"{name}/embeddings": embeddings for name, (_, embeddings) in cases.items()}
    as_they_are = {"distance": LpDistance(normalize_embeddings=False)}
    for key, make in (OF_PAIRS | OF_TRIPLETS).items():
        counts, triplets = [], []
        for number, (labels, embeddings) in enumerate(cases.values()):
            points, labels = torch.tensor(embeddings), torch.tensor(labels)
            miner = make(**as_they_are)
            if key.startswith("uniform"):
                counts.append(sum(pairs_of(miner(points, labels)) for _ in range(DRAWS)) / DRAWS)
                continue
            found = miner(points, labels)
            counts.append(pairs_of(found))
            if key in OF_TRIPLETS:
                places = [x.numpy() for x in found]
                triplets.append(np.stack([np.full(len(places[0]), number), *places], axis=1))
        kind = "float32" if key.startswith("uniform") else "uint8"
        arrays[f"{key}/pairs"] = np.stack(counts).astype(kind)
        if triplets:
            arrays[f"{key}/triplets"] = np.concatenate(triplets).astype("uint8")
    for loss_key, make_loss in LOSSES.items():
        for key, make in IN_LOSSES.items():
            values, gradients = [], []
            for labels, embeddings in cases.values():
                numbers, miner = torch.tensor(labels), make()
                unit = torch.nn.functional.normalize(torch.tensor(embeddings))
                value, (gradient,) = value_and_gradients(
                    make_loss(), embeddings, labels=numbers, indices_tuple=miner(unit, numbers)
                )
                values.append(value)
                gradients.append(gradient.astype("float32"))
            arrays[f"{loss_key}/{key}/values"] = np.array(values)
            arrays[f"{loss_key}/{key}/gradients"] = np.concatenate(gradients)
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
