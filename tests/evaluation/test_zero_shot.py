import numpy as np
import pytest
from sklearn.linear_model import Ridge

from gsp_tf.evaluation import zero_shot_prediction


def data(classes=7, images=60, attributes=4, dim=5, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.r_[np.arange(classes), rng.integers(0, classes, images - classes)]
    z = rng.dirichlet(np.ones(attributes), classes)[labels]
    return (z + rng.normal(0, 0.05, z.shape)).astype("float32"), labels, rng


def by_definition(z, labels, embeddings, num_splits, ridge, seed):
    rng = np.random.default_rng(seed)
    euclidean, cosine, chance = [], [], []
    for _ in range(num_splits):
        halves = np.array_split(rng.permutation(len(embeddings)), 2)
        for fitted, candidates in (halves, halves[::-1]):
            seen = np.isin(labels, fitted)
            model = Ridge(alpha=ridge, fit_intercept=False).fit(z[seen], embeddings[labels[seen]])
            for label in candidates:
                prediction = model.predict(z[labels == label]).mean(axis=0)
                distances = np.linalg.norm(embeddings[candidates] - prediction, axis=1)
                euclidean.append(candidates[distances.argmin()] == label)
                norms = np.linalg.norm(embeddings[candidates], axis=1)
                cosines = embeddings[candidates] @ prediction / norms
                cosine.append(candidates[cosines.argmax()] == label)
                chance.append(1 / len(candidates))
    found = {"euclidean": euclidean, "cosine": cosine, "chance": chance}
    return {name: np.mean(values) for name, values in found.items()}


@pytest.mark.parametrize("classes, ridge", [(2, 0.05), (6, 1.0), (7, 0.05)])
def test_equals_definition(classes, ridge):
    z, labels, rng = data(classes)
    embeddings = rng.normal(size=(classes, 5)).astype("float32")
    found = zero_shot_prediction(z, labels, embeddings, num_splits=5, ridge=ridge, seed=3)
    assert found == pytest.approx(by_definition(z, labels, embeddings, 5, ridge, 3), abs=1e-12)
