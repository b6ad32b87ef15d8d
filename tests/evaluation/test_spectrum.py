import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from gsp_tf.evaluation import spectral_decay


@pytest.mark.equation("CRT", "7", "evaluation.spectral_decay")
@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), dim=st.integers(1, 8))
def test_equals_definition(seed, dim):
    rng = np.random.default_rng(seed)
    embeddings = (rng.normal(size=(25, dim)) * rng.uniform(0.1, 2, dim)).astype(np.float32)
    unit = embeddings.astype(float) / np.linalg.norm(embeddings.astype(float), axis=1)[:, None]
    spectrum = np.sqrt(np.linalg.eigvalsh(unit.T @ unit))
    expected = entropy(np.full(dim, 1 / dim), spectrum / spectrum.sum())
    assert spectral_decay(embeddings) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "embeddings",
    [
        np.random.default_rng(0).normal(size=(3, 4)),
        np.random.default_rng(0).normal(size=(50, 2))[:, [0, 1, 1]],
        np.tile([[0.3, 0.7]], (9, 1)),
        np.zeros((5, 2)),
        np.zeros((1, 1)),
    ],
)
def test_infinite_without_all_dimensions(embeddings):
    assert spectral_decay(embeddings) == math.inf


def test_zero_vectors_do_not_count():
    embeddings = np.random.default_rng(0).normal(size=(20, 4))
    padded = np.concatenate([embeddings, np.zeros((7, 4))])
    assert spectral_decay(padded) == pytest.approx(spectral_decay(embeddings), abs=1e-12)
