"""Writes values of pytorch-metric-learning that ours do not equal to an .npz file, in float64.

`make reference-pml` runs it in `.venv-pml` and writes tests/oracles/differences.npz: one number for
each sentence of docs/migration about such a case. The batches are those of `reference.py`, with
embeddings of length 1. A value of NaN marks an error of the library.
"""

import sys

import numpy as np
import torch
from pytorch_metric_learning import losses, miners, reducers
from reference import CLASSES, COLUMNS, batches

CLASS_WEIGHTS = torch.arange(1.0, CLASSES + 1) % 4
TRIPLETS = miners.TripletMarginMiner(0.17)
HARD = miners.BatchHardMiner()


def weighted():
    return reducers.ClassWeightedReducer(CLASS_WEIGHTS)


MINED = {
    "multi_similarity_triplets": (losses.MultiSimilarityLoss(2, 50, 0.5), TRIPLETS),
    "circle_triplets": (losses.CircleLoss(0.4, 8), TRIPLETS),
    "supcon_triplets": (losses.SupConLoss(0.5), TRIPLETS),
    "generalized_lifted_triplets": (losses.GeneralizedLiftedStructureLoss(), TRIPLETS),
    "nca_batch_hard": (losses.NCALoss(), HARD),
    "angular_batch_hard": (losses.AngularLoss(), HARD),
    "triplet_hdc": (losses.TripletMarginLoss(0.3), miners.HDCMiner(0.15)),
}
REDUCED = {
    "pnp_sum": losses.PNPLoss(reducer=reducers.SumReducer()),
    "threshold_consistent_sum": losses.ThresholdConsistentMarginLoss(reducer=reducers.SumReducer()),
    "p2s_grad_sum": losses.P2SGradLoss(COLUMNS, CLASSES, reducer=reducers.SumReducer()),
    "margin_nonzero_mean": losses.MarginLoss(0.3, beta=1.1, reducer=reducers.AvgNonZeroReducer()),
    "class_margin_nonzero_mean": losses.MarginLoss(
        0.3,
        beta=1.1,
        learn_beta=True,
        num_classes=CLASSES,
        reducer=reducers.AvgNonZeroReducer(),
    ),
    "lifted_class_weights": losses.LiftedStructureLoss(reducer=weighted()),
    "generalized_lifted_class_weights": losses.GeneralizedLiftedStructureLoss(reducer=weighted()),
    "angular_class_weights": losses.AngularLoss(reducer=weighted()),
}


def unit(batch):
    """Embeddings of length 1, and labels."""
    labels, embeddings = batch
    return torch.nn.functional.normalize(torch.tensor(embeddings)), torch.tensor(labels)


def with_references(embeddings, labels, copies):
    """TripletMarginLoss with swap, and with copies of the negated batch as references."""
    references = torch.cat([-embeddings] * copies), torch.cat([labels] * copies)
    loss = losses.TripletMarginLoss(0.3, swap=True)
    try:
        return loss(embeddings, labels, ref_emb=references[0], ref_labels=references[1])
    except IndexError:
        return torch.nan


def main(path):
    torch.set_default_dtype(torch.float64)
    random, singles = (unit(batches()[name]) for name in ("random", "singles"))
    proxies = torch.tensor(np.random.default_rng(1).normal(size=(CLASSES, COLUMNS)))
    for weights in REDUCED["p2s_grad_sum"].parameters():
        weights.data = proxies.T.clone()
    values = {key: loss(*random, miner(*random)) for key, (loss, miner) in MINED.items()}
    values |= {key: loss(*random) for key, loss in REDUCED.items()}
    values["supcon_mean"] = losses.SupConLoss(0.5, reducer=reducers.MeanReducer())(*singles)
    values["nca_memory"] = losses.CrossBatchMemory(losses.NCALoss(), COLUMNS, 64)(*random)
    angles = torch.tensor([0.0, 40.0, 70.0]).deg2rad()
    points, labels = torch.stack([angles.cos(), angles.sin()], 1), torch.tensor([0, 0, 1])
    mined = miners.TripletMarginMiner(0.2)(points, labels)
    assert [len(indices) for indices in mined] == [1, 1, 1]
    values["contrastive_one_triplet"] = losses.ContrastiveLoss(0, 1)(points, labels, mined)
    values["triplet_swap_references"] = with_references(*random, 1)
    values["triplet_swap_more_references"] = with_references(*random, 2)
    numbers = {key: torch.as_tensor(value).detach().numpy() for key, value in values.items()}
    np.savez_compressed(path, **numbers)


if __name__ == "__main__":
    main(*sys.argv[1:])
