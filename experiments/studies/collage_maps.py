"""Cifar Collage as the authors' program makes it and as the paper prints it, from kept features.

A classifier of CIFAR-100 turns collages into maps of features once, and heads train on the maps.

- `program`: three classes of each super-class train and two test. Each tile has one collage. The
  super-classes of a batch have a fixed order, so the halves of L_ZS are the same in every batch.
- `paper`: two classes of each super-class train, and two test; the fifth is left out. Each tile has
  four collages. The order of a batch changes, and the halves of L_ZS with it.

Batches are 16 super-classes of 4 images, with Adam at 1e-3, and GSP takes its prototypes from the
pooled vectors of 16 batches. A head is the last state of its training: nothing is chosen by test
classes. The ceiling is what the maps give without training: the average of all places, and of the
places of the labelled tile; the tile that a linear score takes for it; the tile alone.

With `--rate 0.1` the classifier trains too, at a tenth of the rate, from the collages themselves.

The classifiers are runs of cifar100_classifier.yaml and resnet20_cifar100.yaml in
experiments/results. The table is experiments/results/evidence/collage_maps.csv. What it has is not
trained again.
"""

from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import records
import tensorflow as tf
from sklearn.linear_model import LogisticRegression
from sweep import HERE, SHOWN

from gsp_tf import backbones, layers, losses
from gsp_tf._files import replacing
from gsp_tf.data import as_arrays, collage_splits, load_cifar100
from gsp_tf.evaluation import foreground_share, retrieval_metrics
from gsp_tf.runs import Run, features_model
from gsp_tf.training import MetricLearner, with_learning_rate_multipliers

OUT = HERE / "results/evidence/collage_maps.csv"
FORMS = {"program": ((0.6, 0.0, 0.4), 1), "paper": ((0.4, 0.2, 0.4), 4)}
"""Shares of the classes that train, are left out and test; collages of each training tile."""
NETWORKS = ("resnetv2_20", "resnetv2_20_bottleneck", "resnet20")
LAYERS = "conv2d|batch_normalization"  # of a network
SUPER_CLASSES, EACH, DIM, TESTED = 16, 4, 128, 6400
LOSSES = {"C2": losses.ContrastiveLoss, "ProxyNCA++": lambda: losses.ProxyNCALoss(SUPER_CLASSES)}


def poolings():
    """Each pooling, whether the map to 128 dimensions precedes it, and the weight of L_ZS."""
    gsp = dict(num_prototypes=64, transport_ratio=0.2, entropy_smoothing=10.0)

    def made(layer, before=False, weight=0, **options):
        return SimpleNamespace(layer=layer, before=before, weight=weight, options=options)

    return {
        "GAP": made(keras.layers.GlobalAveragePooling2D),
        "GSP": made(layers.GeneralizedSumPooling, before=True, **gsp),
        "GSP + L_ZS": made(layers.GeneralizedSumPooling, before=True, weight=0.5, **gsp),
        "GSP, ε 50": made(
            layers.GeneralizedSumPooling, before=True, **{**gsp, "entropy_smoothing": 50.0}
        ),
        "DELF's attention": made(layers.DelfPooling),
        "generalized mean": made(layers.GeneralizedMeanPooling),
        "tile alone, GAP": made(keras.layers.GlobalAveragePooling2D),
    }


def classifier(name):
    """The network of a run that classifies CIFAR-100, from images of any size to maps."""
    learner = Run(HERE / "results" / f"{name}_cifar100-0").folder.learner(compile=False)
    trained = features_model(learner.embedder)[0]
    (own,) = (layer for layer in trained.layers if isinstance(layer, keras.Model))
    network = backbones.create(name, (None, None, 3))
    network.set_weights(own.get_weights())
    return network


def mapped(network, images, indices, copies=1):
    """The maps of some collages, float16, and where the tile is in the first of each."""
    seeds = np.array([(copy, index) for index in indices for copy in range(copies)], "int32")
    drawn = tf.data.Dataset.from_tensor_slices(seeds).map(lambda seed: images.load(seed[1], seed))
    forward = tf.function(lambda x: tf.cast(network(x, training=False), tf.float16))
    maps = [forward(tf.cast(batch, tf.float32)).numpy() for batch in drawn.batch(200)]
    masks = images.foreground_masks(indices)
    return dict(
        maps=np.concatenate(maps), labels=np.repeat(images.labels[indices], copies), masks=masks
    )


def parts(name, form):
    """Training and test maps of collages, and of the labelled tiles alone, kept in `runs`."""
    fractions, copies = FORMS[form]
    tiles, network, found = as_arrays(load_cifar100("data/cifar100"), 32), classifier(name), {}
    for grid in (2, 1):
        train, _, test = collage_splits(tiles, None, fractions, grid, label="super_class")
        chosen = np.sort(np.random.default_rng(9).permutation(len(test))[:TESTED])
        sets = (train, np.arange(len(train)), copies), (test, chosen, 1)
        for kind, (images, indices, number) in zip(("train", "test"), sets, strict=True):
            path = Path("runs/collage_maps", f"{name}-{form}-{grid}-{kind}.npz")
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                with replacing(path) as temporary:
                    np.savez(temporary, **mapped(network, images, indices, number))
            of_images = dict(images=images, indices=indices, copies=number)
            part = found[grid, kind] = SimpleNamespace(**np.load(path), **of_images)
            if kind == "train":
                part.tensor = tf.constant(part.maps)  # once: the graph of each training keeps it
    return found


def metrics(embeddings, labels):
    values = retrieval_metrics(embeddings, labels)
    return {shown: 100 * values[name] for shown, name in SHOWN.items()}


def ceiling(found):
    """Rows of the maps without training. The score of a place is linear, of training collages."""
    test, alone = found[2, "test"], found[1, "test"]
    side = test.maps.shape[1] // 2

    def by_tile(maps):  # (N, tiles, places, C)
        cut = maps.reshape(len(maps), 2, side, 2, side, -1).swapaxes(2, 3)
        return cut.reshape(len(maps), 4, side * side, -1).astype("float32")

    tiles, place = by_tile(test.maps), test.masks.reshape(-1, 4)
    seen, rng = found[2, "train"], np.random.default_rng(0)
    some = rng.choice(len(seen.masks), 2000, replace=False)
    copies = len(seen.maps) // len(seen.masks)
    features = by_tile(seen.maps[copies * some])[:, :, ::4]
    is_tile = np.repeat(seen.masks[some].reshape(-1, 4, 1), features.shape[2], axis=2)
    score = LogisticRegression(max_iter=300).fit(
        features.reshape(-1, features.shape[-1]), is_tile.ravel()
    )
    scores = np.concatenate([part @ score.coef_[0] for part in np.array_split(tiles, 20)])
    best = scores.mean(axis=2).argmax(axis=1)
    means, images = tiles.mean(axis=2), np.arange(len(tiles))
    yield "frozen, GAP", {**metrics(means.mean(axis=1), test.labels), "weight on the tile": 0.25}
    labelled = metrics(means[place], test.labels)
    yield "frozen, average of the labelled tile", labelled | {"weight on the tile": 1}
    chosen = metrics(means[images, best], test.labels)
    share = place[images, best].mean()
    yield "frozen, average of the tile with the best score", chosen | {"weight on the tile": share}
    yield "frozen, tile alone", metrics(alone.maps.mean(axis=(1, 2), dtype="float32"), alone.labels)


def batches(data, steps, form, seed, of_images=False):
    """Maps, or the collages themselves, and labels of 16 super-classes of 4 images a step."""
    rng, order = np.random.default_rng(seed), []
    members = [np.flatnonzero(data.labels == label) for label in range(SUPER_CLASSES)]
    passes = [[] for _ in members]
    for _ in range(steps):
        chosen = []
        for label, own in enumerate(members):
            if len(passes[label]) < EACH:
                passes[label] = [*rng.permutation(own)]
            chosen.append([passes[label].pop() for _ in range(EACH)])
        if form == "paper":
            rng.shuffle(chosen)
        order.append(np.ravel(chosen if form == "paper" else np.transpose(chosen)))
    labels = tf.constant(data.labels.astype("int32"))
    drawn = tf.data.Dataset.from_tensor_slices(np.stack(order).astype("int32"))
    if of_images:
        return drawn.map(lambda i: (collages(data, i), tf.gather(labels, i)), 2).prefetch(2)
    maps = data.tensor
    return drawn.map(lambda i: (tf.cast(tf.gather(maps, i), tf.float32), tf.gather(labels, i)))


def collages(data, rows):
    """The collages of some rows of the maps, as the maps were made of them."""
    indices = tf.gather(tf.constant(data.indices.astype("int32")), rows // data.copies)
    seeds = tf.stack([rows % data.copies, indices], axis=1)
    draw = lambda seed: tf.cast(data.images.load(seed[1], seed), tf.float32)  # noqa: E731
    return tf.map_fn(draw, seeds, fn_output_signature=tf.float32)


def trained(found, grid, method, loss, form, seed, steps, network=None, rate=0.0):
    """The numbers of a head after its steps, on the test classes; a network trains at `rate`."""
    keras.utils.set_random_seed(seed)
    train, test = found[grid, "train"], found[grid, "test"]
    maps = keras.Input(train.maps.shape[1:])
    own, options = poolings()[method], {}
    embedding = keras.layers.Conv2D(DIM, 1, use_bias=False, name="embedding")
    if own.weight:
        options["return_attributes"] = True
    pooling = own.layer(**own.options, **options, name="pooling")
    if own.before:
        pooled = pooling(embedding(maps))
    else:
        pooled = keras.layers.Dense(DIM, use_bias=False, name="embedding")(pooling(maps))
    attributes = None
    if own.weight:
        pooled, attributes = pooled
    unit = layers.L2Normalization(name="normalization")(pooled)
    embedder = keras.Model(maps, unit if attributes is None else [unit, attributes])
    data = batches(train, steps, form, seed)
    head = keras.Model(maps, unit)
    if own.before:
        local = keras.Model(maps, pooling.input)
        first = (local(batch).numpy() for batch, _ in data.take(16))
        pooling.adapt(x.mean(axis=(1, 2), keepdims=True) for x in first)
    zero_shot = {}
    if own.weight:
        of_attributes = losses.ZeroShotLoss(SUPER_CLASSES, DIM, scale=1.0, reduction="sum_of_means")
        zero_shot = dict(attribute_loss=of_attributes, attribute_weight=own.weight)
    rates = {"class_embeddings": 10} if own.weight else {}
    test_maps = test.maps
    if network is not None:
        images = keras.Input(collages(train, tf.range(1)).shape[1:])
        embedder = keras.Model(images, embedder(network(images)))
        data = batches(train, steps, form, seed, of_images=True)
        rates[LAYERS] = rate
    learner = MetricLearner(embedder, LOSSES[loss](), **zero_shot)
    learner.compile(with_learning_rate_multipliers(keras.optimizers.Adam(1e-3), rates))
    learner.fit(data, epochs=1, steps_per_epoch=steps, verbose=0)
    if network is not None:
        test_maps = mapped(network, test.images, test.indices)["maps"]
    values = metrics(head.predict(test_maps, batch_size=200, verbose=0), test.labels)
    if grid > 1:
        if method == "GAP":
            values["weight on the tile"] = 0.25
        if hasattr(pooling, "pooling_weights"):
            local = keras.Model(maps, pooling.input)
            blocks = np.array_split(test_maps[:1024].astype("float32"), 8)
            weights = np.concatenate([pooling.pooling_weights(local(block)) for block in blocks])
            weights = weights.reshape(len(weights), *weights.shape[1:3])
            values["weight on the tile"] = foreground_share(weights, test.masks[:1024]).mean()
    return values


def study(
    networks: tuple[str, ...] = NETWORKS,
    forms: tuple[str, ...] = tuple(FORMS),
    losses: tuple[str, ...] = tuple(LOSSES),
    methods: tuple[str, ...] = tuple(poolings()),
    seeds: tuple[int, ...] = (0, 1, 2),
    steps: int = 3000,
    rate: float = 0.0,
):
    """Measures the ceilings, trains the heads, and adds their numbers to the table as they come."""

    def known():
        return records.read(OUT) if OUT.exists() else {}

    for network in networks:
        for form in forms:
            found = parts(network, form)
            place = f"{network}, {form}"
            if rate:
                place += f" at rate {rate}, {steps} steps"
            elif f"{place}: frozen, GAP" not in known():
                for name, values in ceiling(found):
                    records.add(OUT, [(f"{place}: {name}", 0, *item) for item in values.items()])
            for seed in seeds:
                for loss in losses:
                    for method in methods:
                        variant = f"{place}, {loss}: {method}"
                        if seed in known().get(variant, {}).get("MAP@R", {}):
                            continue
                        grid = 1 if method.startswith("tile") else 2
                        trains = classifier(network) if rate else None
                        work = found, grid, method, loss, form, seed, steps
                        values = trained(*work, trains, rate)
                        records.add(OUT, [(variant, seed, *item) for item in values.items()])
                        print(variant, seed, values, flush=True)
