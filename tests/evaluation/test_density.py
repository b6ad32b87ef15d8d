import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.evaluation import embedding_density, geometry


def by_definition(embeddings, labels, distance=lambda a, b: np.linalg.norm(a - b)):
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    intra, centres = [], []
    for label in sorted(set(labels)):
        images = unit[labels == label]
        centres.append(images.mean(axis=0))
        pairs = itertools.combinations(images, 2)
        if len(images) > 1:
            intra.append(np.mean([distance(a, b) for a, b in pairs]))
    inter = np.mean([distance(a, b) for a, b in itertools.combinations(centres, 2)])
    return {"intra": np.mean(intra), "inter": inter, "ratio": np.mean(intra) / inter}


def cosine(a, b):
    return 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def random_classes(seed, classes=3, count=20, dim=4):
    rng = np.random.default_rng(seed)
    labels = np.r_[0, 0, 1, rng.integers(0, classes, count - 3)]
    return rng.normal(size=(count, dim)), labels, rng


@pytest.mark.equation(
    "CRT", "6", "evaluation.embedding_density", "the paper names no distance; Euclidean or cosine"
)
@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 12), dim=st.integers(1, 6))
def test_equals_definition(seed, classes, dim):
    embeddings, labels, _ = random_classes(seed, classes, dim=dim + 1)
    expected = by_definition(embeddings.astype(np.float32).astype(float), labels)
    assert embedding_density(embeddings, labels) == pytest.approx(expected, abs=1e-7)
    expected = by_definition(embeddings.astype(np.float32).astype(float), labels, cosine)
    given = embedding_density(embeddings, labels, distance="cosine")
    assert given == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("dim", range(60, 70))
def test_collapse(dim):
    # For some of these dimensions, dot products and means of equal directions do not come out
    # equal, and distances between them not zero.
    classes, labels = np.random.default_rng(0).normal(size=(3, dim)), np.arange(30) % 3
    collapsed_classes = embedding_density(classes[labels], labels)
    assert (collapsed_classes["intra"], collapsed_classes["ratio"]) == (0.0, 0.0)
    assert collapsed_classes["inter"] > 1.0
    everything = embedding_density(np.tile(classes[0], (30, 1)), labels)
    assert (everything["intra"], everything["inter"]) == (0.0, 0.0)
    assert math.isnan(everything["ratio"])


def test_blocks_bound_the_memory_and_change_nothing(monkeypatch):
    # All distances within the larger class at once would take 50 MB.
    embeddings = np.random.default_rng(0).normal(size=(2600, 3))
    labels = np.arange(2600) < 2500
    whole = embedding_density(embeddings, labels.astype(int))
    monkeypatch.setattr(geometry, "_WORKING_MEMORY_MIB", 2)
    tracemalloc.start()
    blocks = embedding_density(embeddings, labels.astype(int))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15e6
    assert blocks == pytest.approx(whole, abs=1e-12)
