import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.evaluation import covering_radius_curve


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), count=st.sampled_from([1, 5, 30]))
def test_every_centre_is_the_point_farthest_from_those_before(seed, count):
    points = np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32).astype(float)
    apart, expected = np.full(count, np.inf), []
    for _ in range(count):
        centre = points[apart.argmax()]
        apart = np.minimum(apart, np.linalg.norm(points - centre, axis=1))
        expected.append(apart.max())
    assert expected[-1] == 0
    np.testing.assert_allclose(covering_radius_curve(points, count), expected, atol=1e-12)
