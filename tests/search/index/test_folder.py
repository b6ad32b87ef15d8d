"""Indexes that are damaged, crafted, changed by two processes, killed, or on a full disk."""

import dataclasses
import errno
import json
import os
import re
import shutil
import tracemalloc

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedded import edit_json, random_embeddings, write_embeddings
from faults import run_stopped

from gsp_tf._files import HashingWriter, file_sha256
from gsp_tf.search import Index, build_index, change_index, verify_index
from gsp_tf.search.index import _folder
from gsp_tf.search.index._vector_index import VectorIndex


@pytest.fixture
def index(built):
    return Index(built("exact"))


@pytest.fixture
def new(tmp_path):
    """Embeddings of one image that the index has and of two that it has not."""
    return write_embeddings(tmp_path / "new", np.eye(3, 8), ["/001.png", "/x.png", "/y.png"])


def contents(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_a_killed_change_changes_nothing_at_all(index, new):
    """Also if images are deleted and others are added; the same command then does it all."""
    command = ["index", index.path, "--delete", "/000.png", "--replace", new]
    run_stopped(*command, count=5)  # at the last renaming, that of index.json
    again = Index(index.path)
    assert again.paths(again.ids) == [f"/{i:03}.png" for i in range(300)]
    assert verify_index(index.path) == index.metadata
    change_index(index, new, delete=["/000.png"], replace_known=True)
    assert len(Index(index.path)) == 301
    names = {file.name for file in index.metadata.files}
    assert set(contents(index.path)) == names | {"index.json", ".lock"}


@pytest.mark.parametrize("fails_at", [1, 5])
def test_a_change_that_fails_leaves_nothing(index, new, monkeypatch, fails_at):
    before, renamed = contents(index.path), []

    def replace(source, target, original=os.replace):
        renamed.append(target)
        if len(renamed) == fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(source, target)

    monkeypatch.setattr("gsp_tf._files.os.replace", replace)
    with pytest.raises(OSError, match="the disk is full"):
        change_index(index, new, delete=["/000.png"], replace_known=True)
    assert contents(index.path) == before and len(index) == len(Index(index.path)) == 300


def test_sizes_and_checksums_are_of_what_was_meant(index, monkeypatch):
    """A file that lost its end on its way is not one with another checksum."""

    def write(self, data, original=HashingWriter.write):
        original(self, data)
        self.truncate(100)

    monkeypatch.setattr(HashingWriter, "write", write)
    change_index(index, delete=["/000.png"])
    with pytest.raises(ValueError, match="is damaged: it has .* bytes, expected"):
        verify_index(index.path)


def test_a_change_of_what_another_process_has_changed_is_refused(index, folder):
    second = Index(index.path)
    change_index(index, delete=["/000.png"])
    whole = contents(index.path)
    with pytest.raises(ValueError, match="has changed the index .*index; open it again"):
        change_index(second, delete=["/001.png"])
    assert contents(index.path) == whole
    shutil.rmtree(index.path)
    build_index(folder, index.path)
    with pytest.raises(ValueError, match="has changed the index"):
        change_index(index, delete=["/001.png"])


def test_of_two_processes_that_change_an_index_one_is_refused(index, locked_elsewhere):
    with (
        locked_elsewhere(index.path),
        pytest.raises(BlockingIOError, match="Another process is writing .*index. Wait"),
    ):
        change_index(index, delete=["/001.png"])
    assert len(Index(index.path)) == 300


@pytest.mark.parametrize("mapped", [False, True])
def test_an_index_that_is_opened_while_it_is_replaced_is_the_new_one(index, monkeypatch, mapped):
    described = _folder.IndexFolder.metadata
    changes = [lambda: change_index(index, delete=["/000.png"])]

    def metadata(self):
        found = described(self)
        if self is not index._folder and changes:
            changes.pop()()
        return found

    monkeypatch.setattr(_folder.IndexFolder, "metadata", metadata)
    assert len(Index(index.path, mapped)) == 299


def test_files_on_disk_are_compared_or_a_warning_says_why_not(
    index, new, printed_by, refused, monkeypatch
):
    verify = "index", index.path, "--verify"
    assert "300 images; the files have their checksums" in printed_by(*verify)
    (path,) = index.path.glob("vectors-*")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with monkeypatch.context() as patch:
        patch.setattr(_folder, "available_memory", lambda: path.stat().st_size - 1)
        with pytest.warns(UserWarning, match=f"{path.name} is larger .* was not compared"):
            opened = Index(index.path, mapped=True)
    with pytest.raises(ValueError, match=f"{path.name} is damaged: its SHA-256 is not that"):
        change_index(opened, new, replace_known=True)
    refused(f"{path.name} is damaged: its SHA-256 is not that", *verify)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=rf"it lacks {re.escape(path.name)}"):
        Index(index.path)


def craft(index, vectors=None, items=None):
    """Puts other vectors or items into the folder of an index, with their checksums."""
    segment = json.loads((index.path / "index.json").read_text())["segments"][0]
    for name, ending, write, value in (
        ("vectors", "faiss", lambda value, path: faiss.write_index(value, str(path)), vectors),
        ("items", "parquet", pq.write_table, items),
    ):
        if value is not None:
            path = index.path / f"{name}-00000000.{ending}"
            path.write_bytes(value) if type(value) is bytes else write(value, path)
            size = path.stat().st_size
            segment[name] = {"name": path.name, "bytes": size, "sha256": file_sha256(path)}
    edit_json(index.path / "index.json", segments=[segment])


def in_a_file_elsewhere(index):
    """Nothing is searched in what is not ours, and nothing changed by deleting."""
    ours = index._segments[0].vectors.index
    path = index.path.with_name("elsewhere")
    elsewhere = faiss.OnDiskInvertedLists(ours.nlist, ours.code_size, str(path))
    elsewhere.merge_from_1(ours.invlists)
    ours.replace_invlists(elsewhere, False)
    return faiss.serialize_index(ours).tobytes()


def of_type(name):
    def make(index):
        other = faiss.index_factory(8, name)
        vectors = random_embeddings(300)
        other.train(vectors)
        other.add_with_ids(vectors, np.arange(300))
        return other

    return make


def of_another_metric(index):
    vectors = random_embeddings(300)
    kind, metric = index.metadata.kind, faiss.METRIC_INNER_PRODUCT
    other = VectorIndex.new(kind, 8, 300, metric)
    other.train(vectors)
    other.add(np.arange(300), vectors)
    return other.index


def that_look_at(effort):
    """A search makes room for as many steps as its graph says."""

    def make(index):
        index._segments[0].vectors.effort = effort
        return index._segments[0].vectors.index

    return make


def that_are_entered_below_the_top(index):
    vectors = index._segments[0].vectors.index
    graph = faiss.downcast_index(vectors.index).hnsw
    graph.entry_point = int(faiss.vector_to_array(graph.levels).argmin())
    return vectors


OTHER_METRIC = "its metric is not that in index.json"
NOT_OF_KIND = "vectors-00000000.faiss is not an index of kind '{}'"


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(
    ("kind", "make", "message"),
    [
        ("exact", lambda index: b"no index", "is not an index of faiss, or damaged"),
        ("ivf_sq8", in_a_file_elsewhere, NOT_OF_KIND),
        ("ivf_sq8", that_look_at(0), "vectors-00000000.faiss is damaged: a search takes 0 lists"),
        ("hnsw", that_look_at(2**30), "is damaged: a search takes 1073741824 lists or steps; ex"),
        ("hnsw_sq8", that_are_entered_below_the_top, "its graph does not fit its vectors"),
        ("exact", of_type("IDMap,HNSW4"), NOT_OF_KIND),
        ("hnsw", of_type("IDMap,HNSW4_SQ8"), NOT_OF_KIND),
        ("sq8", of_type("IDMap,SQ4"), NOT_OF_KIND),
        ("ivf_pq", of_type("IVF4,Flat"), NOT_OF_KIND),
        *((kind, of_another_metric, OTHER_METRIC) for kind in ("sq8", "hnsw", "ivf_sq8")),
    ],
)
def test_other_vectors_that_have_their_checksum_are_refused(built, kind, make, message, mapped):
    index = Index(built(kind))
    craft(index, make(index))
    with pytest.raises(ValueError, match=message.format(kind)):
        Index(index.path, mapped)


@pytest.mark.parametrize("kind", ["exact", "ivf_pq"])
def test_ids_that_are_there_twice_or_missing_are_refused(built, kind):
    index = Index(built(kind))
    vectors = Index(index.path)._segments[0].vectors.without(np.array([7]))
    vectors.add(np.array([8]), random_embeddings(1))
    vectors = vectors.index
    craft(index, vectors)
    with pytest.raises(ValueError, match="its ids are not those of its items"):
        Index(index.path)
    items = index._items
    for column, value, message in (
        ("id", 8, "the ids of its images do not ascend"),
        ("id", None, "has items without an id or a path"),
        ("path", None, "has items without an id or a path"),
    ):
        values = items[column].to_pylist()
        values[7] = value
        place, kind = items.column_names.index(column), items.schema.field(column).type
        craft(index, vectors, items.set_column(place, column, pa.array(values, kind)))
        with pytest.raises(ValueError, match=message):
            Index(index.path)


def test_what_is_found_has_to_be_in_the_index(built):
    """Where the lists stay on disk, their ids are not read before they are found."""
    index = Index(built("ivf_sq8"))
    vectors = faiss.clone_index(index._segments[0].vectors.index)
    vectors.remove_ids(np.array([7]))
    other = random_embeddings(1, seed=9)
    vectors.add_with_ids(index._space.vectors(other), np.array([1000]))
    craft(index, vectors)
    with pytest.raises(ValueError, match="has no image of id 1000"):
        Index(index.path, mapped=True).search(other, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "lsh"}, "kind is 'lsh'; expected"),
        ({"rescore": "vectors"}, "An index of kind exact has the vectors themselves"),
        ({"embedding_dim": 7}, "embedding_dim is 7, less than dim"),
        ({"next_id": 2**53 + 1}, "next_id is 9007199254740993; expected 0 to"),
        ({"dim": 9}, "its origin has 8 dimensions, expected 9"),
        ({"space": {}}, "space lacks entries, or has too many: origin, scale"),
        ({"space": {"origin": "", "scale": 10**400}}, "index.json is damaged"),
        ({"segments": []}, "it has no segments"),
    ],
)
def test_damaged_metadata_are_refused(index, changes, message):
    edit_json(index.path / "index.json", **changes)
    with pytest.raises(ValueError, match=message):
        Index(index.path)


def test_segments_that_are_not_those_of_the_files_are_refused(index, monkeypatch):
    segment = dataclasses.asdict(index.metadata.segments[0])
    for segments, message in (
        ([segment | {"count": 299}], "do not belong together"),
        ([segment | {"vectors": {"name": "../x", "bytes": 1, "sha256": ""}}], "elsewhere: ../x"),
    ):
        edit_json(index.path / "index.json", segments=segments)
        with pytest.raises(ValueError, match=message):
            Index(index.path)
    edit_json(index.path / "index.json", segments=[segment] * 10_000)
    monkeypatch.setattr(_folder.StoredFile, "found", lambda *_: pytest.fail("was opened"))
    with pytest.raises(ValueError, match="index.json is damaged: it names a file twice"):
        Index(index.path)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("kind", ["exact", "ivf_sq8"])
def test_large_ids_take_no_memory(built, new, kind, mapped):
    """An index whose many former images were deleted, or that says so."""
    index = Index(built(kind))
    edit_json(index.path / "index.json", next_id=2**33)
    change_index(Index(index.path), new, replace_known=True)
    index = Index(index.path, mapped)
    assert index.ids[-3:].tolist() == [2**33, 2**33 + 1, 2**33 + 2]
    tracemalloc.start()
    ids, _ = index.search(np.eye(3, 8), 1, where="path in ('/y.png', '/000.png')")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ids[2].tolist() == [2**33 + 2] and most < 2**20
