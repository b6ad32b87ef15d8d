"""What the functions of ops refuse."""

import numpy as np
import pytest

from gsp_tf import ops

EXPORTED = {name: getattr(ops, name) for name in ops.__all__}
EYE, COSTS, NAN = np.eye(3), np.ones((1, 2, 3), "float32"), float("nan")
UNKNOWN = "relation must be one of equal, any, jaccard, cosine, or a function"

REFUSED = {
    "pairwise_distances(np.ones((2, 3)), np.ones((2, 4)))":
        r"same D, received shapes \(2, 3\) and \(2, 4\)",
    "pairwise_distances(np.ones(3), np.ones(3))": r"same D, received shapes \(3,\) and \(3,\)",
    **{f"greedy_k_center(np.ones((3, 2)), np.ones((1, 2)), {k})":
       message for k, message in {
           "4": r"can choose 1 to 3 of a pool \(3, 2\), received k=4",
           "0": "k must be an integer of at least 1, received 0",
           "2.0": "k must be an integer of at least 1, received 2.0"}.items()},
    **{f"ridge_regression(EYE, EYE, {ridge})": "ridge must be positive and finite"
       for ridge in ("0.0", "-1.0", "NAN", "float('inf')")},
    "label_relation([0, 1], [0, 1], 'any')":
        r"relation any is one of label vectors .*received \(2,\) and \(2,\)",
    "label_relation(EYE, EYE, 'equal')": r"relation equal is one of labels \(a,\) and \(b,\)",
    "label_relation(EYE, EYE, 'all')": UNKNOWN,
    "label_relation(EYE, EYE, None)": UNKNOWN,
    "label_relation(EYE, EYE, lambda x, y: np.ones((3, 2)))":
        r"must have the shape \(3, 3\), received \(3, 2\)",
    "label_relation(EYE, EYE, lambda x, y: np.ones(3))":
        r"must have the shape \(3, 3\), received \(3,\)",
    "label_relation(EYE, EYE, lambda x, y: 0 * EYE - 0.5)": "must lie in 0 to 1, received -0.5",
    "label_relation(EYE, EYE, lambda x, y: NAN * EYE)": "must lie in 0 to 1, received nan",
    "generalized_sum_pooling(COSTS, np.ones((2, 3)), 0.3, 5.0, 'exact')": "received 'exact'",
    "partial_transport(COSTS, 0.3, 5.0, solver='sinkhorn')":
        "must be one of newton, fixed_point, received 'sinkhorn'",
    "partial_transport(COSTS, 0.3, 0.0)":
        "entropy_smoothing must be positive and finite, received 0.0",
    "partial_transport(COSTS, 0.3, float('inf'))": "received inf",
    "partial_transport(COSTS, 1.5, 5.0)": "received 1.5",
    "partial_transport(COSTS, NAN, 5.0)": "received nan",
}  # fmt: skip
for function in ("partial_transport(COSTS, ", "partial_set_transport(COSTS, "):
    REFUSED[function + "0.0, 5.0)"] = r"transport_ratio must lie in \(0, 1\], received 0.0"
    REFUSED[function + "0.3, -1.0)"] = "entropy_smoothing must be positive and finite, received -1"
    REFUSED[function + "0.3, 5.0, max_iterations=0)"] = "must be an integer of at least 1, received"


@pytest.mark.parametrize("call", REFUSED)
def test_refuses_arguments(call):
    with pytest.raises(ValueError, match=REFUSED[call]):
        eval(call, EXPORTED | globals())
