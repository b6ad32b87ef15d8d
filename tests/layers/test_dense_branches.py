import keras
import numpy as np
import pytest
from local_maps import features_like

from gsp_tf.layers import DenseBranches
from gsp_tf.losses import similarity_consistency


def test_gives_both_products_and_their_consistency_in_training_alone():
    layer = DenseBranches((3, 5), consistency_weight=0.7)
    features = features_like((6, 4))
    first, second = layer(features, training=True)
    np.testing.assert_allclose(first, features @ layer.first.kernel, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second, features @ layer.second.kernel, rtol=1e-5, atol=1e-6)
    (loss,) = layer.losses
    expected = 0.7 * float(similarity_consistency(first, second))
    assert float(loss) == pytest.approx(expected, rel=1e-6) and expected > 0
    layer(features)
    assert layer.losses == []
    assert layer.compute_output_shape((None, 4)) == ((None, 3), (None, 5))


def test_saved_model_and_config(tmp_path):
    inputs = keras.Input((4,))
    layer = DenseBranches((3, 5), 0.2, dtype="mixed_bfloat16", name="branches")
    model = keras.Model(inputs, layer(inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    features = features_like((6, 4))
    for value, expected in zip(loaded(features), model(features), strict=True):
        assert keras.backend.standardize_dtype(value.dtype) == "bfloat16"
        np.testing.assert_array_equal(value, expected)
    assert DenseBranches.from_config(layer.get_config()).get_config() == layer.get_config()
