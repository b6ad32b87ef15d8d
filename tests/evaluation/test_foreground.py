import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gsp_tf.evaluation import foreground_share


@settings(max_examples=25)
@given(
    places=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    pixels=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_resizes_by_area_as_pillow_does(places, pixels):
    rng = np.random.default_rng(0)
    weights, masks = rng.uniform(size=(2, *places)), rng.integers(0, 2, (2, *pixels))
    for of, mask, found in zip(weights, masks, foreground_share(weights, masks), strict=True):
        # Enlarged to a common multiple first: there a box filter is exact.
        fine = mask.repeat(places[0], axis=0).repeat(places[1], axis=1).astype(np.float32)
        areas = np.asarray(Image.fromarray(fine).resize(places[::-1], Image.Resampling.BOX))
        assert found == pytest.approx((of * areas).sum() / of.sum(), abs=1e-6)
