import numpy as np
import pytest
from gradients import value_and_gradient

from gsp_tf import losses

CASES = [
    # The GSP and CCP authors' code.
    ("original", "contrastive_c2_0_0.3841", losses.ContrastiveLoss(0.0, 0.3841, normalize=False)),
    (
        "original",
        "contrastive_c2_0.2652_0.5409",
        losses.ContrastiveLoss(0.2652, 0.5409, normalize=False),
    ),
    ("original", "contrastive_c1_0.5", losses.CosineContrastiveLoss(0.5, normalize=False)),
    ("original", "triplet_0.0961", losses.TripletLoss(0.0961, normalize=False)),
    (
        "original",
        "multi_similarity_2_40_0.5",
        losses.MultiSimilarityLoss(2.0, 40.0, 0.5, normalize=False),
    ),
    (
        "original",
        "multi_similarity_14.35_75.83_0.66",
        losses.MultiSimilarityLoss(14.35, 75.83, 0.66, normalize=False),
    ),
    # pytorch-metric-learning.
    ("pml", "contrastive_0_0.3841", losses.ContrastiveLoss(0.0, 0.3841)),
    ("pml", "contrastive_0.2652_0.5409", losses.ContrastiveLoss(0.2652, 0.5409)),
    ("pml", "triplet_margin_0.0961", losses.TripletLoss(0.0961)),
    ("pml", "multi_similarity_2_40_0.5", losses.MultiSimilarityLoss(2.0, 40.0, 0.5)),
    ("pml", "multi_similarity_14.35_75.83_0.66", losses.MultiSimilarityLoss(14.35, 75.83, 0.66)),
    ("pml", "margin_0.2_beta1.2", losses.MarginLoss(0.2, 1.2)),
    ("pml", "n_pairs", losses.NPairsLoss()),
    ("pml", "lifted_structure_0_1", losses.LiftedStructureLoss(1.0)),
    ("pml", "angular_40", losses.AngularLoss(40.0)),
    ("pml", "circle_0.4_80", losses.CircleLoss(0.4, 80.0)),
    ("pml", "supcon_0.1", losses.SupervisedContrastiveLoss(0.1)),
    ("pml", "fast_ap_10", losses.FastAPLoss(10)),
    # TensorFlow Addons.
    ("addons", "lifted_struct_1.0", losses.LiftedStructureLoss(1.0, normalize=False)),
]
for theirs, ours in (
    ("L2", "euclidean"),
    ("squared-L2", "squared_euclidean"),
    ("angular", "angular"),
):
    CASES += [
        (
            "addons",
            f"triplet_semihard_1.0_{theirs}",
            losses.TripletSemiHardLoss(1.0, ours, normalize=False),
        ),
        (
            "addons",
            f"triplet_hard_1.0_{theirs}",
            losses.TripletHardLoss(1.0, ours, normalize=False),
        ),
    ]


@pytest.mark.parametrize(("name", "key", "loss"), CASES, ids=["-".join(case[:2]) for case in CASES])
def test_equals_other_programs(oracle, name, key, loss):
    case = oracle(f"losses_{name}")
    embeddings, expected, expected_gradient = (
        case[k].astype("float64") for k in ("embeddings", f"{key}_loss", f"{key}_grad")
    )
    if key == "contrastive_c1_0.5":
        # The authors take 1e-5 from every positive term of an anchor before they sum.
        expected = expected + 1e-5 * mean_number_of_positives(case["labels"])
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


def mean_number_of_positives(labels):
    return np.mean(np.sum(labels[:, None] == labels[None, :], axis=1) - 1)
