"""The poolings without weights, against the layers of the GSP authors."""

import numpy as np
import pytest

from gsp_tf.layers import (
    CrowPooling,
    GeneralizedMaxPooling,
    GeneralizedMeanPooling,
    WeldonPooling,
)


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (CrowPooling(), "crow"),
        (GeneralizedMaxPooling(regularization=1.0), "generalized_max_lambda1"),
        (GeneralizedMeanPooling(p=3.0), "generalized_mean_p3"),
        (WeldonPooling(k_max=3, k_min=3), "weldon_k3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_equals_the_authors_layer(oracle, layer, name):
    values = oracle("pooling")
    np.testing.assert_allclose(layer(values["features"]), values[name], rtol=1e-5, atol=1e-6)
