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
    return {
        k: np.mean(v) for k, v in dict(euclidean=euclidean, cosine=cosine, chance=chance).items()
    }


@pytest.mark.parametrize("classes, ridge", [(2, 0.05), (6, 1.0), (7, 0.05)])
def test_equals_definition(classes, ridge):
    z, labels, rng = data(classes)
    embeddings = rng.normal(size=(classes, 5)).astype("float32")
    found = zero_shot_prediction(z, labels, embeddings, num_splits=5, ridge=ridge, seed=3)
    assert found == pytest.approx(by_definition(z, labels, embeddings, 5, ridge, 3), abs=1e-12)


def test_embeddings_that_are_linear_in_the_attributes_are_predicted():
    rng = np.random.default_rng(1)
    means = rng.dirichlet(np.ones(4), 20)
    labels = np.arange(200) % 20
    embeddings = means @ rng.normal(size=(4, 9))
    found = zero_shot_prediction(means[labels], labels, embeddings, num_splits=50, ridge=1e-6)
    assert found == {"euclidean": 1.0, "cosine": pytest.approx(1.0), "chance": pytest.approx(0.1)}


def test_random_embeddings_give_chance():
    z, labels, rng = data(classes=10, images=200)
    found = [
        zero_shot_prediction(z, labels, rng.normal(size=(10, 8)), num_splits=20) for _ in range(150)
    ]
    for rule in ("euclidean", "cosine"):
        assert np.mean([f[rule] for f in found]) == pytest.approx(0.2, abs=0.03)
    assert found[0]["chance"] == pytest.approx(0.2)


def test_follows_the_seed():
    z, labels, rng = data(classes=11, images=300)
    embeddings = rng.normal(size=(11, 3))
    same, again, other = (zero_shot_prediction(z, labels, embeddings, 3, seed=s) for s in (0, 0, 1))
    assert same == again != other


@pytest.mark.parametrize(
    "labels, classes, arguments, message",
    [
        ([0, 1, 2], 2, {}, "received 2 rows and 3 classes from 0 to 2"),
        ([0, 0, 0], 1, {}, "two rows or more"),
        ([-1, 0, 1], 3, {}, "3 classes from -1 to 1"),
        ([0, 2, 2], 3, {}, "received 3 rows and 2 classes from 0 to 2"),
        ([0, 1, 2], 3, {"num_splits": 0}, "num_splits 0"),
        ([0, 1, 2], 3, {"ridge": 0.0}, "ridge 0.0"),
    ],
)
def test_refuses(labels, classes, arguments, message):
    with pytest.raises(ValueError, match=message):
        zero_shot_prediction(np.eye(3), labels, np.ones((classes, 2)), **arguments)
