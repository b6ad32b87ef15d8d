import itertools

import numpy as np
import pytest
from gradients import assert_equals_differences, compiled, value_and_gradient

from gsp_tf.losses import GroupDiversityLoss


def defined_loss(embeddings, alpha, margin, weight):
    terms = []
    for groups in embeddings:
        unit = [g / np.linalg.norm(g) for g in groups]
        similarities = [p @ q for p, q in itertools.combinations(unit, 2)]
        terms.append(np.log(1 + np.exp(alpha * weight * (np.array(similarities) - margin))))
    return np.mean(terms)


def random_groups(shape=(5, 3, 4), seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("groups", [2, 3, 5])
@pytest.mark.parametrize("arguments", [(2.0, 0.5, 25.0), (1.0, -0.2, 3.0)])
def test_equals_the_definition(groups, arguments):
    embeddings = random_groups((4, groups, 6))
    value, _ = value_and_gradient(GroupDiversityLoss(*arguments), None, embeddings)
    assert float(value) == pytest.approx(defined_loss(embeddings, *arguments), rel=1e-9)


def test_gradient_equals_finite_differences():
    embeddings, loss = random_groups((2, 3, 4)), GroupDiversityLoss(1.0, 0.2, 3.0)
    _, gradient = value_and_gradient(loss, None, embeddings)
    value = compiled(lambda x: loss(None, x), jit_compile=False)
    assert_equals_differences([gradient], value, embeddings, atol=1e-9)


def test_order_of_images_and_groups_and_lengths_do_not_matter():
    embeddings, loss = random_groups(), GroupDiversityLoss()
    moved = embeddings[[2, 0, 4, 1, 3]][:, [1, 2, 0]] * np.array([0.1, 3.0, 70.0])[:, None]
    assert float(loss(None, moved)) == pytest.approx(float(loss(None, embeddings)), rel=1e-9)


@pytest.mark.parametrize("shape", [(4, 3), (4,), (2, 2, 2, 2)])
def test_embeddings_without_groups_are_refused(shape):
    with pytest.raises(ValueError, match=r"takes embeddings \(B, groups, D\), received shape"):
        GroupDiversityLoss()(None, np.ones(shape))
