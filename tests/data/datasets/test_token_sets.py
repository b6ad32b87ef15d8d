import numpy as np
import pytest

from gsp_tf.data import synthetic_token_sets


def test_sets_hold_tokens_of_their_class_and_of_the_background_only():
    sizes = {"num_classes": 3, "tokens_per_class": 5, "num_background": 2, "set_size": 30}
    tokens, labels = synthetic_token_sets(20, **sizes)
    assert tokens.dtype == labels.dtype == np.int32
    assert tokens.shape == (60, 30) and labels.tolist() == [0] * 20 + [1] * 20 + [2] * 20
    for label in range(3):
        own = set(range(2 + 5 * label, 7 + 5 * label))
        assert set(tokens[labels == label].ravel().tolist()) == own | {0, 1}


def test_share_of_the_background():
    tokens, _ = synthetic_token_sets(1000, background_share=(0.4, 0.1))
    shares = (tokens < 4).mean(axis=1)
    assert np.allclose(shares.mean(), 0.4, atol=0.005)
    assert np.allclose(shares.std(), 0.1, atol=0.005)


@pytest.mark.parametrize(("mean", "background"), [(-5.0, 1), (5.0, 7)])
def test_a_set_holds_at_least_one_token_of_each_kind(mean, background):
    tokens, _ = synthetic_token_sets(5, set_size=8, background_share=(mean, 0.1))
    assert ((tokens < 4).sum(axis=1) == background).all()


def test_tokens_of_a_kind_are_equally_frequent():
    tokens, labels = synthetic_token_sets(2000, num_classes=2)
    counts = np.bincount(tokens[labels == 1].ravel(), minlength=12)
    assert counts[4:8].sum() == 0
    np.testing.assert_allclose(counts[[0, 1, 2, 3, 8, 9, 10, 11]] / counts.sum(), 1 / 8, atol=0.005)


def test_the_seed_fixes_the_draws():
    one, again, other = (synthetic_token_sets(2, seed=seed)[0] for seed in ((0, 1), (0, 1), (0, 2)))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
