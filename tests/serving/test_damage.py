"""Flipped bits and cuts in every kind of file: the right answer, or an error that names it."""

import json
import shutil

import keras
import numpy as np
import pyarrow as pa
import pytest
from embedded import random_embeddings, write_embeddings

import gsp_tf
from gsp_tf.evaluation import TokenSets
from gsp_tf.serving import (
    EmbeddingsFolder,
    Index,
    Thresholds,
    build_index,
    calibrate,
    vector_source,
    verify_index,
)
from gsp_tf.serving.embedding import Shard
from gsp_tf.serving.embedding._token_columns import token_columns

COUNT = 300
QUERIES = random_embeddings(5, seed=3)
PIXELS = np.random.default_rng(0).uniform(0, 255, (1, 8, 8, 3)).astype("float32")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with embeddings and local features, their index, thresholds, arrays and a model."""
    path = tmp_path_factory.mktemp("whole")
    vectors, random = random_embeddings(COUNT), np.random.default_rng(1)
    labels = [f"class {row % 30}" for row in range(COUNT)]
    embedded = write_embeddings(path / "embedded", vectors, labels=labels, shard_size=100)
    folder = EmbeddingsFolder(embedded)
    for number, shard in enumerate(list(folder.shards())):
        sets = TokenSets(
            random.integers(-127, 128, (100, 3, 8), dtype=np.int8),
            random.integers(0, 256, (100, 3), dtype=np.uint8),
            random.integers(0, 16, (100, 3), dtype=np.uint16),
        )
        columns = token_columns(sets)
        folder.write_shard(number, Shard(shard.paths, shard.labels, shard.embeddings, [], columns))
    build_index(embedded, path / "index", "ivf_pq", rescore="sq8")
    calibrate(embedded, 0.05, num_resamples=5, out=path / "thresholds.json")
    np.savez(path / "a.npz", embeddings=vectors, labels=labels)
    model = keras.Sequential(
        [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(4)]
    )
    gsp_tf.save_pretrained(model, path / "published")
    return path


def searched(path):
    index = Index(path / "index")
    return [*index.search(QUERIES, 5), index.labels(index.ids), *index.token_sets(index.ids)]


def embedded(path):
    shards = EmbeddingsFolder.open(path / "embedded").shards()
    return [part for s in shards for part in (s.paths, s.labels, s.embeddings, s.columns["tokens"])]


def decided(path):
    thresholds = Thresholds.read(path / "thresholds.json")
    return [json.dumps(vars(thresholds.match.distance)), thresholds.metric, thresholds.dim]


def loaded(path):
    return [gsp_tf.from_pretrained(path / "published")(PIXELS)]


def arrays(path):
    blocks = vector_source(path / "a.npz").blocks()
    return [part for b in blocks for part in (b.names, b.labels, b.embeddings)]


READ = {"index": searched, "embedded": embedded, "thresholds.json": decided}
READ |= {"published": loaded, "a.npz": arrays}


def damaged(content, random):
    """A file with a flipped bit, or its beginning."""
    if random.random() < 0.25:
        return content[: random.integers(len(content))]
    changed = bytearray(content)
    changed[random.integers(len(content))] ^= 1 << random.integers(8)
    return bytes(changed)


def plain(values):
    """What was read in a form that can be compared; a path is one below the folder."""
    return [v.to_pylist() if isinstance(v, pa.ChunkedArray) else np.asarray(v) for v in values]


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 40), pytest.param(1, 2000, marks=pytest.mark.evidence)]
)
def test_damage_is_named_or_changes_nothing(whole, tmp_path, seed, count):
    own = shutil.copytree(whole, tmp_path / "own")
    expected = {name: plain(read(own)) for name, read in READ.items()}
    files = [p for p in sorted(own.rglob("*")) if p.is_file() and p.name != ".lock"]
    random, refused = np.random.default_rng(seed), 0
    for number in range(count):
        file = files[number % len(files)]
        name, content = file.relative_to(own).parts[0], file.read_bytes()
        file.write_bytes(damaged(content, random))
        try:
            found = plain(READ[name](own))
        except (ValueError, FileNotFoundError) as error:
            assert type(error) in (ValueError, FileNotFoundError), error
            assert file.name in str(error), error
            refused += 1
        else:
            for value, right in zip(found, expected[name], strict=True):
                np.testing.assert_array_equal(value, right)
        file.write_bytes(content)
    assert refused > 0.7 * count
    verify_index(own / "index")


def test_a_change_carries_no_damage_on(whole, tmp_path):
    """Whichever file is damaged after the index was opened, a change refuses and keeps it."""
    own = shutil.copytree(whole / "index", tmp_path / "index")
    for file in sorted(own.glob("*-*")):
        index, content = Index(own), bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        before = {path.name: path.read_bytes() for path in own.iterdir()}
        with pytest.raises(ValueError, match=f"{file.name} is damaged"):
            index.change(delete=["/000.png"])
        assert before == {path.name: path.read_bytes() for path in own.iterdir()}
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    index.change(delete=["/000.png"])
    assert verify_index(own).count == COUNT - 1
