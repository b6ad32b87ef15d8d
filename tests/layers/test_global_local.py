import numpy as np
import pytest
from local_maps import features_like

from gsp_tf.layers import GlobalLocalEmbedding, SecondOrderAttention

MAPS = [features_like((2, 4, 6, 6)), features_like((2, 2, 3, 8), seed=1)]


def with_attention(layer, features=MAPS):
    """`layer`, built, with attention that is no longer the identity."""
    layer(features)
    for seed, weight in enumerate(layer.weights):
        if "psi" in weight.path:
            weight.assign(0.3 * features_like(weight.shape, seed=2 + seed))
    return layer


def head_of(layer, name):
    """Attention and whitening of one head, by the paths of their weights."""
    prefix = f"{layer.name}/{name}_head/"
    weights = {w.path.removeprefix(prefix): w for w in layer.weights if w.path.startswith(prefix)}
    attention = SecondOrderAttention(layer.key_dim, layer.scale)
    kernel, bias = (weights[f"whitening/{part}"].numpy() for part in ("kernel", "bias"))
    attention.build((None, None, len(kernel)))
    for weight in attention.weights:
        weight.assign(weights[f"attention/{weight.path.split('/', 1)[1]}"])
    return attention, kernel, bias


def embedded(layer, name, features):
    """Whitened average plus maximum of what the attention of one head makes of a map."""
    attention, kernel, bias = head_of(layer, name)
    enhanced = np.asarray(attention(features))
    assert np.abs(enhanced - features).max() > 0.1
    return (enhanced.mean((1, 2)) + enhanced.max((1, 2))) @ kernel + bias


def focused(features):
    """Blocks of 2 x 2 positions of a map, side by side in its channels."""
    batch, height, width, channels = features.shape
    joint = np.zeros((batch, height // 2, width // 2, 4 * channels), "float32")
    for b, i, j in np.ndindex(*joint.shape[:3]):
        block = features[b, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        joint[b, i, j] = block.reshape(-1)
    return joint


@pytest.mark.parametrize("heads", ["both", "global", "local", "single"])
def test_equals_its_heads(heads):
    layer = with_attention(GlobalLocalEmbedding(dim=10, key_dim=3, scale=0.5, heads=heads))
    sources = {
        "global": MAPS[1],
        "local": MAPS[0],
        "single": np.concatenate([focused(MAPS[0]), MAPS[1]], axis=-1),
    }
    names = ["global", "local"] if heads == "both" else [heads]
    expected = [embedded(layer, name, sources[name]) for name in names]
    np.testing.assert_allclose(layer(MAPS), np.concatenate(expected, 1), rtol=1e-4, atol=1e-5)
    assert layer.compute_output_shape([x.shape for x in MAPS]) == (2, 10)
    for name in names:
        attention = head_of(layer, name)[0]
        for position in (None, (1, 2)):
            found = layer.attention_maps(MAPS, head=name, position=position)
            expected = attention.attention_maps(sources[name], position=position)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(
        layer.attention_maps(MAPS), layer.attention_maps(MAPS, head=names[-1])
    )


@pytest.mark.parametrize("heads", ["both", "single"])
def test_without_attention(heads):
    layer = GlobalLocalEmbedding(dim=10, key_dim=3, heads=heads, attention=False)
    twin = GlobalLocalEmbedding(dim=10, key_dim=3, heads=heads)  # whose attention starts at 0
    output = layer(MAPS)
    twin(MAPS)
    weights = {w.path.split("/", 1)[1]: w for w in twin.weights}
    assert all("whitening" in w.path for w in layer.weights)
    for weight in layer.weights:
        weights[weight.path.split("/", 1)[1]].assign(weight)
    np.testing.assert_allclose(output, twin(MAPS), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="no attention maps with attention=False"):
        layer.attention_maps(MAPS)


@pytest.mark.parametrize("heads", ["both", "single"])
def test_channels_first(heads):
    arguments = {"dim": 10, "key_dim": 3, "heads": heads}
    last = with_attention(GlobalLocalEmbedding(**arguments))
    first = GlobalLocalEmbedding(**arguments, data_format="channels_first")
    transposed = [x.transpose(0, 3, 1, 2) for x in MAPS]
    first(transposed)
    first.set_weights(last.get_weights())
    np.testing.assert_allclose(first(transposed), last(MAPS), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("heads", "features"), [("local", 0), ("global", 1)])
def test_one_head_takes_its_map_alone(heads, features):
    layer = with_attention(GlobalLocalEmbedding(dim=4, key_dim=3, heads=heads), MAPS[features])
    np.testing.assert_array_equal(layer(MAPS[features]), layer(MAPS))
    alone = GlobalLocalEmbedding(dim=4, key_dim=3, heads=heads).attention_maps(MAPS[features])
    assert alone.shape == MAPS[features].shape[:3]
    assert layer.compute_output_shape(MAPS[features].shape) == (2, 4)
