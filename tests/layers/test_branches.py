import keras
import numpy as np
import pytest
from local_maps import features_like

from gsp_tf.layers import CodedResidualBranches, CodedResidualTransform, DenseBranches
from gsp_tf.losses import prototype_diversity, similarity_consistency

DIVERSITY, CONSISTENCY = 0.3, 0.7


def branches(num_prototypes=(3, 5), **arguments):
    return CodedResidualBranches(
        num_prototypes,
        (4, 6),
        7,
        diversity_weight=DIVERSITY,
        consistency_weight=CONSISTENCY,
        **arguments,
    )


def test_gives_what_the_two_transforms_give():
    layer = branches(share_weights=False)
    features = features_like((2, 4, 3, 5))
    outputs = layer(features)
    for branch, output, count in ((layer.first, outputs[0], 3), (layer.second, outputs[1], 5)):
        assert isinstance(branch, CodedResidualTransform) and branch.num_prototypes == count
        np.testing.assert_array_equal(branch(features), output)
    one, other = (np.ravel(branch.prototypes)[:15] for branch in (layer.first, layer.second))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.99  # each branch has draws of its own
    assert layer.compute_output_shape((None, 4, 3, 5)) == ((None, 4), (None, 6))
    np.testing.assert_array_equal(
        layer.correlation_maps(features), layer.first.correlation_maps(features)
    )


@pytest.mark.parametrize("num_prototypes", [(3, 5), (5, 3), (4, 4)])
@pytest.mark.parametrize("shared_network", [False, True])
def test_branches_that_share_weights_equal_separate_ones_with_the_same_weights(
    num_prototypes, shared_network
):
    shared = branches(num_prototypes, share_weights=True, shared_network=shared_network)
    separate = branches(num_prototypes, share_weights=False, shared_network=shared_network)
    features = features_like((2, 4, 3, 5))
    shared(features), separate(features)
    wide = max(shared.first, shared.second, key=lambda branch: branch.num_prototypes)
    for name in ("first", "second"):
        source, target = getattr(shared, name), getattr(separate, name)
        k = target.num_prototypes
        target.prototypes.assign(wide.prototypes[:k])
        networks = slice(None) if shared_network else slice(k)
        target.hidden_kernel.assign(wide.hidden_kernel[networks])
        target.hidden_bias.assign(wide.hidden_bias[networks])
        target.output_kernel.assign(source.output_kernel)
        target.output_bias.assign(source.output_bias)
    for value, expected in zip(shared(features), separate(features), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        shared.correlation_maps(features), separate.correlation_maps(features), atol=1e-6
    )
    assert len(separate.trainable_weights) - len(shared.trainable_weights) == 3


@pytest.mark.parametrize("share_weights", [False, True])
def test_adds_the_losses_in_training_alone(share_weights):
    layer = branches(share_weights=share_weights)
    features = features_like((4, 3, 3, 5))
    first, second = layer(features, training=True)
    diverse = [layer.second] if share_weights else [layer.first, layer.second]
    expected = CONSISTENCY * float(similarity_consistency(first, second))
    expected += DIVERSITY * sum(float(prototype_diversity(b.prototypes)) for b in diverse)
    assert float(sum(layer.losses)) == pytest.approx(expected, rel=1e-5)
    layer(features)
    assert layer.losses == []


@pytest.mark.parametrize("data_format", ["channels_first", "channels_last"])
def test_mask_dtype_and_data_format_reach_the_branches(data_format):
    layer = branches(share_weights=False, dtype="mixed_bfloat16", data_format=data_format)
    features = features_like((2, 4, 5))
    outputs = layer(features, mask=np.array([[1, 1, 0, 0]] * 2, bool))
    for output, expected in zip(outputs, layer(features[:, :2]), strict=True):
        assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"
        np.testing.assert_array_equal(output, expected)
    assert layer.first.data_format == data_format and layer.first.prototypes.dtype == "float32"


def test_dense_branches_give_both_products_and_their_consistency_in_training_alone():
    layer = DenseBranches((3, 5), consistency_weight=0.7)
    features = features_like((6, 4))
    first, second = layer(features, training=True)
    np.testing.assert_allclose(first, features @ layer.first.kernel, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second, features @ layer.second.kernel, rtol=1e-5, atol=1e-6)
    (loss,) = layer.losses
    expected = 0.7 * float(similarity_consistency(first, second))
    assert float(loss) == pytest.approx(expected, rel=1e-6) and expected > 0
    layer(features)
    assert layer.losses == []
    assert layer.compute_output_shape((None, 4)) == ((None, 3), (None, 5))
    assert DenseBranches.from_config(layer.get_config()).get_config() == layer.get_config()
