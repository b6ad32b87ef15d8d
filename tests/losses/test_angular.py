import numpy as np
import pytest
from scipy.special import logsumexp

from gsp_tf.losses import AngularLoss


@pytest.mark.parametrize(
    ("angle", "norm"), [(10.0, 1.0), (45.0, 1.0), (75.0, 1.0), (83.0, 1.0), (45.0, 9.0)]
)
def test_float32_holds_large_angles_and_long_embeddings(angle, norm):
    rng = np.random.default_rng(0)
    labels, x = np.arange(32) // 4, rng.normal(size=(32, 8)).astype("float32")
    x *= norm / np.linalg.norm(x, axis=1, keepdims=True)
    similarities, terms = x.astype("float64") @ x.T, []
    square_tangent = np.tan(np.radians(angle)) ** 2
    for a, p in np.argwhere(labels[:, None] == labels):
        if a != p:
            others = labels != labels[a]
            toward = 4 * square_tangent * (similarities[a, others] + similarities[p, others])
            apart = 2 * (1 + square_tangent) * similarities[a, p]
            terms.append(np.logaddexp(0, logsumexp(toward) - apart))
    value = AngularLoss(angle, normalize=norm == 1)(labels, x)
    assert float(value) == pytest.approx(np.mean(terms), rel=1e-5)
