import numpy as np
import pytest

from gsp_tf.losses import AngularLoss


@pytest.mark.parametrize(
    ("angle", "norm"), [(10.0, 1.0), (45.0, 1.0), (75.0, 1.0), (83.0, 1.0), (45.0, 9.0)]
)
def test_float32_holds_large_angles_and_long_embeddings(angle, norm):
    labels, x = np.arange(32) // 4, np.random.default_rng(0).normal(size=(32, 8)).astype("float32")
    x *= norm / np.linalg.norm(x, axis=1, keepdims=True)
    loss = AngularLoss(angle, normalize=norm == 1)
    single, double = (float(loss(labels, x.astype(dtype))) for dtype in ("float32", "float64"))
    assert single == pytest.approx(double, rel=1e-5)
