"""A collection that Ray embeds, in processes, while other tests of this folder run."""

import os
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faults import run_stopped
from ray_jobs import WITHOUT_RAY, command_of, start_driver, written


@pytest.fixture(scope="package", autouse=True)
def start_early(request):
    """Start what takes long, if it will be asked for, before the first test."""
    if any("job" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("job")


@pytest.fixture(scope="package")
def collection(images, tmp_path_factory):
    """80 images and two that cannot be read: by absolute and relative paths, and as bytes."""
    folder = tmp_path_factory.mktemp("collection")
    paths = sorted(map(str, images.rglob("*.png")))
    labels = [Path(path).parent.name for path in paths]
    (folder / "broken.png").write_bytes(Path(paths[0]).read_bytes()[:90])
    first = {"path": [*paths[:20], "broken.png"], "label": [*labels[:20], None]}
    relative = [os.path.relpath(path, folder) for path in paths[20:50]]
    contents = [Path(path).read_bytes() for path in paths[50:]]
    last = {"path": [*paths[50:], "/text"], "bytes": [*contents, b"text"], "id": range(31)}
    pq.write_table(pa.table(first), folder / "0.parquet", row_group_size=6)
    pq.write_table(pa.table({"path": relative, "label": labels[20:50]}), folder / "1.parquet")
    pq.write_table(pa.table({key: list(last[key]) for key in last}), folder / "2.parquet")
    return folder


@pytest.fixture(scope="package")
def interrupted(finished_run, collection, tmp_path_factory):
    """What a driver wrote that was killed."""
    out = tmp_path_factory.mktemp("out") / "embedded"
    command = command_of(finished_run, collection, out)
    run_stopped(*command, at=".parquet", count=3, code=WITHOUT_RAY)
    return SimpleNamespace(out=out, written=written(out))


@pytest.fixture(scope="package")
def job(interrupted, finished_run, collection, tmp_path_factory):
    """A second call on a cluster of Ray, whose only worker is killed on the way."""
    folder = tmp_path_factory.mktemp("job")
    driver = start_driver(finished_run, collection, interrupted.out, folder)
    yield SimpleNamespace(out=interrupted.out, folder=folder, driver=driver)
    driver.kill()
