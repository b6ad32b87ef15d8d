"""Runs with an untrained model, and folders of embeddings."""

import dataclasses
import json
import shutil

import keras
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from digit_runs import write_digits

from gsp_tf._metadata import ModelInfo, Preprocessing, write_entries
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import RunFolder, build_learner, fingerprint, load_splits
from gsp_tf.search._embedded import EmbeddingsFolder, EmbeddingsMetadata, ImageList, Outcome
from gsp_tf.search._tables import vector_column

KINDS = ("exact", "sq8", "hnsw", "hnsw_sq8", "ivf_sq8", "ivf_pq")

RECIPE = """
name: digits
data:
  name: folder
  path: {path}
  channels: {channels}
  image_size: 16
  resize: 18
  split_fractions: [0.4, 0.3, 0.3]
backbone: {{name: conv4}}
embedding: {{dim: 8}}
pooling: {pooling}
evaluation: {{batch_size: 16}}
"""


def save_digits(folder):
    """Handwritten digits as a folder of PNG files: 10 classes, 8 images per class."""
    return write_digits(folder, 8, "<b>{}", (24, 20))


def save_run(path, images, pooling="{name: gap}", channels=1):
    """A run folder with an untrained model."""
    file = path.with_suffix(".yaml")
    text = RECIPE.format(path=json.dumps(str(images)), pooling=pooling, channels=channels)
    file.write_text(text, encoding="utf-8")
    folder = RunFolder(path).start(load_recipe(file))
    keras.utils.set_random_seed(0)
    build_learner(folder.recipe(), num_classes=4, channels=channels).save(folder.model_path)
    return path


def untrained_run(path, recipe):
    """A run folder with a model of random weights, of the images of a recipe."""
    folder = RunFolder(path).start(recipe)
    train = load_splits(recipe).train
    build_learner(recipe, len(train.class_names), recipe.data.channels).save(folder.model_path)
    folder.update_metrics(status="finished", train_classes=fingerprint(train))
    return folder


def with_another_model(run, path):
    """A copy of a run whose model is another one, which nobody loads."""
    shutil.copytree(run, path)
    with open(RunFolder(path).model_path, "ab") as file:
        file.write(b"another")
    return path


def write_embeddings(path, embeddings, names=None, labels=None, shard_size=64, model="a"):
    """A folder of embeddings in the format of `embed_images`."""
    folder = EmbeddingsFolder(path)
    folder.path.mkdir(parents=True)
    embeddings = np.asarray(embeddings, "float32")
    names = [f"/{i:03}.png" for i in range(len(embeddings))] if names is None else names
    labels = [None] * len(embeddings) if labels is None else labels
    lengths = np.linalg.norm(embeddings, axis=1)
    metadata = EmbeddingsMetadata(
        model=ModelInfo(model, "r", "/no/such/run", Preprocessing(16, None)),
        images=ImageList(len(embeddings), "a"),
        dim=embeddings.shape[1],
        metric="euclidean",
        shard_size=shard_size,
        versions={},
        outcome=Outcome(len(embeddings), 0, (float(lengths.min()), float(lengths.max()))),
    )
    metadata.write(folder.metadata_path)
    for number in range(metadata.num_shards):
        part = slice(number * shard_size, (number + 1) * shard_size)
        columns = {
            "path": pa.array(names[part], pa.string()),
            "label": pa.array(labels[part], pa.string()),
            "embedding": vector_column(embeddings[part]),
        }
        folder.write_shard(number, pa.table(columns))
    return path


def rows_of(path):
    """The rows of a CSV or Parquet file, as dictionaries."""
    table = pq.read_table(path) if path.suffix == ".parquet" else pa_csv.read_csv(path)
    return table.to_pylist()


def edit_json(path, **changes):
    """Change entries of a JSON file, and its checksum if it has one."""
    entries = json.loads(path.read_text("utf-8"))
    if "seal" in entries:
        entries.pop("seal")
        write_entries(path, entries | changes)
    else:
        path.write_text(json.dumps(entries | changes), "utf-8")


def edit_recipe(run, old, new):
    """Replace a text of the recipe of a run and remove the checksum above it, as one may."""
    path = RunFolder(run).recipe_path
    first, rest = path.read_text("utf-8").split("\n", 1)
    assert first.startswith("# sha256") and rest.count(old) == 1
    path.write_text(rest.replace(old, new), "utf-8")


def thresholds_at(thresholds, **distances):
    """Thresholds with other distances of `match` and `unknown`."""
    changed = {}
    for name, value in distances.items():
        threshold = getattr(thresholds, name)
        distance = dataclasses.replace(threshold.distance, value=value, low=None, high=None)
        changed[name] = dataclasses.replace(threshold, distance=distance)
    return dataclasses.replace(thresholds, **changed)


def random_embeddings(count, dim=8, seed=0):
    """Unit vectors around a few directions; some vectors occur twice."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(max(1, count // 10), dim))
    embeddings = directions[rng.integers(0, len(directions), count)]
    embeddings = embeddings + 0.4 * rng.normal(size=(count, dim))
    embeddings[1::20] = embeddings[::20][: len(embeddings[1::20])]
    return (embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)).astype("float32")
