"""Layers in the plain interpreter of LiteRT, which has no operations of TensorFlow."""

import keras
import numpy as np
import pytest

from gsp_tf import layers

CHANNELS = 8
PAIR = {"num_prototypes": (2, 3), "embedding_dim": (4, 5), "hidden_dim": 6}
GROUPS = {"num_groups": 3, "group_dim": 4}
MADE = {
    "AttentiveGrouping": GROUPS,
    "AverageMaxPooling": {},
    "CBAMPooling": {"reduction": 2},
    "ChannelGrouping": GROUPS,
    "CodedResidualBranches": PAIR,
    "CodedResidualTransform": {"num_prototypes": 3, "embedding_dim": 4, "hidden_dim": 6},
    "CrowPooling": {},
    "DelfPooling": {"hidden_dim": 4},
    "DenseBranches": {"embedding_dim": (5, 4)},
    "FrozenBatchNormalization": {},
    "GSoPPooling": {"reduced_dim": 4},
    "GateGrouping": GROUPS,
    "GeneralizedMaxPooling": {"solver": "conjugate_gradient"},
    "GeneralizedMeanPooling": {},
    "GeneralizedSumMaxPooling": {"num_prototypes": 3},
    "GeneralizedSumMeanPooling": {"num_prototypes": 3},
    "GeneralizedSumPooling": {"num_prototypes": 3, "return_attributes": True},
    "L2Normalization": {},
    "LinearGrouping": GROUPS,
    "LipschitzNormalization": {},
    "NetVLAD": {"num_clusters": 3},
    "OptimalTransportPooling": {"num_prototypes": 3, "num_iterations": 2},
    "PixelNormalization": {"std": 2.0},
    "SMKPooling": {},
    "SecondOrderAttention": {"key_dim": 4},
    "SolarPooling": {},
    "WeldonPooling": {},
}
# GlobalLocalEmbedding takes two maps. The others are bases, or layers around a given network.
OTHER = {
    "GlobalLocalEmbedding",
    "LocalFeaturePooling",
    "add_batch_loss",
}
MAPS = ("pooling_weights", "attribute_maps", "attention_maps")


def of_each_layer():
    """The outputs of the layers, and the maps that they give of their weights."""
    parts = [getattr(layers, name)(**arguments) for name, arguments in MADE.items()]
    maps = [getattr(part, of) for part in parts for of in MAPS if hasattr(part, of)]
    return lambda features: keras.tree.flatten([f(features) for f in (*parts, *maps)])


def test_no_layer_is_left_out():
    assert set(MADE) | OTHER == set(layers.__all__)


@pytest.mark.tensorflow
def test_layers_give_their_numbers_in_the_plain_interpreter():
    import tensorflow as tf

    features = np.random.default_rng(0).normal(size=(3, 5, 4, CHANNELS)).astype("float32")
    outputs_of = of_each_layer()
    expected = [keras.ops.convert_to_numpy(output) for output in outputs_of(features)]
    any_map = tf.TensorSpec((None, None, None, CHANNELS), name="features")
    traced = tf.function(outputs_of, [any_map], autograph=False).get_concrete_function()
    # As Keras exports, but with an error for what would need the operations of TensorFlow.
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced])
    converter.experimental_enable_resource_variables = True
    resolver = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    with pytest.warns(UserWarning, match="ai_edge_litert"):
        interpreter = tf.lite.Interpreter(
            model_content=converter.convert(), experimental_op_resolver_type=resolver
        )
    (place,) = [entry["index"] for entry in interpreter.get_input_details()]
    found = [entry["index"] for entry in interpreter.get_output_details()]
    for size in (3, 1):
        interpreter.resize_tensor_input(place, (size, *features.shape[1:]))
        interpreter.allocate_tensors()
        interpreter.set_tensor(place, features[:size])
        interpreter.invoke()
        for output, value in zip(expected, map(interpreter.get_tensor, found), strict=True):
            np.testing.assert_allclose(value, output[:size], 1e-5, 1e-5)
