import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from gsp_tf.evaluation import spectral_decay


def test_by_hand():
    # Nine embeddings along one axis and one along the other: singular values 3 and 1.
    expected = (math.log((1 / 2) / (3 / 4)) + math.log((1 / 2) / (1 / 4))) / 2
    embeddings = [[2.0, 0.0]] * 5 + [[-1.0, 0.0]] * 4 + [[0.0, 7.0]]
    assert spectral_decay(embeddings) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), dim=st.integers(1, 8))
def test_equals_definition(seed, dim):
    rng = np.random.default_rng(seed)
    embeddings = (rng.normal(size=(25, dim)) * rng.uniform(0.1, 2, dim)).astype(np.float32)
    unit = embeddings.astype(float) / np.linalg.norm(embeddings.astype(float), axis=1)[:, None]
    spectrum = np.sqrt(np.linalg.eigvalsh(unit.T @ unit))
    expected = entropy(np.full(dim, 1 / dim), spectrum / spectrum.sum())
    assert spectral_decay(embeddings) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), copies=st.integers(1, 3))
def test_rotation_order_lengths_and_copies_do_not_matter(seed, copies):
    rng = np.random.default_rng(seed)
    embeddings = rng.normal(size=(20, 4)) + 0.5
    rotation, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    moved = rng.permutation(embeddings @ rotation * rng.uniform(1e-3, 1e3, (20, 1)))
    moved = np.tile(moved, (copies, 1))
    assert spectral_decay(moved) == pytest.approx(spectral_decay(embeddings), rel=1e-4)


@pytest.mark.parametrize("scale", [1e-38, 1e37])
def test_extreme_scales(scale):
    embeddings = np.random.default_rng(0).normal(size=(20, 4))
    expected = pytest.approx(spectral_decay(embeddings), rel=1e-5)
    assert spectral_decay(embeddings * scale) == expected


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
