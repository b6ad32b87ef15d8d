"""The converted Keras models against PyTorch, by the file of tools/backbones/reference.py."""

from pathlib import Path

import keras
import numpy as np
import pytest

REFERENCE = np.load(Path(__file__).parent / "reference.npz")
TOLERANCE = {"rtol": 0, "atol": 1e-4}


@pytest.fixture
def maps(reference, network):
    """Function that gives the maps of a network for an image, by stage."""

    def evaluate(architecture, image):
        model, stages = network(architecture), reference.STAGES[architecture]
        features = keras.Model(model.input, [model.get_layer(x).output for x in stages])(
            image[None]
        )
        return dict(zip(stages, (np.asarray(output[0]) for output in features), strict=True))

    return evaluate


@pytest.mark.parametrize("size", [(224, 224), (227, 227), (133, 195)])
@pytest.mark.parametrize("architecture", ["bn_inception", "googlenet"])
def test_activations_are_those_of_pytorch(reference, maps, architecture, size):
    for stage, found in maps(architecture, reference.random_image(size)).items():
        for name, value in reference.sample(found).items():
            expected = REFERENCE[f"{architecture}/{size[0]}x{size[1]}/{stage}/{name}"]
            np.testing.assert_allclose(value, expected, **TOLERANCE, err_msg=f"{stage} {name}")


@pytest.mark.parametrize(
    ("architecture", "size"), [("bn_inception", (67, 99)), ("googlenet", (99, 67))]
)
def test_whole_maps_with_pytorch(reference, maps, architecture, size):
    image = reference.random_image(size, seed=1)
    found = maps(architecture, image)
    for stage, expected in reference.evaluate(architecture, image).items():
        np.testing.assert_allclose(found[stage], expected, **TOLERANCE, err_msg=stage)
