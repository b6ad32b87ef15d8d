"""Average and generalized sum pooling on sets of tokens (GSP, ICCV 2023, Fig. 3a).

python experiments/studies/synthetic_tokens.py [--seeds '[0, 1, 2, 3, 4]'] [--variants '[gap, gsp]']

Sets of 50 tokens of 16 classes, about half of them of a background that all classes share, are
embedded by pooling learned tokens of two dimensions. MAP@R, P@1 and the share of pairs of classes
whose convex hulls overlap are taken on sets that were not trained on, of the same classes.

A finished run is kept in `--runs` and not done again; the numbers written are those of all that are
there. Runs of other sizes need a folder of their own.
"""

from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import pictures
import records
import tensorflow as tf
from jsonargparse import auto_cli
from keras import ops
from matplotlib.patches import Rectangle

from gsp_tf._files import replacing
from gsp_tf.data import ClassBalancedSampler, synthetic_token_sets
from gsp_tf.evaluation import hull_overlap, retrieval_metrics
from gsp_tf.layers import GeneralizedSumPooling
from gsp_tf.losses import ContrastiveLoss
from gsp_tf.training import MetricLearner, RetrievalEvaluation, embed
from gsp_tf.visual import INK, class_hulls

VOCABULARY = 4 + 16 * 4
BACKGROUND = 4
SET_SIZE = 50
LIMIT = 0.3
LEARNING_RATE = 1e-4
PATIENCE = 30
CLASSES_PER_BATCH, SETS_PER_CLASS = 16, 4
TRAIN, VALIDATION, TEST = range(3)
VALIDATION_SETS = 64
TEST_SETS = 128
FRAME = 1.05 * LIMIT


@dataclass
class Variant:
    """What is trained.

    Args:
        title: name in the table.
        pooling: "gap" or "gsp".
        margin: negative margin of C2, in units of the plane.
        num_prototypes, transport_ratio, entropy_smoothing: m, μ and ε of GSP.
    """

    title: str
    pooling: str
    margin: float = 0.2
    num_prototypes: int = 16
    transport_ratio: float = 0.3
    entropy_smoothing: float = 20.0


VARIANTS = {
    "gap": Variant("GAP", "gap"),
    "gsp": Variant("GSP", "gsp"),
    "gap_margin": Variant("GAP, margin 0.5", "gap", margin=0.5),
    "gsp_margin": Variant("GSP, margin 0.5", "gsp", margin=0.5),
}
PICTURES = {"gap", "gsp"}


def within_limits(tokens):
    """Keeps tokens in the square that they were drawn from."""
    return ops.clip(tokens, -LIMIT, LIMIT)


def token_embedder(variant):
    """Learned tokens of two dimensions and their pooling: sets `(B, 50)` to `(B, 2)`.

    Args:
        variant: `Variant`.
    """
    anywhere = keras.initializers.RandomUniform(-LIMIT, LIMIT)
    pooling = (
        keras.layers.GlobalAveragePooling1D()
        if variant.pooling == "gap"
        else GeneralizedSumPooling(
            variant.num_prototypes,
            variant.transport_ratio,
            variant.entropy_smoothing,
            prototypes_initializer=anywhere.clone(),
        )
    )
    return keras.Sequential(
        [
            keras.Input((SET_SIZE,), dtype="int32"),
            keras.layers.Embedding(VOCABULARY, 2, anywhere, embeddings_constraint=within_limits),
            pooling,
        ]
    )


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
    """Mean weight of the background in the pooled sets.

    Args:
        embedder: of `token_embedder`.
        tokens: sets `(N, 50)`.
    """
    embedding, pooling = embedder.layers
    if isinstance(pooling, GeneralizedSumPooling):
        weights = pooling.pooling_weights(embedding(tokens)).numpy()
    else:
        weights = np.full(tokens.shape, 1 / SET_SIZE)
    return np.where(tokens < BACKGROUND, weights, 0).sum(axis=1).mean()


def solve(variant, seed, sets_per_class, max_epochs):
    """Train a variant until validation MAP@R has not risen for 30 epochs; keep the best epoch.

    Args:
        variant: `Variant`.
        seed: seed of sets, weights and batches.
        sets_per_class: training sets of a class; an epoch draws as many sets as there are.
        max_epochs: end of training whatever happens.

    Returns:
        dict of arrays: pooled test sets `points (N, 2)`, their `labels (N,)`, the `tokens`
        `(68, 2)`, and `map_at_r`, `precision_at_1`, `hull_overlap`, `background_weight` and
        `best_epoch`.
    """
    keras.utils.set_random_seed(seed)
    train = synthetic_token_sets(sets_per_class, seed=(seed, TRAIN))
    validation = synthetic_token_sets(VALIDATION_SETS, seed=(seed, VALIDATION))
    test = synthetic_token_sets(TEST_SETS, seed=(seed, TEST))
    embedder = token_embedder(variant)
    learner = MetricLearner(
        embedder, ContrastiveLoss(negative_margin=variant.margin, normalize=False)
    )
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
    """Runs of a folder as `{(variant, seed): arrays}`, in the order of the variants."""
    runs = {}
    for name in VARIANTS:
        for path in sorted(Path(folder).glob(f"{name}-*.npz")):
            with np.load(path) as arrays:
                runs[name, int(path.stem.rpartition("-")[2])] = dict(arrays)
    return runs


def rows(runs):
    """The numbers of `finished` runs for `records.write`, shares in percent."""
    for (name, seed), run in runs.items():
        title = VARIANTS[name].title
        yield title, seed, "MAP@R", 100 * run["map_at_r"]
        yield title, seed, "P@1", 100 * run["precision_at_1"]
        yield title, seed, "overlapping hulls (%)", 100 * run["hull_overlap"]
        yield title, seed, "weight of the background (%)", 100 * run["background_weight"]
        yield title, seed, "best epoch", run["best_epoch"]


def draw(run):
    """Pooled test sets in the hulls of their classes, and the tokens, in the square of the tokens.

    Args:
        run: arrays of a finished run.

    Returns:
        matplotlib Figure; a cross is a token of a class, a ring one of the background.
    """
    figure = class_hulls(run["points"], run["labels"])
    (axes,) = figure.axes
    tokens = run["tokens"]
    axes.scatter(*tokens[BACKGROUND:].T, c=INK, marker="+", s=45, linewidths=1, zorder=3)
    axes.scatter(*tokens[:BACKGROUND].T, s=90, facecolors="none", edgecolors=INK, zorder=3)
    square = Rectangle((-LIMIT, -LIMIT), 2 * LIMIT, 2 * LIMIT, fill=False, edgecolor=INK, alpha=0.4)
    axes.add_patch(square)
    axes.set(xlim=(-FRAME, FRAME), ylim=(-FRAME, FRAME))
    return figure


def main(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    variants: tuple[str, ...] = tuple(VARIANTS),
    runs: str = "runs/synthetic_tokens",
    results: str = "experiments/results/studies",
    figures: str = "docs/figures",
    sets_per_class: int = 512,
    max_epochs: int = 500,
):
    """Train what is missing, write the numbers of all finished runs and draw GAP and GSP.

    Args:
        seeds: seeds of the variants.
        variants: names in VARIANTS.
        runs: folder that finished runs are kept in.
        results: folder of synthetic_tokens.csv.
        figures: folder of synthetic_tokens_gap.png and synthetic_tokens_gsp.png, of the first seed.
        sets_per_class: training sets of a class.
        max_epochs: end of training whatever happens.
    """
    folder = Path(runs)
    folder.mkdir(parents=True, exist_ok=True)
    Path(figures).mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for name in variants:
            path = folder / f"{name}-{seed}.npz"
            if path.exists():
                continue
            run = solve(VARIANTS[name], seed, sets_per_class, max_epochs)
            with replacing(path) as temporary:
                np.savez(temporary, **run)
            print(f"{VARIANTS[name].title}, seed {seed}: MAP@R {100 * run['map_at_r']:.2f}")
    done = finished(folder)
    records.write(Path(results, "synthetic_tokens.csv"), rows(done))
    for name in PICTURES & set(variants):
        figure = draw(done[name, seeds[0]])
        pictures.save(figure, Path(figures, f"synthetic_tokens_{name}.png"), dpi=110)


if __name__ == "__main__":
    # So that sums do not depend on the number of cores.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    auto_cli(main, as_positional=False)
