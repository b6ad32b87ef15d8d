"""Collections embedded by a local cluster of Ray, after a driver was killed, and then a worker."""

import dataclasses
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedded import edit_json
from ray_jobs import processes_of, ray_without_processes, start_driver, wait_until, written

from gsp_tf.search import BatchEmbedder, Embeddings, EmbeddingsFolder, embed_collection
from gsp_tf.search import collection as workers
from gsp_tf.search._tables import vectors_of
from gsp_tf.search.collection import _Collection, _ray_session
from gsp_tf.search.embed import forget_attempts

NUM_SHARDS = 11


@pytest.fixture(scope="module")
def expected(embedded):
    """Dict from the paths of the images to their embeddings, by `embed_images`."""
    found = Embeddings.read(embedded)
    return dict(zip(found.paths, found.vectors, strict=True))


def names(folder):
    return {path.name for path in folder.path.iterdir()}


@pytest.fixture(scope="module")
def finished(job):
    """The folder after the job."""
    job.driver.join(1200)
    output = (job.folder / "output.txt").read_text()
    assert job.driver.exitcode == 0 and "2 of 82 files cannot be read" in output, output
    return EmbeddingsFolder(job.out)


@pytest.fixture
def own(finished, tmp_path):
    return EmbeddingsFolder(shutil.copytree(finished.path, tmp_path / "out"))


def test_what_killed_processes_wrote_is_not_computed_again(interrupted, job, finished):
    assert (job.folder / "killed").exists()  # the only worker, so Ray has started another
    assert len(interrupted.written) == 2
    assert interrupted.written.items() <= written(finished.path).items()
    wait_until(lambda: not processes_of(job.folder))


def test_nothing_is_lost_and_nothing_is_there_twice(finished, expected, collection):
    folder = EmbeddingsFolder.open(finished.path)
    table = pa.concat_tables(folder.shards())
    paths = table["path"].to_pylist()
    assert paths == sorted(expected)
    np.testing.assert_allclose(vectors_of(table), [expected[path] for path in paths], atol=1e-6)
    labels = [Path(path).parent.name for path in paths[:50]]
    assert table["label"].to_pylist() == labels + [None] * 30
    assert set(dict(folder.corrupt())) == {str(collection / "broken.png"), "/text"}
    outcome = folder.metadata().outcome
    assert (outcome.embedded, outcome.corrupt) == (80, 2)
    assert table["id"].to_pylist() == [None] * 50 + list(range(30))
    assert table["file_size"].to_pylist() == list(map(os.path.getsize, paths))
    shards = {f"embeddings-{number:05}.parquet" for number in range(NUM_SHARDS)}
    assert names(folder) == shards | {"embeddings.json", "corrupt.csv", ".lock"}


@pytest.mark.evidence
def test_a_driver_that_was_killed_leaves_no_process(
    finished_run, collection, finished, tmp_path, monkeypatch
):
    monkeypatch.setattr(workers, "_ray_session", ray_without_processes)
    out = tmp_path / "out"
    driver = start_driver(finished_run, collection, out, tmp_path)
    wait_until(lambda: len(written(out)) >= 2 or not driver.is_alive())
    driver.kill()
    driver.join()
    wait_until(lambda: not processes_of(tmp_path))
    before = written(out)
    assert 2 <= len(before) < NUM_SHARDS
    with pytest.warns(UserWarning, match="2 of 82 files"):
        folder = embed_collection(finished_run, collection, out)
    assert before.items() <= written(out).items()
    assert folder.metadata().outcome == finished.metadata().outcome


def test_what_is_complete_needs_no_ray(own, finished_run, collection, monkeypatch):
    monkeypatch.setattr(workers, "_ray_session", None)
    with pytest.warns(UserWarning, match="2 of 82"):
        folder = embed_collection(finished_run, collection, own.path)
    assert folder.metadata() == own.metadata()
    with pytest.raises(ValueError, match="list of images: 82 there"):
        embed_collection(finished_run, collection / "1.parquet", own.path)
    edit_json(own.metadata_path, outcome=None)
    own.shard_path(3).write_bytes(own.shard_path(3).read_bytes()[:-9])
    with pytest.raises(ValueError, match="embeddings-00003.parquet is damaged"):
        embed_collection(finished_run, collection, own.path)
    shutil.copy(own.shard_path(NUM_SHARDS - 1), own.shard_path(3))
    with pytest.raises(ValueError, match="embeddings-00003.parquet .* accounts for 2 of 8 images"):
        embed_collection(finished_run, collection, own.path)


@pytest.fixture
def unfinished(own):
    """A folder that lacks a shard."""
    edit_json(own.metadata_path, outcome=None)
    own.shard_path(2).unlink()
    return own


@pytest.mark.filterwarnings("ignore:2 of 82 files")
def test_a_lost_shard_is_written_again_or_the_job_ends(
    unfinished, finished, finished_run, collection, monkeypatch
):
    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(workers, "_ray_session", ray_without_processes)
    before = written(unfinished.path)
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddingsFolder, "write_shard", fail)
        with pytest.raises(ValueError, match="Shard 2: No space left .* continues with what is"):
            embed_collection(finished_run, collection, unfinished.path)
    embed_collection(finished_run, collection, unfinished.path)
    assert unfinished.read_shard(2, 8)["path"] == finished.read_shard(2, 8)["path"]
    assert before.items() <= written(unfinished.path).items()
    assert names(unfinished) == names(finished)


def worker(run, out, source):
    """Function that tries a shard and gives what is wrong."""
    embedder = workers._ShardEmbedder(run, out, _Collection(source), None)
    return lambda: embedder({"shard": [2]})["problem"][0]


def test_a_shard_that_kills_workers_is_given_up(unfinished, finished_run, collection, monkeypatch):
    def kill(*_):
        raise KeyboardInterrupt  # in the place of SIGKILL

    try_shard = worker(finished_run, unfinished.path, collection)
    with monkeypatch.context() as patch:
        patch.setattr(workers._ShardEmbedder, "_shard", kill)
        for _ in range(5):
            with pytest.raises(KeyboardInterrupt):
                try_shard()
    assert "Shard 2: 5 workers were killed while they wrote it" in try_shard()
    forget_attempts(unfinished)
    assert try_shard() == "" and unfinished.shard_path(2).is_file()


def test_a_worker_refuses_what_changed_on_the_way(unfinished, digits_run, collection, tmp_path):
    source = shutil.copytree(collection, tmp_path / "source")
    try_shard = worker(digits_run, unfinished.path, source)
    pq.write_table(pq.read_table(source / "0.parquet")[:10], tmp_path / "short.parquet")
    (tmp_path / "short.parquet").replace(source / "0.parquet")
    assert "0.parquet was changed: it had 21 rows before" in try_shard()
    model = dataclasses.asdict(unfinished.metadata().model)
    edit_json(unfinished.metadata_path, model={**model, "sha256": "another"})
    problem = worker(digits_run, unfinished.path, collection)()
    assert "the model of" in problem and "changed while it was used" in problem


@pytest.mark.evidence
def test_ray_data_maps_the_batch_function(finished_run, expected, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "text.png").write_text("no")
    paths = [*expected, str(tmp_path / "text.png")]
    for part in range(3):
        table = pa.table({"path": paths[part::3], "id": range(len(paths[part::3]))})
        pq.write_table(table, tmp_path / "source" / f"{part}.parquet")
    with _ray_session(cpus=2) as ray:
        ray.data.read_parquet(str(tmp_path / "source")).map_batches(
            BatchEmbedder,
            fn_constructor_args=[finished_run, 1],
            batch_size=16,
            compute=ray.data.ActorPoolStrategy(size=1),  # the other core is for reading
        ).write_parquet(str(tmp_path / "out"))
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert sorted(row["path"] for row in rows) == sorted(paths)
    for row in rows:
        if row["problem"]:
            assert row["path"] == paths[-1] and np.isnan(row["embedding"]).all()
        else:
            np.testing.assert_allclose(row["embedding"], expected[row["path"]], atol=1e-6)


def test_without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'pip install "\.\[ray\]"'), _ray_session():
        pass


def test_a_session_leaves_ray_as_it_is_connected(monkeypatch):
    ray = SimpleNamespace(is_initialized=lambda: True)  # it can be neither begun nor ended
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.data", SimpleNamespace())
    with _ray_session() as found:
        assert found is ray
