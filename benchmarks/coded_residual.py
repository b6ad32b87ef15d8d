"""What the coded residual transform costs beside average pooling and beside its plain form.

`.venv/bin/python benchmarks/coded_residual.py` prints, as the places HW and the prototypes K grow,
the peak memory (Linux; beyond that of a single place, so without the weights) and the time of value
and gradient of a batch: of average pooling and a dense layer, of the layer, and of its equations
with the residuals `(B, HW, K, C)` written out. A second table compares one embedding network for
all prototypes with one for each.
"""

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from measure import in_fresh_processes, medians, peak_bytes
from rich.console import Console
from rich.table import Table

from gsp_tf.layers import CodedResidualTransform
from gsp_tf.ops.normalization import l2_normalize

BATCH = 4
CHANNELS = 512
DIM = 128
ROUNDS = 5
SIZES = ((49, 64), (196, 64), (784, 64), (196, 16), (196, 256))


class PlainForm(CodedResidualTransform):
    """The same layer, with every residual of every feature to every prototype."""

    def _residuals(self, features, mask):
        residuals = features[:, :, None] - ops.convert_to_tensor(self.prototypes)
        unit = l2_normalize(features)[:, :, None] * l2_normalize(self.prototypes)
        correlations = ops.sum(unit, axis=-1, keepdims=True)
        return ops.mean(correlations * residuals, axis=1)


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


def cost(form, places, num_prototypes, shared_network):
    """Peak bytes of value and gradient, median milliseconds without and with XLA, weights."""
    rng = np.random.default_rng(0)
    features = tf.constant(rng.normal(size=(BATCH, places, CHANNELS)).astype("float32"))
    layer = FORMS[form](num_prototypes, shared_network)
    layer.build(features.shape)

    def run(features):
        with tf.GradientTape() as tape:
            tape.watch(features)
            value = tf.reduce_sum(tf.square(layer(features, training=True)))
        return tape.gradient(value, [features, *(w.value for w in layer.trainable_weights)])

    graph = tf.function(run, input_signature=[tf.TensorSpec((None, None, CHANNELS))])
    graph(features[:1, :1])
    peak = peak_bytes(lambda: graph(features)[0].numpy())
    functions = {"graph": graph, "XLA": tf.function(run, jit_compile=True)}
    times = medians(functions, [features], ROUNDS)
    return peak, *times.values(), layer.count_params()


def print_growth(console):
    table = Table(title=f"{BATCH} maps of {CHANNELS} channels")
    for column in ("HW", "K", "form", "MiB", "floats per share", "ms", "ms, XLA"):
        table.add_column(column, justify="left" if column == "form" else "right")
    tasks = [(form, *size, True) for size in SIZES for form in FORMS]
    costs = in_fresh_processes(cost, tasks)
    for (form, places, k, _), (peak, ms, ms_xla, _) in zip(tasks, costs, strict=True):
        share = BATCH * (places * CHANNELS + places * k + k * CHANNELS)
        times = f"{ms:.1f}", f"{ms_xla:.1f}"
        table.add_row(
            str(places), str(k), form, f"{peak / 2**20:.0f}", f"{peak / 4 / share:.1f}", *times
        )
        if form == list(FORMS)[-1]:
            table.add_section()
    console.print(table)
    console.print("share: B (HW·C + HW·K + K·C), features + correlations + residuals")


def print_networks(console):
    table = Table(title="49 places, 49 prototypes")
    for column in ("embedding network", "weights", "ms", "ms, XLA"):
        table.add_column(column, justify="left" if column == "embedding network" else "right")
    costs = in_fresh_processes(cost, [("CRT", 49, 49, shared) for shared in (True, False)])
    for name, (_, *times, weights) in zip(("shared", "for each"), costs, strict=True):
        table.add_row(name, f"{weights:,}", *(f"{time:.1f}" for time in times))
    console.print(table)


def main():
    console = Console()
    print_growth(console)
    print_networks(console)


if __name__ == "__main__":
    main()
