"""Layers in the plain interpreter of LiteRT, which has no operations of TensorFlow."""

import keras
import numpy as np
import pytest
from layer_examples import LAYERS

from gsp_tf import layers

CHANNELS = 8
# The other solver of generalised maximum pooling is no operation of LiteRT.
MADE = {name: make for name, make in LAYERS.items() if name != "generalized_max"} | {
    "coded_residual_branches": lambda: layers.CodedResidualBranches((2, 3), (4, 5), 6),
    "dense_branches": lambda: layers.DenseBranches((5, 4)),
    "frozen_normalization": layers.FrozenBatchNormalization,
    "gsp_attributes": lambda: layers.GeneralizedSumPooling(3, return_attributes=True),
    "l2": layers.L2Normalization,
    "lipschitz": layers.LipschitzNormalization,
    "pixels": lambda: layers.PixelNormalization(std=2.0),
}
# GlobalLocalEmbedding takes two maps. The others are bases, or layers around a given network.
OTHER = {"GlobalLocalEmbedding", "LocalFeaturePooling", "add_batch_loss"}
MAPS = ("pooling_weights", "attribute_maps", "attention_maps")


def test_no_layer_is_left_out():
    assert {type(make()).__name__ for make in MADE.values()} | OTHER == set(layers.__all__)


@pytest.mark.tensorflow
def test_layers_give_their_numbers_in_the_plain_interpreter():
    import tensorflow as tf

    features = np.random.default_rng(0).normal(size=(3, 5, 4, CHANNELS)).astype("float32")
    parts = [make() for make in MADE.values()]
    maps = [getattr(part, of) for part in parts for of in MAPS if hasattr(part, of)]

    def outputs_of(features):
        return keras.tree.flatten([compute(features) for compute in (*parts, *maps)])

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
