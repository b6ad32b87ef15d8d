"""Flipped bits and cuts in every kind of file: the right answer, or an error that names it."""

import collections
import functools
import json
import shutil

import keras
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedded import KINDS, random_embeddings, write_embeddings

import gsp_tf
from gsp_tf.evaluation import TokenSets
from gsp_tf.losses import ContrastiveLoss
from gsp_tf.recipe import Recipe, recipe_values, resolved
from gsp_tf.runs import RunFolder
from gsp_tf.search import (
    Embeddings,
    Index,
    Thresholds,
    build_index,
    calibrate,
    change_index,
    verify_index,
)
from gsp_tf.search._embedded import EmbeddingsFolder
from gsp_tf.search._tables import ImageTable, token_columns
from gsp_tf.training import Checkpoint, MetricLearner

COUNT = 300
QUERIES = random_embeddings(5, seed=3)
PIXELS = np.random.default_rng(0).uniform(0, 255, (1, 8, 8, 3)).astype("float32")
INDEXES = {
    **{kind: (kind, None) for kind in KINDS},
    **{f"{kind}-vectors": (kind, "vectors") for kind in KINDS if kind not in ("exact", "hnsw")},
    "ivf_pq-sq8": ("ivf_pq", "sq8"),
}
"""Name of each index of the test: its kind and what rescores it."""


def small_model():
    layers = [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(4)]
    model = keras.Sequential(layers)
    model.compile("adam", "mse")
    return model


def with_tokens(path, vectors, first):
    """A folder of embeddings with local features."""
    count, random = len(vectors), np.random.default_rng(first)
    labels = [f"class {row % 30}" for row in range(count)]
    names = [f"/{row:03}.png" for row in range(first, first + count)]
    write_embeddings(path, vectors, names, labels, shard_size=100)
    folder = EmbeddingsFolder(path)
    for number, shard in enumerate(list(folder.shards())):
        rows = len(shard)
        sets = TokenSets(
            random.integers(-127, 128, (rows, 3, 8), dtype=np.int8),
            random.integers(0, 256, (rows, 3), dtype=np.uint8),
            random.integers(0, 16, (rows, 3), dtype=np.uint16),
        )
        for name, column in token_columns(sets).items():
            shard = shard.append_column(name, column)
        folder.write_shard(number, shard)
    return path


def write_run(path):
    """The files of a run, and a checkpoint of `small_model`."""
    folder = RunFolder(path).start(resolved(Recipe()))
    MetricLearner(small_model(), ContrastiveLoss()).save(folder.model_path)
    folder.update_metrics(status="finished", epochs=3, test={"map_at_r": 0.25, "num_queries": 60})
    folder.add_epoch(0, {"val_map_at_r": 0.0})
    for epoch in range(1, 4):
        folder.add_epoch(epoch, {"loss": 0.5**epoch, "val_map_at_r": 0.1 * epoch})
    checkpoint = Checkpoint(folder.checkpoint_path)
    checkpoint.set_model(small_model())
    checkpoint.on_epoch_begin(0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with every kind of file: those of gsp_tf, and arrays and tables of a user."""
    path = tmp_path_factory.mktemp("whole")
    vectors = random_embeddings(COUNT)
    folder = with_tokens(path / "embedded", vectors, 0)
    more = with_tokens(path.with_name("more"), random_embeddings(20, seed=4), COUNT)
    for name, (kind, rescore) in INDEXES.items():
        build_index(folder, path / name, kind, rescore=rescore)
        change_index(Index(path / name), more, delete=["/007.png"])
    calibrate(folder, 0.05, num_resamples=5, out=path / "thresholds.json")
    write_run(path / "run")
    gsp_tf.save_pretrained(small_model(), path / "published")
    (path / "published/README.md").unlink()  # which nothing reads
    paths, labels = [f"{row}.png" for row in range(COUNT)], [f"c{row}" for row in range(COUNT)]
    np.savez(path / "a.npz", embeddings=vectors, labels=labels)
    np.save(path / "a.npy", vectors)
    table = pa.table({"path": paths, "label": labels, "embedding": vectors.tolist()})
    pq.write_table(table, path / "a.parquet", row_group_size=100)
    table = pa.table({"path": paths, "camera": np.arange(COUNT), "city": labels})
    pq.write_table(table, path / "cameras.parquet", write_page_checksum=True)
    return path


def searched(path, mapped):
    index = Index(path, mapped)
    return [*index.search(QUERIES, 5), index.labels(index.ids), *index.token_sets(index.ids)]


def described(path):
    run = RunFolder(path)
    return [json.dumps(of) for of in (recipe_values(run.recipe()), run.metrics(), run.history())]


def learned(path):
    return [RunFolder(path.parent).learner(compile=False).embedder(PIXELS)]


def continued(path):
    model, checkpoint = small_model(), Checkpoint(path, resume=True)
    checkpoint.set_model(model)
    checkpoint.on_epoch_begin(0)
    return model.get_weights()


def blocks(path):
    read = Embeddings.read(path, tokens=None)
    return [read.paths, read.labels, read.vectors, *(read.tokens or ())]


def cameras(path):
    rows = ImageTable(path).rows([path.with_name(f"{row}.png") for row in range(COUNT)])
    return [rows[name] for name in rows.column_names]


READ = {
    "embedded": blocks,
    "thresholds.json": lambda path: [repr(Thresholds.read(path))],
    "published": lambda path: [gsp_tf.from_pretrained(path)(PIXELS)],
    "run": described,
    "run/model.keras": lambda path: [
        RunFolder(path.parent).learner(compile=False).embedder(PIXELS)
    ],
    "run/checkpoint.npz": continued,
    "a.npz": blocks,
    "a.npy": blocks,
    "a.parquet": blocks,
    "cameras.parquet": cameras,
}
UNSEALED = {"a.npy", "a.parquet", "cameras.parquet"}
"""Files of a user with values that no checksum, or not that of all bytes, covers."""


def answer(own, name, mapped):
    """What is read of an index or the like, in a form that can be compared."""
    values = searched(own / name, mapped) if name in INDEXES else READ[name](own / name)
    values = [v.to_pylist() if isinstance(v, pa.ChunkedArray) else np.asarray(v) for v in values]
    return [str(v) if isinstance(v, list) else v.tobytes() for v in values]


def damaged(content, random):
    """A file with a flipped bit, or its beginning."""
    if random.random() < 0.25:
        return content[: random.integers(len(content))]
    changed = bytearray(content)
    changed[random.integers(len(content))] ^= 1 << random.integers(8)
    return bytes(changed)


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 40), pytest.param(1, 2000, marks=pytest.mark.evidence)]
)
def test_damage_is_named_or_changes_nothing(whole, tmp_path, seed, count):
    own = shutil.copytree(whole, tmp_path / "own")
    files = [p for p in sorted(own.rglob("*")) if p.is_file() and p.name != ".lock"]
    random, found = np.random.default_rng(seed), collections.defaultdict(list)
    files = [files[place] for place in random.permutation(len(files))]
    right = functools.cache(functools.partial(answer, own))
    for number in range(count):
        file, mapped = files[number % len(files)], bool(number // len(files) % 2)
        place, content = file.relative_to(own), file.read_bytes()
        name = place.as_posix() if place.as_posix() in READ else place.parts[0]
        expected = right(name, mapped)
        file.write_bytes(damaged(content, random))
        try:
            outcome = "same" if answer(own, name, mapped) == expected else "other"
        except Exception as error:
            is_clear = type(error) in (ValueError, FileNotFoundError) and file.name in str(error)
            outcome = "refused" if is_clear else f"{type(error).__name__}: {error}"
        found[outcome].append(place.as_posix())
        file.write_bytes(content)
    print({outcome: len(names) for outcome, names in found.items()})
    assert set(found.pop("other", ())) <= UNSEALED
    assert set(found) <= {"same", "refused"}, found
    assert len(found["refused"]) > 0.7 * count
    for name in INDEXES:
        verify_index(own / name)


def test_a_change_carries_no_damage_on(whole, tmp_path):
    """Whichever file is damaged after the index was opened, a change refuses and keeps it."""
    own = shutil.copytree(whole / "ivf_pq-sq8", tmp_path / "index")
    for file in sorted(own.glob("*-*")):
        index, content = Index(own), bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        before = {path.name: path.read_bytes() for path in own.iterdir()}
        with pytest.raises(ValueError, match=f"{file.name} is damaged"):
            change_index(index, delete=["/000.png"])
        assert before == {path.name: path.read_bytes() for path in own.iterdir()}
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    change_index(index, delete=["/000.png"])
    assert verify_index(own).count == COUNT + 18
