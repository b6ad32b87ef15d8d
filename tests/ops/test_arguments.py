"""What the functions of ops refuse."""

import numpy as np
import pytest

from gsp_tf import ops

EXPORTED = {name: getattr(ops, name) for name in ops.__all__}
EYE, COSTS, NAN = np.eye(3), np.ones((1, 2, 3), "float32"), float("nan")

REFUSED = {
    "pairwise_distances(np.ones((2, 3)), np.ones((2, 4)))":
        r"same D, received shapes \(2, 3\) and \(2, 4\)",
    "greedy_k_center(np.ones((3, 2)), np.ones((1, 2)), 4)":
        r"can choose 1 to 3 of a pool \(3, 2\), received k=4",
    "greedy_k_center(np.ones((3, 2)), np.ones((1, 2)), 2.0)":
        "k must be an integer of at least 1, received 2.0",
    "ridge_regression(EYE, EYE, NAN)": "ridge must be positive and finite",
    "label_relation([0, 1], [0, 1], 'any')":
        r"relation any is one of label vectors .*received \(2,\) and \(2,\)",
    "label_relation(EYE, EYE, 'equal')": r"relation equal is one of labels \(a,\) and \(b,\)",
    "label_relation(EYE, EYE, None)":
        "relation must be one of equal, any, jaccard, cosine, or a function",
    "label_relation(EYE, EYE, lambda x, y: np.ones(3))":
        r"must have the shape \(3, 3\), received \(3,\)",
    "label_relation(EYE, EYE, lambda x, y: NAN * EYE)": "must lie in 0 to 1, received nan",
    "generalized_sum_pooling(COSTS, np.ones((2, 3)), 0.3, 5.0, 'exact')": "received 'exact'",
    "partial_transport(COSTS, 0.3, 5.0, solver='sinkhorn')":
        "must be one of newton, fixed_point, received 'sinkhorn'",
    "partial_transport(COSTS, 0.3, float('inf'))":
        "entropy_smoothing must be positive and finite, received inf",
    "partial_transport(COSTS, NAN, 5.0)": r"transport_ratio must lie in \(0, 1\], received nan",
    "partial_transport(COSTS, 0.3, 5.0, max_iterations=0)": "must be an integer of at least 1",
    "partial_set_transport(COSTS, 0.0, 5.0)":
        r"transport_ratio must lie in \(0, 1\], received 0.0",
    "partial_set_transport(COSTS, 0.3, 5.0, max_iterations=0)": "must be an integer of at least 1",
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_refuses_arguments(call):
    with pytest.raises(ValueError, match=REFUSED[call]):
        eval(call, EXPORTED | globals())
