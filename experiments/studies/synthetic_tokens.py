"""Average and generalized sum pooling on sets of tokens (GSP, ICCV 2023, Fig. 3a).

Sets of 50 tokens of 16 classes, about half of them of a background that all classes share, are
embedded by pooling learned tokens of two dimensions. MAP@R, P@1 and the share of pairs of classes
whose convex hulls overlap are taken on sets that were not trained on, of the same classes.

A finished run is kept in `--runs` and not done again; the numbers written are those of all that are
there. Runs of other sizes need a folder of their own.
"""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from matplotlib.patches import Rectangle

from gsp_tf._files import replacing
from gsp_tf.data import ClassBalancedSampler, synthetic_token_sets
from gsp_tf.evaluation import hull_overlap, retrieval_metrics
from gsp_tf.layers import GeneralizedSumPooling
from gsp_tf.losses import ContrastiveLoss
from gsp_tf.training import MetricLearner, RetrievalEvaluation, embed
from gsp_tf.visual import INK, class_hulls

ONE_CORE = True  # so that sums do not depend on the number of cores

BACKGROUND, SET_SIZE, LIMIT = 4, 50, 0.3
VOCABULARY = BACKGROUND + 16 * 4
LEARNING_RATE, PATIENCE = 1e-4, 30
CLASSES_PER_BATCH, SETS_PER_CLASS = 16, 4
TRAIN, VALIDATION, TEST = range(3)
VALIDATION_SETS, TEST_SETS = 64, 128
# The title, and the negative margin of C2 in units of the plane.
VARIANTS = {
    "gap": ("GAP", 0.2),
    "gsp": ("GSP", 0.2),
    "gap_margin": ("GAP, margin 0.5", 0.5),
    "gsp_margin": ("GSP, margin 0.5", 0.5),
}
PICTURES = ("gap", "gsp")


def within_limits(tokens):
    """Keeps tokens in the square that they were drawn from."""
    return ops.clip(tokens, -LIMIT, LIMIT)


def token_embedder(variant):
    """Learned tokens of two dimensions and their pooling: sets `(B, 50)` to `(B, 2)`."""
    anywhere = keras.initializers.RandomUniform(-LIMIT, LIMIT)
    if variant.startswith("gap"):
        pooling = keras.layers.GlobalAveragePooling1D()
    else:
        pooling = GeneralizedSumPooling(16, 0.3, 20.0, prototypes_initializer=anywhere.clone())
    tokens = keras.layers.Embedding(VOCABULARY, 2, anywhere, embeddings_constraint=within_limits)
    return keras.Sequential([keras.Input((SET_SIZE,), dtype="int32"), tokens, pooling])


def batches(tokens, labels, seed):
    """Endless `tf.data.Dataset` of class-balanced batches of sets and labels."""
    sampler = ClassBalancedSampler(labels, CLASSES_PER_BATCH, SETS_PER_CLASS, seed)
    size = CLASSES_PER_BATCH * SETS_PER_CLASS
    return tf.data.Dataset.from_generator(
        lambda: ((tokens[chosen], labels[chosen]) for chosen in sampler),
        output_signature=(
            tf.TensorSpec((size, SET_SIZE), tf.int32),
            tf.TensorSpec((size,), tf.int32),
        ),
    ).prefetch(tf.data.AUTOTUNE)


def in_order(tokens, labels):
    """Finite `tf.data.Dataset` of sets and labels, for evaluation."""
    return tf.data.Dataset.from_tensor_slices((tokens, labels)).batch(1024)


def background_weight(embedder, tokens):
    """Mean weight of the background in pooled sets `(N, 50)`."""
    embedding, pooling = embedder.layers
    if isinstance(pooling, GeneralizedSumPooling):
        weights = pooling.pooling_weights(embedding(tokens)).numpy()
    else:
        weights = np.full(tokens.shape, 1 / SET_SIZE)
    return np.where(tokens < BACKGROUND, weights, 0).sum(axis=1).mean()


def solve(variant, seed, sets_per_class, max_epochs):
    """Train a variant until validation MAP@R has not risen for 30 epochs; keep the best epoch.

    An epoch draws as many sets as there are. Returns arrays: pooled test sets `points (N, 2)`,
    their `labels (N,)`, the `tokens (68, 2)`, and the numbers of the table.
    """
    keras.utils.set_random_seed(seed)
    train = synthetic_token_sets(sets_per_class, seed=(seed, TRAIN))
    validation = synthetic_token_sets(VALIDATION_SETS, seed=(seed, VALIDATION))
    test = synthetic_token_sets(TEST_SETS, seed=(seed, TEST))
    embedder = token_embedder(variant)
    loss = ContrastiveLoss(negative_margin=VARIANTS[variant][1], normalize=False)
    learner = MetricLearner(embedder, loss)
    steps = len(train[1]) // (CLASSES_PER_BATCH * SETS_PER_CLASS)
    learner.compile(keras.optimizers.Adam(LEARNING_RATE), steps_per_execution=min(32, steps))
    stopping = keras.callbacks.EarlyStopping(
        "val_map_at_r", patience=PATIENCE, mode="max", restore_best_weights=True
    )
    learner.fit(
        batches(*train, seed),
        steps_per_epoch=steps,
        epochs=max_epochs,
        callbacks=[RetrievalEvaluation(in_order(*validation), recall_at=(1,)), stopping],
        shuffle=False,
        verbose=0,
    )
    points, labels = embed(embedder, in_order(*test))
    metrics = retrieval_metrics(points, labels, recall_at=(1,))
    return {
        "points": points,
        "labels": labels,
        "tokens": embedder.layers[0].get_weights()[0],
        "map_at_r": metrics["map_at_r"],
        "precision_at_1": metrics["precision_at_1"],
        "hull_overlap": hull_overlap(points, labels),
        "background_weight": background_weight(embedder, test[0]),
        "best_epoch": stopping.best_epoch + 1,
    }


def finished(folder):
    """Runs of a folder by `(variant, seed)`, in the order of the variants."""
    runs = {}
    for name in VARIANTS:
        for path in sorted(Path(folder).glob(f"{name}-*.npz")):
            with np.load(path) as arrays:
                runs[name, int(path.stem.rpartition("-")[2])] = dict(arrays)
    return runs


def rows(runs):
    """The numbers of `finished` runs, shares in percent."""
    for (name, seed), run in runs.items():
        title = VARIANTS[name][0]
        yield title, seed, "MAP@R", 100 * run["map_at_r"]
        yield title, seed, "P@1", 100 * run["precision_at_1"]
        yield title, seed, "overlapping hulls (%)", 100 * run["hull_overlap"]
        yield title, seed, "weight of the background (%)", 100 * run["background_weight"]
        yield title, seed, "best epoch", run["best_epoch"]


def study(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    variants: tuple[str, ...] = tuple(VARIANTS),
    runs: str = "runs/synthetic_tokens",
    sets_per_class: int = 512,
    max_epochs: int = 500,
):
    """Trains what is missing; pictures are of the first seed."""
    folder = Path(runs)
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for name in variants:
            path = folder / f"{name}-{seed}.npz"
            if not path.exists():
                run = solve(name, seed, sets_per_class, max_epochs)
                with replacing(path) as temporary:
                    np.savez(temporary, **run)
    done = finished(folder)
    shown = [name for name in PICTURES if name in variants]
    return rows(done), {f"synthetic_tokens_{name}": picture(done[name, seeds[0]]) for name in shown}


def picture(run):
    """Pooled test sets in the hulls of their classes, and the tokens, in the square of the tokens.

    A cross is a token of a class, a ring one of the background.
    """
    figure = class_hulls(run["points"], run["labels"])
    (axes,) = figure.axes
    tokens, frame = run["tokens"], 1.05 * LIMIT
    axes.scatter(*tokens[BACKGROUND:].T, c=INK, marker="+", s=45, linewidths=1, zorder=3)
    axes.scatter(*tokens[:BACKGROUND].T, s=90, facecolors="none", edgecolors=INK, zorder=3)
    square = Rectangle((-LIMIT, -LIMIT), 2 * LIMIT, 2 * LIMIT, fill=False, edgecolor=INK, alpha=0.4)
    axes.add_patch(square)
    axes.set(xlim=(-frame, frame), ylim=(-frame, frame))
    return figure
