"""Costs of the coded residual transform relative to average pooling and to its plain form.

`.venv/bin/python benchmarks/coded_residual.py` prints the peak memory and the time of value and
gradient of a batch for growing numbers of places HW and prototypes K. It compares average pooling
with a dense layer, the layer, and the layer's equations with the residuals `(B, HW, K, C)` written
out. Memory is that beyond a single place, so it excludes the weights. A second table compares one
embedding network for all prototypes with one per prototype.
"""

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from measure import in_fresh_processes, medians, peak_bytes, rounds
from results import Ratio, Table, main

from gsp_tf.layers import CodedResidualTransform

BATCH = 4
CHANNELS = 512
DIM = 128
SIZES = ((49, 64), (196, 64), (784, 64), (196, 16), (196, 256))
QUICK_SIZES = ((9, 4),)


class PlainForm(CodedResidualTransform):
    """The same layer, but with the residuals of every feature to every prototype."""

    def _residuals(self, features, mask):
        residuals = features[:, :, None] - ops.convert_to_tensor(self.prototypes)
        products = features[:, :, None] * ops.convert_to_tensor(self.prototypes)
        weights = ops.softplus(ops.sum(products, axis=-1, keepdims=True))
        return ops.mean(weights * residuals, axis=1), 1.0


def average_pooling(num_prototypes, shared_network):
    return keras.Sequential([keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(DIM)])


def layer_of(cls):
    def make(num_prototypes, shared_network):
        return cls(num_prototypes, DIM, DIM, shared_network=shared_network)

    return make


FORMS = {
    "GAP + dense": average_pooling,
    "CRT": layer_of(CodedResidualTransform),
    "plain form": layer_of(PlainForm),
}


def features_of(places):
    rng = np.random.default_rng(0)
    return tf.constant(rng.normal(size=(BATCH, places, CHANNELS)).astype("float32"))


def layer(form, num_prototypes, shared_network=True):
    made = FORMS[form](num_prototypes, shared_network)
    made.build((None, None, CHANNELS))
    return made


def value_and_gradient(layer):
    def run(features):
        with tf.GradientTape() as tape:
            tape.watch(features)
            value = tf.reduce_sum(tf.square(layer(features, training=True)))
        return tape.gradient(value, [features, *(w.value for w in layer.trainable_weights)])

    return run


def peak(form, places, num_prototypes):
    """Peak bytes of value and gradient beyond those of a single place."""
    run = value_and_gradient(layer(form, num_prototypes))
    graph = tf.function(run, input_signature=[tf.TensorSpec((None, None, CHANNELS))])
    features = features_of(places)
    graph(features[:1, :1])[0].numpy()
    return peak_bytes(lambda: graph(features)[0].numpy())


def times(layers, places, num_rounds):
    """Median milliseconds of the layers: one dict without and one with XLA."""
    return [
        medians(
            {
                name: tf.function(value_and_gradient(layer), jit_compile=jit_compile)
                for name, layer in layers.items()
            },
            [features_of(places)],
            num_rounds,
        )
        for jit_compile in (False, True)
    ]


def growth(sizes, num_rounds):
    tasks = [(form, *size) for size in sizes for form in FORMS]
    peaks = dict(zip(tasks, in_fresh_processes(peak, tasks), strict=True))
    rows = []
    for places, k in sizes:
        share = BATCH * (places * CHANNELS + places * k + k * CHANNELS)
        ms, ms_xla = times({form: layer(form, k) for form in FORMS}, places, num_rounds)
        for form in FORMS:
            most = peaks[form, places, k]
            rows.append(
                (places, k, form, most / 2**20, most / 4 / share)
                + (ms[form], Ratio(ms[form] / ms["CRT"]))
                + (ms_xla[form], Ratio(ms_xla[form] / ms_xla["CRT"]))
            )
    columns = ["HW", "K", "form", "MiB", "floats per share", "ms", "times CRT"]
    return Table(
        f"Coded residual transform of {BATCH} maps of {CHANNELS} channels",
        [*columns, "ms, XLA", "times CRT, XLA"],
        rows,
        "Value and gradient. Share: B (HW·C + HW·K + K·C) floats, features + correlations + "
        "residuals.",
    )


def networks(size, num_rounds):
    layers = {
        name: layer("CRT", size, shared_network=shared)
        for name, shared in (("shared", True), ("for each", False))
    }
    ms, ms_xla = times(layers, size, num_rounds)
    rows = [(name, layer.count_params(), ms[name], ms_xla[name]) for name, layer in layers.items()]
    columns = "embedding network", "weights", "ms", "ms, XLA"
    return Table(f"{size} places, {size} prototypes", columns, rows)


def run(quick=False):
    sizes, num_networks = (QUICK_SIZES, 4) if quick else (SIZES, 49)
    return [growth(sizes, rounds(quick)), networks(num_networks, rounds(quick))]


if __name__ == "__main__":
    main(run)
