"""What the functions of visual refuse."""

import numpy as np
import pytest

from gsp_tf import visual

EXPORTED = {name: getattr(visual, name) for name in visual.__all__}
EYE, LABELS = np.eye(2), np.arange(50) % 4
IMAGE, IMAGES = np.zeros((30, 20, 1), np.uint8), np.zeros((2, 30, 20, 1), np.uint8)
UINT8 = r"uint8 of shape \(H, W, 1\) or \(H, W, 3\)"
FINITE = r"finite \(N, h, w, K\) of the 2 images; received shape"
REFUSED = {
    "overlay_weights(IMAGE, np.ones(4))": r"shape \(4,\)",
    **{f"overlay_weights(IMAGE, [[1.0, {value}]])": "1 negative or not finite values"
       for value in ("-1.0", "np.nan")},
    "overlay_weights(IMAGE, [[0.0, 0.0]])": "positive sum",
    "overlay_weights(IMAGE / 255, EYE)": UINT8,
    "overlay_weights(IMAGE[..., 0], EYE)": UINT8,
    "overlay_groups(IMAGE, np.ones((4, 3)))": r"\(h, w, groups\); received shape",
    "dominant_prototypes(IMAGE[None], np.ones((2, 2, 2, 3)))": "of the 1 images; received",
    "dominant_prototypes(IMAGE[None], -np.ones((1, 2, 2, 3)))": "not negative",
    "dominant_prototypes(IMAGE[None], np.zeros((1, 2, 2, 3)))": "positive sums",
    "project([[0.0, 1.0], [np.nan, 0.0]])": "1 of 2 rows hold NaN or infinity",
    "class_hulls(np.eye(3), [0, 1, 2])": r"be finite \(N, 2\); received shape \(3, 3\)",
    "class_hulls([[0, np.nan]], [0])": "points must be finite",
    "class_hulls(EYE, [0])": "received 2 points and labels of shape",
    "class_hulls(EYE, [0, 1], EYE)": "must be given together",
    "class_hulls(EYE, [0, 1], EYE, [0])": "received 2 features and labels",
    "attribute_histograms(np.ones(50), LABELS, list('abcd'))": r"\(50,\) and 50 labels",
    "attribute_histograms(np.ones((50, 1)), LABELS, list('abcd'), [7])": r"received \[7\]",
    "partition_maps(IMAGES, np.zeros((1, 2, 2), int))": r"\(N, h, w\) of the 2 images; received",
    "partition_maps(IMAGES, np.full((2, 2, 2), -1))": "non-negative",
    "partition_maps(IMAGES, np.zeros((2, 2, 2)))": "integers; received dtype",
    "correlation_maps(IMAGES, np.zeros((1, 3, 3, 2)))": FINITE,
    "correlation_maps(IMAGES, np.full((2, 3, 3, 1), np.nan))": FINITE,
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_refuses_arguments(call):
    with pytest.raises((ValueError, TypeError), match=REFUSED[call]):
        eval(call, EXPORTED | globals())
