"""Miners of pytorch-metric-learning, on the batches of `tools/pml/miners.py`."""

from functools import partial

import numpy as np
import pytest
from gradients import at_once, value_and_gradients
from keras import ops
from loss_examples import pairs_of
from pml_batches import BATCHES, batches_of, same

from gsp_tf import losses

MINERS = {
    "angular_33": partial(losses.AngularMiner, 33.0),
    "batch_easy_hard": losses.BatchEasyHardMiner,
    "batch_easy_hard_all_hard": partial(losses.BatchEasyHardMiner, "all", "hard"),
    "batch_easy_hard_easy_all": partial(losses.BatchEasyHardMiner, "easy", "all"),
    "batch_easy_hard_hard_easy": partial(losses.BatchEasyHardMiner, "hard", "easy"),
    "batch_easy_hard_semi_hard": partial(losses.BatchEasyHardMiner, "semi_hard", "hard"),
    "batch_easy_hard_semi_easy": partial(losses.BatchEasyHardMiner, "semi_hard", "easy"),
    "batch_easy_hard_within": partial(
        losses.BatchEasyHardMiner, "hard", "semi_hard", (0.5, 2.2), (1.1, 3.1)
    ),
    "batch_hard": losses.BatchHardMiner,
    "hdc_0.15": partial(losses.HDCMiner, 0.15),
    "multi_similarity_0.7": partial(losses.MultiSimilarityMiner, 0.7),
    "pair_margin_1.7_2.1": partial(losses.PairMarginMiner, 1.7, 2.1),
    "triplet_margin": losses.TripletMarginMiner,
    "triplet_margin_1_hard": partial(losses.TripletMarginMiner, 1.0, "hard"),
    "triplet_margin_1_semi_hard": partial(losses.TripletMarginMiner, 1.0, "semi_hard"),
    "triplet_margin_0.4_easy": partial(losses.TripletMarginMiner, 0.4, "easy"),
    "triplet_margin_-0.3": partial(losses.TripletMarginMiner, -0.3),
    "uniform_histogram_4": partial(losses.UniformHistogramMiner, 4, 3.0, 20.0),
}
OF_TRIPLETS = [key for key in MINERS if key.startswith(("angular", "triplet"))]
LOSSES = {
    "contrastive": partial(losses.ContrastiveLoss, 0.1, 1.3),
    "margin": partial(losses.MarginLoss, 0.3, 1.1),
    "nt_xent": partial(losses.NTXentLoss, 0.5),
    "triplet": partial(losses.TripletLoss, 0.3),
    "triplet_swap": partial(losses.TripletLoss, 0.3, swap=True),
}
IN_LOSSES = {
    "batch_hard": MINERS["batch_hard"],
    "pair_margin": partial(losses.PairMarginMiner, 0.7, 1.3),
    "triplet_margin_semi_hard": partial(losses.TripletMarginMiner, 0.4, "semi_hard"),
}
DRAWS = 300


def mined(miner, labels, embeddings):
    """Weights of positives and negatives, and the distances."""

    def run(labels, embeddings):
        pairs = pairs_of(embeddings, labels)
        return *miner(pairs), pairs.distances

    tensors = ops.convert_to_tensor(labels), ops.convert_to_tensor(embeddings)
    return [np.asarray(x) for x in at_once(run)(*tensors)]


@pytest.mark.parametrize("key", MINERS)
def test_equals_pytorch_metric_learning(oracle, key):
    case = oracle("miners")
    num_chosen = 0
    for number, (name, labels, embeddings, _) in enumerate(batches_of(case)):
        *weights, distances = mined(MINERS[key](), labels, embeddings)
        size = len(labels)
        for ours, theirs in zip(weights, case[f"{key}/pairs"][number], strict=True):
            theirs = theirs[:size, :size]
            num_chosen += theirs.sum()
            if key.startswith("uniform"):
                # Each pair is drawn so often in a mean of many draws of a bin.
                assert ours.sum() == pytest.approx(theirs.sum(), rel=1e-5)
                np.testing.assert_array_equal(theirs[ours == 0], 0)
                deviation = np.sqrt(np.maximum(ours, 1e-9) / DRAWS)
                assert (np.abs(ours - theirs) < 5 * deviation + 1e-5).all(), name
                continue
            # Of equally far samples they take one, and here they share its weight.
            rows = [...] if key.startswith("hdc") else range(size)
            for row in rows:
                for far in np.unique(distances[row].round(9)):
                    equal = np.abs(distances[row] - far) < 1e-8
                    assert ours[row][equal].sum() == pytest.approx(theirs[row][equal].sum()), name
    assert num_chosen > 50


@pytest.mark.parametrize("key", OF_TRIPLETS)
def test_triplets_equal_those_of_pytorch_metric_learning(oracle, key):
    case = oracle("miners")
    for number, (name, labels, embeddings, _) in enumerate(batches_of(case)):
        if name not in ("random", "ties", "singles"):
            continue
        pairs, size = pairs_of(embeddings, labels), len(labels)
        pairs.is_triplet = MINERS[key]().chosen(pairs)
        expected = np.zeros((size, size, size))
        of_batch = case[f"{key}/triplets"][:, 0] == number
        expected[tuple(case[f"{key}/triplets"][of_batch, 1:].T)] = 1
        for positive in range(size):
            columns = ops.full((size, 1), positive, dtype="int32")
            found = np.asarray(pairs.triplets(columns))
            np.testing.assert_array_equal(found, expected[:, positive], name)


@pytest.mark.parametrize("key", IN_LOSSES)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_counts_what_the_miner_chose(oracle, loss, key):
    case, compared = oracle("miners"), 0
    values, gradients = (case[f"{loss}/{key}/{kind}"] for kind in ("values", "gradients"))
    for number, (name, labels, embeddings, rows) in enumerate(batches_of(case)):
        if name not in ("random", "singles", "square") or not np.isfinite(values[number]):
            continue
        compared += 1
        miner = IN_LOSSES[key]()
        value, gradient = value_and_gradients(LOSSES[loss](miner=miner), labels, embeddings)
        same(value, values[number], 1e-7)
        same(gradient, gradients[rows], 1e-5)
    assert compared == 3 and len(BATCHES) == len(values)
