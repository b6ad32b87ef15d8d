"""The GSP authors' program and this library on the same arrays, from the same weights.

python experiments/studies/program.py library [--seed 0]
OTHER/bin/python experiments/studies/program.py program --source FOLDER --variant gsp [--seed 0]
python experiments/studies/program.py table

OTHER is an environment with tensorflow-cpu 2.15, and FOLDER the folder `tensorflow` of
github.com/yetigurbuz/generalized-sum-pooling with what it imports. Collages of CIFAR-100 train the
last stage of a ResNet20 for 200 steps with C2: 16 classes of 4 images in the program's order, Adam
at 1e-3. Pooling, transport, loss and their gradients are the program's, and so is the start of the
prototypes in the variant `own`: the first 16 batches train with average pooling and fill its
memory. The network, which both share, is built twice. All embeddings are measured alike.
"""

import argparse
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

HERE = Path(__file__).parents[1]
ARRAYS = Path("runs/program")
STEPS, ADAPTED, TESTED = 200, 16, 6400
RATIO, SMOOTHING, PROTOTYPES, DIM, MARGIN = 0.2, 10.0, 64, 128, 0.5
TITLES = {
    "gap": "GAP",
    "gsp": "GSP",
    "pooled": "GSP, prototypes from pooled vectors",
    "own": "GSP, prototypes from its memory",
}
SHOWN = {"P@1": "precision_at_1", "MAP@R": "map_at_r"}


def library(seed):
    """Draw the arrays of a seed, and train GAP and GSP of this library on them.

    GSP takes its prototypes once from local features and once from pooled vectors.
    """
    import keras
    import tensorflow as tf

    from gsp_tf.recipe import load_recipe
    from gsp_tf.runs import adapt_prototypes, build_learner, load_splits

    methods = HERE / "methods/cifar_collage"
    files = [HERE / "benchmarks/cifar_collage.yaml", HERE / "evidence/collage.yaml"]
    files.append(methods / "c2.yaml")
    options = ["--backbone.frozen_to=stage_2"]
    recipes = {
        "gap": load_recipe(files, options),
        "gsp": load_recipe([*files, methods / "gsp.yaml"], [*options, "--zero_shot.weight=0"]),
    }
    recipes["pooled"] = recipes["gsp"]
    train, _, test = load_splits(recipes["gap"])[:3]

    def drawn(images, indices, seed):
        def load(index):
            return tf.cast(images.load(index, tf.stack([seed, index])), tf.uint8)

        mapped = tf.map_fn(load, tf.constant(indices, tf.int32), fn_output_signature=tf.uint8)
        return mapped.numpy()

    rng, left, chosen = np.random.default_rng(seed), {}, []
    for _ in range(STEPS + ADAPTED):
        columns = []
        for label in range(len(train.class_names)):
            if len(left.get(label, ())) < 4:
                left[label] = [*rng.permutation(np.flatnonzero(train.labels == label))]
            columns.append([left[label].pop() for _ in range(4)])
        chosen.append(np.transpose(columns).ravel())
    first = 1000 * (seed + 1)
    images = np.stack([drawn(train, part, first + step) for step, part in enumerate(chosen)])
    labels = train.labels[np.stack(chosen)]
    tested = np.sort(np.random.default_rng(9).permutation(len(test))[:TESTED])
    folder = ARRAYS / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"images": images, "labels": labels, "test": drawn(test, tested, 0)}
    np.savez(folder / "arrays.npz", **arrays, test_labels=test.labels[tested])
    kernel = None
    for name, recipe in recipes.items():
        keras.utils.set_random_seed(seed)
        learner = build_learner(recipe, len(train.class_names), 3)
        embedder = learner.embedder
        if kernel is None:
            kernel = embedder.get_layer("embedding").get_weights()
        embedder.get_layer("embedding").set_weights(kernel)
        if name != "gap":
            batches = [(batch, None) for batch in images[STEPS:].astype("float32")]
            adapt_prototypes(embedder, batches, is_pooled=name == "pooled")
        start = {variable.path: variable.numpy() for variable in embedder.variables}
        np.savez(folder / f"{name}_start.npz", **start)
        losses = []
        for batch, classes in zip(images[:STEPS].astype("float32"), labels, strict=False):
            losses.append(learner.train_on_batch(batch, classes, return_dict=True)["loss"])
            learner.reset_metrics()
        embeddings = embedder.predict(arrays["test"], batch_size=200, verbose=0)
        _save(folder, f"{name} of the library", losses, embeddings)


def program(seed, variant, source):
    """Train on the arrays of a seed with the layers and the loss of the program."""
    sys.path.insert(0, source)
    import framework  # noqa: F401  its parts import each other in this order alone
    import tensorflow as tf
    from framework.layers.pooling.generalized_sum_pooling import GeneralizedSumPooling
    from framework.losses.contrastive_loss import ContrastiveLoss

    folder = ARRAYS / str(seed)
    arrays = np.load(folder / "arrays.npz")
    start = dict(np.load(folder / f"{'gap' if variant == 'gap' else 'gsp'}_start.npz"))
    lower, upper = _network(tf.keras, start)
    kernel = start["embedding/kernel"].reshape(1, 1, -1, DIM)
    local = tf.zeros((2, 16, 16, DIM))
    if variant == "gap":
        embedding = tf.keras.layers.Conv2D(DIM, 1, use_bias=False)
        embedding.build((None, 16, 16, kernel.shape[2]))
        added = embedding.trainable_weights

        def pooled(features, training):
            return tf.reduce_mean(embedding(features), [1, 2])
    else:
        pooling = GeneralizedSumPooling(
            DIM,
            PROTOTYPES,
            RATIO,
            entropy_regularizer_weight=SMOOTHING,
            memory_size=1024 if variant == "own" else PROTOTYPES,  # as many are no memory
        )
        pooling.build((None, 16, 16, kernel.shape[2]))
        pooling.built = True
        pooling._partial_transport([local, tf.ones(2), local[..., 0]])
        embedding = pooling._pre_feature_head
        embedding.build((None, 16, 16, kernel.shape[2]))
        if variant == "gsp":
            pooling._partial_transport.kernel.assign(start["pooling/prototypes"])
        added = [*embedding.trainable_weights, pooling._partial_transport.kernel]

        def pooled(features, training):
            return pooling(features, training=training)[:, :DIM]

    embedding.set_weights([kernel])
    loss = ContrastiveLoss(
        0.0,
        MARGIN,
        model=SimpleNamespace(arch=upper, learning_rate_multipliers={}),
        normalize_embeddings=True,
        lipschitz_cont=False,
        proxy_anchor=False,
    )
    weights = upper.trainable_weights + added
    optimizer = tf.keras.optimizers.Adam(1e-3)
    optimizer.build(weights)

    @tf.function
    def step(images, labels):
        features = lower(images, training=False)
        with tf.GradientTape() as tape:
            value = loss.call(labels, pooled(upper(features, training=True), True))
        optimizer.apply_gradients(zip(tape.gradient(value, weights), weights, strict=True))
        return value

    @tf.function
    def embed(images):
        values = pooled(upper(lower(images, training=False), training=False), False)
        return tf.math.l2_normalize(values, axis=1)  # as in the loss, and in the library

    images, labels = arrays["images"][:STEPS], arrays["labels"].astype("int32")
    losses = [
        float(step(batch.astype("float32"), classes[:, None]))
        for batch, classes in zip(images, labels, strict=False)
    ]
    parts = np.array_split(arrays["test"].astype("float32"), TESTED // 200)
    embeddings = np.concatenate([embed(part).numpy() for part in parts])
    _save(folder, f"{variant} of the program", losses, embeddings)


def _network(keras, start):
    """The ResNet20 of the library with its weights: the part that is frozen, and the last stage."""
    layers = keras.layers
    made = {"conv2d": [], "batch_normalization": []}

    def convolved(x, width, size=3, strides=1):
        made["conv2d"].append(layers.Conv2D(width, size, strides, "same", use_bias=False))
        made["batch_normalization"].append(layers.BatchNormalization(momentum=0.9))
        return made["batch_normalization"][-1](made["conv2d"][-1](x))

    images = keras.Input((64, 64, 3))
    x = layers.Rescaling(1 / 127.5, offset=-1.0)(images)
    x = middle = layers.ReLU()(convolved(x, 16))
    for stage, width in enumerate((16, 32, 64)):
        middle = x
        for block in range(3):
            strides = 2 if stage and not block else 1
            shortcut = x
            x = convolved(layers.ReLU()(convolved(x, width, 3, strides)), width)
            if strides > 1:
                shortcut = convolved(shortcut, width, 1, strides)
            x = layers.ReLU()(layers.Add()([x, shortcut]))
    names = {
        "conv2d": ("kernel",),
        "batch_normalization": ("gamma", "beta", "moving_mean", "moving_variance"),
    }
    for prefix, own in made.items():
        found = {}  # by the number in the name of the layer: the order in which it was made
        for path, value in start.items():
            *_, layer, weight = path.split("/")
            if layer == prefix or layer.startswith(f"{prefix}_"):
                number = int(layer.removeprefix(prefix).lstrip("_") or 0)
                found.setdefault(number, {})[weight] = value
        for layer, number in zip(own, sorted(found), strict=True):
            layer.set_weights([found[number][weight] for weight in names[prefix]])
    return keras.Model(images, middle), keras.Model(middle, x)


def _save(folder, name, losses, embeddings):
    np.savez(folder / f"{name}.npz", losses=losses, embeddings=embeddings)
    print(f"{folder / name}.npz: loss {losses[0]:.6f} to {np.mean(losses[-50:]):.4f}")


def table():
    """Write the numbers of all seeds to experiments/results/evidence/program.csv."""
    import records

    from gsp_tf.evaluation import retrieval_metrics

    rows = []
    for folder in sorted(ARRAYS.iterdir()):
        labels = np.load(folder / "arrays.npz")["test_labels"]
        for path in sorted(folder.glob("* of the *.npz")):
            variant, whose = path.stem.split(" of the ")
            result, place = np.load(path), (f"{whose}, {TITLES[variant]}", int(folder.name))
            measured = retrieval_metrics(result["embeddings"], labels)
            rows += [(*place, name, 100 * measured[key]) for name, key in SHOWN.items()]
            rows.append((*place, "loss, last 50 steps", result["losses"][-50:].mean()))
            ours = folder / path.name.replace("program", "library")
            if ours != path and ours.exists():
                apart = abs(result["losses"] - np.load(ours)["losses"])
                for steps in 1, 20, STEPS:
                    title = f"loss apart from the library, {steps} step{'s' if steps > 1 else ''}"
                    rows.append((*place, title, apart[:steps].max()))
    path = HERE / "results/evidence/program.csv"
    records.write(path, rows)
    print(records.table(path))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("library", "program", "table"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variant", choices=("gap", "gsp", "own"), default="gsp")
    parser.add_argument("--source", help="the folder tensorflow of the program")
    given = parser.parse_args()
    if given.command == "library":
        library(given.seed)
    elif given.command == "program":
        program(given.seed, given.variant, given.source)
    else:
        table()
