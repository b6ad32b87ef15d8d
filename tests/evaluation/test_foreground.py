import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gsp_tf.evaluation import foreground_share


def some(shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 1, (3, *shape)), rng.integers(0, 2, (3, 2, 2)).astype(bool)


@pytest.mark.parametrize("side", [2, 8, 14])
def test_sums_over_the_places_of_a_tile(side):
    weights, masks = some((side, side))
    repeated = masks.repeat(side // 2, axis=1).repeat(side // 2, axis=2)
    expected = [w[mask].sum() / w.sum() for w, mask in zip(weights, repeated, strict=True)]
    np.testing.assert_allclose(foreground_share(weights, masks), expected)
    np.testing.assert_allclose(foreground_share(weights, repeated), expected)


@settings(max_examples=25)
@given(
    places=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    pixels=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_resizes_by_area_as_pillow_does(places, pixels):
    rng = np.random.default_rng(0)
    weights, mask = rng.uniform(size=places), rng.integers(0, 2, pixels)
    # Enlarged to a common multiple first: there a box filter is exact.
    fine = mask.repeat(places[0], axis=0).repeat(places[1], axis=1).astype(np.float32)
    areas = np.asarray(Image.fromarray(fine).resize(places[::-1], Image.Resampling.BOX))
    expected = (weights * areas).sum() / weights.sum()
    assert foreground_share(weights[None], mask[None])[0] == pytest.approx(expected, abs=1e-6)


def test_average_pooling_gives_the_share_of_the_area():
    _, masks = some((5, 5))
    np.testing.assert_allclose(
        foreground_share(np.full((3, 5, 5), 1 / 25), masks), masks.mean(axis=(1, 2))
    )


@pytest.mark.parametrize(
    "weights, masks, message",
    [
        (np.ones((2, 2)), np.ones((1, 2, 2)), r"received \(2, 2\) and \(1, 2, 2\)"),
        (np.ones((2, 2, 2)), np.ones((1, 2, 2)), "of the same images"),
        (-np.ones((1, 2, 2)), np.ones((1, 2, 2)), "not negative"),
        (np.full((1, 2, 2), np.nan), np.ones((1, 2, 2)), "finite"),
        (np.zeros((1, 2, 2)), np.ones((1, 2, 2)), "those of 1 images have none"),
        (np.ones((1, 2, 2)), np.full((1, 2, 2), 255), "from 255.0 to 255.0"),
    ],
)
def test_refuses(weights, masks, message):
    with pytest.raises(ValueError, match=message):
        foreground_share(weights, masks)
