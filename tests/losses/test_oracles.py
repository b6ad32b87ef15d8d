from functools import partial

import numpy as np
import pytest
from gradients import value_and_gradient

from gsp_tf import losses

# The GSP and CCP authors' code, and TensorFlow Addons; neither normalises the embeddings.
AUTHORS = {
    "contrastive_c2_0_0.3841": partial(losses.ContrastiveLoss, 0.0, 0.3841),
    "contrastive_c2_0.2652_0.5409": partial(losses.ContrastiveLoss, 0.2652, 0.5409),
    "contrastive_c1_0.5": partial(losses.CosineContrastiveLoss, 0.5),
    "triplet_0.0961": partial(losses.TripletLoss, 0.0961),
    "multi_similarity_2_40_0.5": partial(losses.MultiSimilarityLoss, 2.0, 40.0, 0.5),
    "multi_similarity_14.35_75.83_0.66": partial(losses.MultiSimilarityLoss, 14.35, 75.83, 0.66),
}
ADDONS = {"lifted_struct_1.0": partial(losses.LiftedStructureLoss, 1.0)}
DISTANCES = {"L2": "euclidean", "squared-L2": "squared_euclidean", "angular": "angular"}
for theirs, ours in DISTANCES.items():
    ADDONS[f"triplet_semihard_1.0_{theirs}"] = partial(losses.TripletSemiHardLoss, 1.0, ours)
    ADDONS[f"triplet_hard_1.0_{theirs}"] = partial(losses.TripletHardLoss, 1.0, ours)
PYTORCH_METRIC_LEARNING = {
    "contrastive_0_0.3841": losses.ContrastiveLoss(0.0, 0.3841),
    "contrastive_0.2652_0.5409": losses.ContrastiveLoss(0.2652, 0.5409),
    "triplet_margin_0.0961": losses.TripletLoss(0.0961),
    "multi_similarity_2_40_0.5": losses.MultiSimilarityLoss(2.0, 40.0, 0.5),
    "multi_similarity_14.35_75.83_0.66": losses.MultiSimilarityLoss(14.35, 75.83, 0.66),
    "margin_0.2_beta1.2": losses.MarginLoss(0.2, 1.2),
    "n_pairs": losses.NPairsLoss(),
    "lifted_structure_0_1": losses.LiftedStructureLoss(1.0),
    "angular_40": losses.AngularLoss(40.0),
    "circle_0.4_80": losses.CircleLoss(0.4, 80.0),
    "supcon_0.1": losses.SupervisedContrastiveLoss(0.1),
    "fast_ap_10": losses.FastAPLoss(10),
}
CASES = [("pml", key, loss) for key, loss in PYTORCH_METRIC_LEARNING.items()]
CASES += [("original", key, make(normalize=False)) for key, make in AUTHORS.items()]
CASES += [("addons", key, make(normalize=False)) for key, make in ADDONS.items()]


@pytest.mark.parametrize(("name", "key", "loss"), CASES, ids=["-".join(case[:2]) for case in CASES])
def test_equals_other_programs(oracle, name, key, loss):
    case = oracle(f"losses_{name}")
    embeddings, expected, expected_gradient = (
        case[k].astype("float64") for k in ("embeddings", f"{key}_loss", f"{key}_grad")
    )
    if key == "contrastive_c1_0.5":
        # The authors take 1e-5 from every positive term of an anchor before they sum.
        positives = np.sum(case["labels"][:, None] == case["labels"], axis=1) - 1
        expected = expected + 1e-5 * np.mean(positives)
    value, gradient = value_and_gradient(loss, case["labels"], case["embeddings"])
    assert float(value) == pytest.approx(expected, rel=2e-4)
    if key == "angular_40":
        # There the negatives are not normalised, so that their gradient has a radial part.
        unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
        radial = np.sum(expected_gradient * unit, axis=1, keepdims=True) * unit
        assert np.abs(radial).max() > 1e-3
        expected_gradient = expected_gradient - radial
    tolerance = 2e-5 * np.abs(expected_gradient).max()
    np.testing.assert_allclose(gradient, expected_gradient, rtol=2e-3, atol=tolerance)
