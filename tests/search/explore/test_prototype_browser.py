import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsp_tf.runs import evaluation_batches, features_model, load_splits
from gsp_tf.search.explore._model_view import PrototypeBrowser, window_around
from gsp_tf.search.explore._searched import NoImages


def test_the_strongest_patches_are_those_of_a_whole_search(model, view, test_images):
    test = load_splits(model.recipe).test
    images = np.concatenate([images for images, _ in evaluation_batches(model.recipe, test)])
    features, pooling = features_model(model.embedder)
    shares = np.asarray(pooling.attribute_maps(features(images)))  # of places in the prototypes
    told = []
    browser = PrototypeBrowser(view, test_images, lambda *numbers: told.append(numbers))
    assert browser.num_images == len(images) == 24 and told == [(0, 24), (16, 24)]
    np.testing.assert_allclose(browser.means, shares.sum(axis=(1, 2)).mean(axis=0), rtol=1e-4)
    for prototype in range(4):
        every = [(shares[*place, prototype], *place) for place in np.ndindex(shares.shape[:3])]
        best = {}
        for share, i, row, column in sorted(every, reverse=True):
            best.setdefault(i, (share, row, column))
        found = browser.patches(prototype, count=5)
        expected = sorted((share for share, *_ in best.values()), reverse=True)[:5]
        np.testing.assert_allclose([patch.share for patch in found], expected, rtol=1e-4)
        for patch in found:
            (i,) = [i for i, path in enumerate(test.paths) if path.endswith(patch.name)]
            assert patch.label == test.class_names[test.labels[i]]
            np.testing.assert_allclose(patch.image, images[i], atol=0.51)
            row, column = patch.cell[0] * shares.shape[1], patch.cell[1] * shares.shape[2]
            at_cell = shares[i, round(row), round(column), prototype]
            np.testing.assert_allclose(at_cell, patch.share, rtol=1e-4)


def test_an_empty_sample_is_refused(view):
    with pytest.raises(ValueError, match="None of the images can be read"):
        PrototypeBrowser(view, NoImages("none"))


@given(st.integers(1, 30), st.integers(1, 30), st.data())
def test_a_window_is_a_square_within_the_image_around_its_cell(height, width, data):
    row, column = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    cell = (row / height, column / width, 1 / height, 1 / width)
    top, left, high, wide = window_around(cell)
    assert high == wide >= min(1, max(3 / height, 3 / width, 0.25))
    assert -1e-9 <= top <= cell[0] + 1e-9 and -1e-9 <= left <= cell[1] + 1e-9
    assert cell[0] + cell[2] - 1e-9 <= top + high <= 1 + 1e-9
    assert cell[1] + cell[3] - 1e-9 <= left + wide <= 1 + 1e-9
