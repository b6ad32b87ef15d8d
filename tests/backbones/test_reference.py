"""The converted Keras models against PyTorch, by the file of tools/backbones/reference.py."""

from pathlib import Path

import keras
import numpy as np
import pytest
import torch

from gsp_tf import backbones

REFERENCE = np.load(Path(__file__).parent / "reference.npz")
TOLERANCE = 1e-4
ARCHITECTURES = ["bn_inception", "googlenet"]


def maps(architecture, weights, stages, image):
    model = backbones.create(architecture, (None, None, 3), weights=weights)
    outputs = [model.get_layer(stage).output for stage in stages]
    features = keras.Model(model.input, outputs)(image[None])
    return dict(zip(stages, (np.asarray(output[0]) for output in features), strict=True))


@pytest.mark.parametrize("size", [(224, 224), (227, 227), (133, 195)])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_activations_are_those_of_pytorch(reference, converted, architecture, size):
    stages = reference.STAGES[architecture]
    image = reference.random_image(size)
    found = maps(architecture, converted(architecture), stages, image)
    for stage in stages:
        for name, value in reference.sample(found[stage]).items():
            expected = REFERENCE[f"{architecture}/{size[0]}x{size[1]}/{stage}/{name}"]
            np.testing.assert_allclose(
                value, expected, rtol=0, atol=TOLERANCE, err_msg=f"{stage} {name}"
            )


@pytest.mark.parametrize(
    ("architecture", "seed", "size"), [("bn_inception", 1, (67, 99)), ("googlenet", 2, (224, 227))]
)
def test_whole_maps_with_pytorch(tmp_path, reference, architecture, seed, size):
    state = reference.random_state(architecture, seed)
    torch.save({key: torch.from_numpy(value) for key, value in state.items()}, tmp_path / "a.pth")
    weights = tmp_path / "a.weights.h5"
    backbones.convert_weights(tmp_path / "a.pth", architecture, weights)
    image = reference.random_image(size, seed)
    expected = reference.evaluate(architecture, image, seed)
    found = maps(architecture, weights, list(expected), image)
    for stage, value in expected.items():
        np.testing.assert_allclose(found[stage], value, rtol=0, atol=TOLERANCE, err_msg=stage)


def test_the_file_is_that_of_the_tool(reference):
    keys = {
        f"{architecture}/{height}x{width}/{stage}/{name}"
        for architecture, stages in reference.STAGES.items()
        for height, width in reference.SIZES
        for stage in stages
        for name in ("values", "mean_over_places", "mean_over_channels")
    }
    assert set(REFERENCE.files) == keys
    assert all(np.abs(REFERENCE[key]).max() > 0.1 for key in keys)
