import keras
import numpy as np
import pytest
from gradients import differentiated

from gsp_tf.layers import L2Normalization, LipschitzNormalization, PixelNormalization


@pytest.mark.parametrize("given", [{"std": 0.0}, {"std": [1.0, -1.0, 1.0]}, {"mean": np.nan}])
def test_pixels_are_not_divided_by_nothing(given):
    with pytest.raises(ValueError, match="mean must be finite and std positive; received"):
        PixelNormalization(**given)


def test_lipschitz_equals_the_authors_layer(oracle):
    case = oracle("lipschitz_normalization")
    y, (gradient,) = differentiated(LipschitzNormalization(), case["x"], upstream=case["up"])
    np.testing.assert_allclose(y, case["y"], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(gradient, case["grad"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "layer",
    [
        L2Normalization,
        LipschitzNormalization,
        lambda: PixelNormalization(np.arange(4.0), np.arange(1, 5)),
    ],
)
def test_save_and_load_under_mixed_precision(tmp_path, layer):
    keras.config.set_dtype_policy("mixed_float16")
    inputs = keras.Input((None, 4))
    model = keras.Model(inputs, layer()(inputs))
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32") * 300
    assert keras.backend.standardize_dtype(model(x).dtype) == "float16"
    assert np.isfinite(model(x)).all()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(x), model(x))
