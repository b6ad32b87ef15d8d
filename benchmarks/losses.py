"""What losses cost, as ratios of medians taken alternately in one run.

`.venv/bin/python benchmarks/losses.py` prints two tables: a cross-batch memory of 44,800 embeddings
against the matrix product it needs, and every pair loss against the distance matrix; value and
gradient each.
"""

import numpy as np
import tensorflow as tf
from measure import medians
from rich.console import Console
from rich.table import Table

from gsp_tf import losses
from gsp_tf.ops import pairwise_distances

ROUNDS = 25
DIM = 128


def value_and_gradient(loss, jit_compile):
    def run(labels, embeddings):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            value = loss(labels, embeddings)
        return tape.gradient(value, embeddings), value

    return tf.function(run, jit_compile=jit_compile)


def batch(size, num_classes, seed=0):
    rng = np.random.default_rng(seed)
    embeddings = rng.normal(size=(size, DIM)).astype("float32")
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    return tf.constant(rng.integers(0, num_classes, size)), tf.constant(embeddings)


def memory_functions(size, capacity, num_classes, jit_compile):
    _, stored = batch(capacity, num_classes, seed=1)

    def product(labels, embeddings):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            similarities = tf.matmul(embeddings, stored, transpose_b=True)
        gradient = tape.gradient(similarities, embeddings, output_gradients=similarities)
        return gradient, similarities[0, 0]

    functions = {"matrix product": tf.function(product, jit_compile=jit_compile)}
    for loss in (
        losses.CosineContrastiveLoss(),
        losses.ContrastiveLoss(),
        losses.MultiSimilarityLoss(),
    ):
        memory = losses.CrossBatchMemory(loss, capacity)
        memory.build((size,), (size, DIM))
        memory.memory.assign(stored)
        memory.memory_labels.assign(np.arange(capacity) % num_classes)
        memory.num_enqueued.assign(capacity)
        functions[type(loss).__name__] = value_and_gradient(memory, jit_compile)
    return functions


def pair_functions(jit_compile):
    def distances(labels, embeddings):
        return tf.reduce_sum(pairwise_distances(embeddings))

    functions = {"distance matrix": value_and_gradient(distances, jit_compile)}
    for name in losses.__all__:
        loss = getattr(losses, name)
        if isinstance(loss, type) and issubclass(loss, losses.PairLoss) and name != "PairLoss":
            functions[name] = value_and_gradient(loss(), jit_compile)
    return functions


def print_ratios(console, title, tables):
    """Print the milliseconds and the ratios to the first row, a pair of columns for each table."""
    table = Table(title=title)
    table.add_column("loss")
    for column in tables:
        table.add_column(f"{column}, ms", justify="right")
        table.add_column("ratio", justify="right")
    for name in next(iter(tables.values())):
        cells = [name]
        for times in tables.values():
            cells += [f"{times[name]:.2f}", f"{times[name] / next(iter(times.values())):.2f}"]
        table.add_row(*cells)
    console.print(table)


def main():
    console = Console()
    for size in (64, 128):
        tables = {}
        for column, jit_compile in (("XLA", True), ("no XLA", False)):
            functions = memory_functions(size, 44_800, 11_318, jit_compile)
            tables[column] = medians(functions, batch(size, 11_318), ROUNDS)
        print_ratios(console, f"Memory of 44,800 x {DIM}, batch of {size}", tables)
    tables = {}
    for column, jit_compile in (("XLA", True), ("no XLA", False)):
        tables[column] = medians(pair_functions(jit_compile), batch(512, 128), ROUNDS)
    print_ratios(console, f"Pair losses, batch of 512 x {DIM}", tables)


if __name__ == "__main__":
    main()
