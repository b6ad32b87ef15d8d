import itertools

import numpy as np
import pytest
from printed import assert_as_printed

from gsp_tf.losses import GroupDiversityLoss


@pytest.mark.equation(
    "A-grouping",
    "4",
    "losses.GroupDiversityLoss",
    "β_0 = 25 by default; μ, which is not printed, is 0.5",
)
@pytest.mark.parametrize("groups", [2, 3, 5])
@pytest.mark.parametrize("arguments", [(2.0, 0.5, 25.0), (1.0, -0.2, 3.0)])
def test_equals_the_definition(groups, arguments):
    alpha, margin, weight = arguments

    def definition(embeddings):
        unit = embeddings / np.linalg.norm(embeddings, axis=-1, keepdims=True)
        pairs = itertools.combinations(range(groups), 2)
        similarities = np.array([np.sum(unit[:, p] * unit[:, q], axis=-1) for p, q in pairs])
        return np.mean(np.log(1 + np.exp(alpha * weight * (similarities - margin))))

    loss = GroupDiversityLoss(*arguments)
    embeddings = np.random.default_rng(0).normal(size=(3, groups, 4))
    assert_as_printed(lambda x: loss(None, x), definition, embeddings)


@pytest.mark.parametrize("shape", [(4, 3), (4,), (2, 2, 2, 2)])
def test_embeddings_without_groups_are_refused(shape):
    with pytest.raises(ValueError, match=r"takes embeddings \(B, groups, D\), received shape"):
        GroupDiversityLoss()(None, np.ones(shape))
