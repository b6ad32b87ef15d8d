"""Costs of losses relative to the distance matrix or the matrix product that they need.

`.venv/bin/python benchmarks/losses.py` prints times of value and gradient. Pair losses are compared
with the distance matrix, for growing batches, with peaks of memory. Losses with a cross-batch
memory of 44,800 embeddings are compared with the product of batch and memory, and losses with
proxies of 11,318 classes with the product of batch and proxies.
"""

from functools import partial

import keras
import numpy as np
import tensorflow as tf
from measure import in_fresh_processes, medians, peak_bytes, rounds
from results import Ratio, Table, main

from gsp_tf import losses
from gsp_tf.ops import l2_normalize, pairwise_distances

DIM = 128
BATCH = 512
BATCHES = (128, 256, 1024)
NUM_CLASSES = 128
PEAK_BATCHES = (512, 1024)
AT_MOST = 1.5
MEMORY = 44_800
MEMORY_BATCHES = (64, 128)
SOP_CLASSES = 11_318
PROXIES_PER_CLASS = 8
PROXY_BATCHES = (32, 128)
WITH_WEIGHTS = {
    "ClassMarginLoss": partial(losses.ClassMarginLoss, NUM_CLASSES),
    "DynamicSoftMarginLoss": losses.DynamicSoftMarginLoss,
    "HIERLoss": losses.HIERLoss,
}
PAIR_LOSSES = [
    name
    for name in losses.__all__
    if isinstance(getattr(losses, name), type)
    and (issubclass(getattr(losses, name), losses.PairLoss) or name in WITH_WEIGHTS)
    and name != "PairLoss"
]
QUICK_LOSSES = ["ContrastiveLoss", "TripletLoss"]
DISTANCES = "distance matrix"
NORMALIZED = "product of normalised ones"
SOFTMAX = "its log-softmax"
# The least work of some losses besides the distances or similarities of unit vectors.
PAIR_FLOORS = {
    "softplus of similarities": lambda x: tf.nn.softplus(10 * tf.matmul(x, x, transpose_b=True)),
    "log-sum-exp of distances": lambda x: tf.reduce_logsumexp(-pairwise_distances(x), axis=1),
    "the same of rows and columns, and of their pairs": lambda x: _of_rows_and_columns(
        -pairwise_distances(x)
    ),
    "11 clipped shares of distances": lambda x: _shares(pairwise_distances(x, squared=True)),
}
FLOORS = {NORMALIZED, SOFTMAX, *PAIR_FLOORS}
PAIRS_NOTE = (
    "Why some miss: AngularLoss, the triplet losses, SmoothAPLoss, RecallAtKLoss and PNPLoss "
    "compare each positive of an anchor with its whole row. That takes B² comparisons for each of "
    "the positives of an anchor (here 3 on average, and as many steps as the largest class has "
    "samples). All but the triplet losses need an exponential in each comparison, and compute it "
    "again in the gradient. FastAPLoss sums the positives and the negatives of each of its 11 bins "
    "over rows, which XLA does not fuse. RankedListLoss has four exponentials for each pair, "
    "LiftedStructureLoss an exponential and a logarithm for each pair besides those of its sums. "
    "PNLoss searches three times for the place of an extreme, which XLA does not vectorise. "
    "Below the distance matrix stand, as floors, the elementwise work that no loss of a kind can "
    "leave out: BinomialDevianceLoss has the softplus; CircleLoss, MarginLoss, "
    "SupervisedContrastiveLoss and others a sum over rows; LiftedStructureLoss rows, columns and "
    "pairs; FastAPLoss the shares of its histogram."
)


def value_and_gradient(loss, jit_compile):
    """Gradients with respect to the embeddings and the weights of the loss, and its value."""
    weights = [weight.value for weight in getattr(loss, "trainable_weights", ())]

    def run(labels, embeddings):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            value = loss(labels, embeddings)
        return tape.gradient(value, [embeddings, *weights]), value

    return tf.function(run, jit_compile=jit_compile)


def batch(size, num_classes, seed=0):
    rng = np.random.default_rng(seed)
    embeddings = rng.normal(size=(size, DIM)).astype("float32")
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    return tf.constant(rng.integers(0, num_classes, size)), tf.constant(embeddings)


def sum_of_distances(labels, embeddings):
    return tf.reduce_sum(pairwise_distances(embeddings))


def _of_rows_and_columns(exponents):
    of_rows, of_columns = (tf.reduce_logsumexp(exponents, axis=axis) for axis in (1, 0))
    return keras.ops.logaddexp(of_rows[:, None], of_columns)


def _shares(distances):
    shares = [tf.clip_by_value(edge - 2.5 * distances, 0, 1) for edge in range(11)]
    return tf.stack([tf.square(tf.reduce_sum(share, axis=1)) for share in shares])


def pair_loss(name):
    """A loss over pairs with its default arguments, built if it has weights."""
    if name not in WITH_WEIGHTS:
        return getattr(losses, name)()
    loss = WITH_WEIGHTS[name]()
    loss.build((None,), (None, DIM))
    return loss


def pair_functions(names, jit_compile):
    sides = {DISTANCES: sum_of_distances}
    for name, floor in PAIR_FLOORS.items():
        sides[name] = lambda labels, embeddings, floor=floor: tf.reduce_sum(floor(embeddings))
    sides |= {name: pair_loss(name) for name in names}
    return {name: value_and_gradient(side, jit_compile) for name, side in sides.items()}


def matrix_product(references, jit_compile, normalize=False, softmax=False):
    """Product of embeddings and references, with gradients; fixed references get none."""
    trained = isinstance(references, tf.Variable)

    def run(labels, embeddings):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            sides = embeddings, tf.convert_to_tensor(references)
            if normalize:
                sides = [l2_normalize(side) for side in sides]
            similarities = tf.matmul(*sides, transpose_b=True)
            if softmax:
                similarities = tf.nn.log_softmax(similarities)
        sources = [embeddings, *([references] if trained else [])]
        gradients = tape.gradient(similarities, sources, output_gradients=similarities)
        return gradients, similarities[0, 0]

    return tf.function(run, jit_compile=jit_compile)


def memory_functions(names, size, capacity, jit_compile):
    _, stored = batch(capacity, SOP_CLASSES, seed=1)
    functions = {"matrix product": matrix_product(stored, jit_compile)}
    for name in names:
        memory = losses.CrossBatchMemory(getattr(losses, name)(), capacity)
        memory.build((size,), (size, DIM))
        memory.memory.assign(stored)
        memory.memory_labels.assign(np.arange(capacity) % SOP_CLASSES)
        memory.num_enqueued.assign(capacity)
        functions[name] = value_and_gradient(memory, jit_compile)
    return functions


def several_proxies(num_classes):
    """Losses with `PROXIES_PER_CLASS` proxies per class."""
    pair_losses = (
        losses.CosineContrastiveLoss(),
        losses.ContrastiveLoss(),
        losses.MultiSimilarityLoss(),
    )
    return {
        "SoftTripleLoss": losses.SoftTripleLoss(num_classes, PROXIES_PER_CLASS),
        **{
            f"ProxyPairsLoss of {type(loss).__name__}": losses.ProxyPairsLoss(
                loss, num_classes, PROXIES_PER_CLASS
            )
            for loss in pair_losses
        },
    }


def single_proxies(num_classes):
    """Losses with one proxy per class."""
    names = "ProxyNCALoss", "NormalizedSoftmaxLoss", "CosFaceLoss", "ArcFaceLoss", "ProxyAnchorLoss"
    return {name: getattr(losses, name)(num_classes) for name in names}


def proxy_functions(make, num_classes, num_proxies, jit_compile):
    keras.utils.set_random_seed(0)
    proxies = tf.Variable(batch(num_proxies, 1, seed=1)[1])
    functions = {
        "matrix product": matrix_product(proxies, jit_compile),
        NORMALIZED: matrix_product(proxies, jit_compile, normalize=True),
        SOFTMAX: matrix_product(proxies, jit_compile, normalize=True, softmax=True),
    }
    for name, loss in make(num_classes).items():
        loss.build((None,), (None, DIM))
        functions[name] = value_and_gradient(loss, jit_compile)
    return functions


def compared(title, functions, arguments, num_rounds, at_most=None, note=""):
    """Table of milliseconds and ratios to the first function, without and with XLA.

    `functions` is a function from `jit_compile` to a dict of functions of `arguments`, which are
    those of `medians`. `at_most` is the target of the ratios.
    """
    plain, compiled = (
        medians(functions(jit_compile), arguments, num_rounds) for jit_compile in (False, True)
    )
    first, *names = plain
    rows = [(first, plain[first], "", compiled[first], "")]
    for name in names:
        row, target = [name], None if name in FLOORS else at_most
        for times in (plain, compiled):
            row += [times[name], Ratio(times[name] / times[first], target)]
        rows.append(row)
    return Table(title, ["loss", "ms", "ratio", "ms, XLA", "ratio, XLA"], rows, note)


def growth(names, sizes, num_rounds):
    """Milliseconds and ratios to the distance matrix under XLA, for growing batches."""
    times = {
        size: medians(pair_functions(names, True), batch(size, NUM_CLASSES), num_rounds)
        for size in sizes
    }
    rows = []
    for name in times[sizes[0]]:
        row = [name]
        for by_name in times.values():
            row += [by_name[name], Ratio(by_name[name] / by_name[DISTANCES])]
        rows.append(row)
    columns = [heading for size in sizes for heading in (f"ms, B {size}", "ratio")]
    return Table(f"Pair losses as the batch grows, {DIM} dimensions, XLA", ["loss", *columns], rows)


def peak(name, size):
    """Peak bytes of value and gradient without XLA beyond those of a batch of two."""
    run = pair_functions([] if name == DISTANCES else [name], False)[name]
    signature = tf.TensorSpec((None,), "int64"), tf.TensorSpec((None, DIM))
    run = run.get_concrete_function(*signature)
    labels, embeddings = batch(size, NUM_CLASSES)
    run(labels[:2], embeddings[:2])[1].numpy()
    return peak_bytes(lambda: run(labels, embeddings)[1].numpy())


def peaks(names, sizes):
    names = [DISTANCES, *names]
    tasks = [(name, size) for name in names for size in sizes]
    taken = dict(zip(tasks, in_fresh_processes(peak, tasks), strict=True))
    rows = [
        (
            name,
            *(taken[name, size] / 2**20 for size in sizes),
            *(taken[name, size] / 4 / size**2 for size in sizes),
        )
        for name in names
    ]
    columns = [f"MiB, B {size}" for size in sizes] + [f"floats per B², B {size}" for size in sizes]
    return Table(f"Peak memory of pair losses, {DIM} dimensions", ["loss", *columns], rows)


def run(quick=False):
    names = QUICK_LOSSES if quick else PAIR_LOSSES
    num_rounds = rounds(quick)
    tables = [peaks(names, (64,) if quick else PEAK_BATCHES)]
    size = 16 if quick else BATCH
    tables.append(
        compared(
            f"Pair losses, batch of {size} x {DIM}",
            lambda jit_compile: pair_functions(names, jit_compile),
            batch(size, NUM_CLASSES),
            num_rounds,
            AT_MOST,
            PAIRS_NOTE,
        )
    )
    tables.append(growth(names, (32,) if quick else BATCHES, num_rounds))
    capacity = 64 if quick else MEMORY
    of_memory = ["CosineContrastiveLoss", "ContrastiveLoss", "MultiSimilarityLoss"]
    for size in (8,) if quick else MEMORY_BATCHES:
        tables.append(
            compared(
                f"Cross-batch memory of {capacity:,} x {DIM}, batch of {size}",
                lambda jit_compile, size=size: memory_functions(
                    of_memory[:1] if quick else of_memory, size, capacity, jit_compile
                ),
                # The memory holds the batches of earlier rounds, so each round has a new one.
                lambda number, size=size: batch(size, SOP_CLASSES, seed=2 + number),
                num_rounds,
            )
        )
    num_classes = 20 if quick else SOP_CLASSES
    for size in (8,) if quick else PROXY_BATCHES:
        for make, per_class in ((several_proxies, PROXIES_PER_CLASS), (single_proxies, 1)):
            tables.append(
                compared(
                    f"{num_classes:,} classes x {per_class} proxies, batch of {size} x {DIM}",
                    lambda jit_compile, make=make, per_class=per_class: proxy_functions(
                        make, num_classes, num_classes * per_class, jit_compile
                    ),
                    batch(size, num_classes),
                    num_rounds,
                    AT_MOST,
                )
            )
    return tables


if __name__ == "__main__":
    main(run)
