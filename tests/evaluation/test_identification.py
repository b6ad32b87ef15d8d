import numpy as np
import pytest

from gsp_tf.evaluation import open_set_identification


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_equals_the_definition(metric):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(30, 5))
    gallery, probes = np.arange(20), rng.integers(0, 30, 300)
    references = centres[gallery] + 0.3 * rng.normal(size=(20, 5))
    queries = centres[probes] + 0.3 * rng.normal(size=(300, 5))
    distances = np.linalg.norm(queries[:, None] - references, axis=-1)
    if metric == "cosine":
        lengths = (np.linalg.norm(x, axis=1) for x in (queries, references))
        distances = 1 - queries @ references.T / np.multiply.outer(*lengths)
    nearest, known = distances.min(axis=1), probes < 20
    right = known & (gallery[distances.argmin(axis=1)] == probes)
    rates = (0.02, 0.1, 1.0)
    found = open_set_identification(
        queries, probes, references, gallery, rates, metric, num_resamples=300
    )
    assert found["rank_1"].value == pytest.approx(right.sum() / known.sum(), abs=1e-12)
    for rate in rates:
        allowed = int(rate * (~known).sum())
        # The first false alarm too many.
        limit = np.append(np.sort(nearest[~known]), np.inf)[allowed]
        expected = (right & (nearest < limit)).sum() / known.sum()
        value, low, high = found[f"dir_at_far_{rate:g}"]
        assert value == pytest.approx(expected, abs=1e-12) and low < value < high
        threshold = found[f"threshold_at_far_{rate:g}"].value
        assert threshold == pytest.approx(nearest[nearest < limit].max(), rel=1e-5)


def test_too_few_classes_of_a_kind_have_no_interval():
    rng = np.random.default_rng(0)
    labels = np.arange(100) % 10
    queries = rng.normal(size=(100, 3))
    for known in (4, 5, 6):  # and 6, 5, 4 others
        references = rng.normal(size=(known, 3)), np.arange(known)
        found = open_set_identification(queries, labels, *references, [0.1], num_resamples=50)
        assert {bool(np.isnan(of.low)) for of in found.values()} == {known != 5}
