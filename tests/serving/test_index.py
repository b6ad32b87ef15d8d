import contextlib
import errno
import os
import pickle
import re
import shutil
import subprocess
import sys

import faiss
import numpy as np
import pytest
from embedded import edit_json, write_embeddings
from gsp_tf.serving.checksum import file_sha256
from gsp_tf.serving.kinds import new_index
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf._files import HashingWriter
from gsp_tf.evaluation import ExactSearch
from gsp_tf.serving import EmbeddingsFolder, Index, build_index, index_files, verify_index

KINDS = ("exact", "ivf_sq8", "ivf_pq")


def random_embeddings(count, dim=8, seed=0):
    """Unit vectors around a few directions, some of them twice."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(max(1, count // 10), dim))
    embeddings = directions[rng.integers(0, len(directions), count)]
    embeddings = embeddings + 0.4 * rng.normal(size=(count, dim))
    embeddings[1::20] = embeddings[::20][: len(embeddings[1::20])]
    return (embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)).astype("float32")


@pytest.fixture(scope="module")
def embeddings():
    return random_embeddings(300)


@pytest.fixture(scope="module")
def folder(embeddings, tmp_path_factory):
    """Folder of 300 embeddings, with a label for every second one."""
    path = tmp_path_factory.mktemp("embedded") / "out"
    labels = [None if i % 2 else f"class {i // 10}" for i in range(300)]
    return write_embeddings(path, embeddings, labels=labels, shard_size=64)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("mapped", [False, True])
def test_the_exact_index_finds_what_the_evaluation_finds(
    folder, embeddings, tmp_path, metric, mapped
):
    build_index(folder, tmp_path / "index", metric=metric)
    index = Index(tmp_path / "index", mapped)
    assert index.mapped is mapped and index.metadata["kind"] == "exact"
    queries = np.concatenate([embeddings[:30], random_embeddings(30, seed=1), np.zeros((1, 8))])
    indices, distances = ExactSearch(embeddings, metric)(queries, 20)
    found, found_distances = index.search(queries, 20)
    np.testing.assert_array_equal(found, indices)
    np.testing.assert_array_equal(found_distances, distances)


def test_far_from_zero_and_of_any_length(tmp_path):
    embeddings = 1e6 + 100 * np.random.default_rng(0).normal(size=(60, 5)).astype("float32")
    index = build_index(write_embeddings(tmp_path / "e", embeddings), tmp_path / "index")
    expected, distances = ExactSearch(embeddings)(embeddings, 5)
    found, found_distances = index.search(embeddings, 5)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found_distances, distances)


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_on_disk_give_the_same_answers(folder, embeddings, tmp_path, kind, monkeypatch):
    index = build_index(folder, tmp_path / "index", kind)
    assert not index.mapped
    monkeypatch.setattr(index_files, "available_memory", lambda: 1000)
    on_disk = Index(tmp_path / "index")
    assert on_disk.mapped and not Index(tmp_path / "index", mapped=False).mapped
    for ours, theirs in zip(
        on_disk.search(embeddings, 15), index.search(embeddings, 15), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert on_disk.paths([299, 3]) == ["/299.png", "/003.png"]
    assert on_disk.labels([3, 20]) == [None, "class 2"]


@pytest.mark.parametrize("kind", ["ivf_sq8", "ivf_pq"])
def test_the_recall_is_what_it_says(tmp_path, kind, monkeypatch):
    """Of an index that is measured with all its images."""
    monkeypatch.setattr("gsp_tf.serving.index.NUM_QUERIES", 600)
    embeddings = np.random.default_rng(2).normal(size=(600, 8)).astype("float32")
    folder = write_embeddings(tmp_path / "e", embeddings, shard_size=100)
    index = build_index(folder, tmp_path / "index", kind)
    distances = np.linalg.norm(embeddings[:, None] - embeddings, axis=2)
    np.fill_diagonal(distances, np.inf)
    truth = np.argsort(distances, axis=1)[:, :10]
    found, _ = index.search(embeddings, 11)
    others = [[i for i in row if i != query][:10] for query, row in enumerate(found)]
    hits = [len(set(a) & set(b)) for a, b in zip(others, truth.tolist(), strict=True)]
    measured = index.metadata["recall"]
    assert measured["queries"] == 600 and measured["neighbours"] == 10
    assert measured["share"] == pytest.approx(np.mean(hits) / 10)
    assert measured["images"] == 600 and 0.5 < measured["share"] < 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_sizes_are_those_of_the_files(folder, tmp_path, kind):
    index = build_index(folder, tmp_path / "index", kind)
    files = {path.name: path.stat().st_size for path in index.path.iterdir()}
    assert files.pop("index.json") and files.pop(".lock") == 0
    described = index.metadata["files"].values()
    assert {entry["name"]: entry["bytes"] for entry in described} == files


def test_a_compressed_index_is_smaller_and_finds_nearly_as_much(tmp_path):
    embeddings = random_embeddings(4000, dim=32)
    folder = write_embeddings(tmp_path / "e", embeddings, shard_size=1000)
    built = [build_index(folder, tmp_path / kind, kind) for kind in KINDS]
    exact, sq8, pq = (index.metadata["files"]["vectors"]["bytes"] for index in built)
    assert exact > 2.5 * sq8 and sq8 > 1.2 * pq
    shares = [index.metadata["recall"]["share"] for index in built]
    assert shares[0] == 1 and shares[1] > 0.9 and shares[1] > shares[2]


@pytest.mark.parametrize("kind", ["ivf_sq8", "ivf_pq"])
def test_a_search_for_all_finds_all(folder, embeddings, tmp_path, kind):
    index = build_index(folder, tmp_path / "index", kind)
    ids, distances = index.search(embeddings[:3], 300)
    assert np.sort(ids, axis=1).tolist() == [list(range(300))] * 3
    assert (np.diff(distances, axis=1) >= 0).all()


def test_one_image(tmp_path):
    index = build_index(write_embeddings(tmp_path / "e", [[3.0, 4.0]]), tmp_path / "index")
    ids, distances = index.search([[0.0, 0.0]], 1)
    assert ids.tolist() == [[0]] and distances.tolist() == [[5.0]]


@pytest.mark.parametrize("kind", ["ivf_sq8", "ivf_pq"])
def test_too_few_images_to_compress(tmp_path, kind):
    folder = write_embeddings(tmp_path / "e", np.eye(255, 4))
    with pytest.raises(ValueError, match=f"{kind} needs at least 256 images; received 255"):
        build_index(folder, tmp_path / "index", kind)
    assert not (tmp_path / "index").exists()


def names_of(index):
    return set(index.paths(index.ids))


def contents(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.mark.parametrize("kind", KINDS)
def test_added_and_deleted_images(folder, embeddings, tmp_path, kind):
    index = build_index(folder, tmp_path / "index", kind)
    more = random_embeddings(40, seed=5)
    names = [f"/new/{i}.png" for i in range(40)]
    index.add(write_embeddings(tmp_path / "more", more, names, labels=["new"] * 40))
    index.delete(["/000.png", "/new/0.png"])
    for reopened in (index, Index(tmp_path / "index"), Index(tmp_path / "index", mapped=True)):
        assert len(reopened) == 338
        assert not {"/000.png", "/new/0.png"} & names_of(reopened)
        assert reopened.paths([301, 1]) == ["/new/1.png", "/001.png"]
        assert reopened.labels([301]) == ["new"]
        ids, distances = reopened.search(np.stack([more[7], embeddings[250]]), 1)
        assert ids.tolist() == [[307], [250]]
        np.testing.assert_allclose(distances, 0, atol=0.6 if kind == "ivf_pq" else 0.05)
    with pytest.raises(ValueError, match="has no image of id 0, 300"):
        index.paths([5, 0, 300])


def test_an_index_on_disk_can_be_changed_too(folder, tmp_path):
    build_index(folder, tmp_path / "index")
    index = Index(tmp_path / "index", mapped=True)
    index.delete(["/003.png"])
    assert len(index) == len(Index(tmp_path / "index")) == 299


picked = st.lists(st.integers(250, 265), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def small_indexes(tmp_path_factory):
    """Indexes of 256 images of dimension 3, to be copied."""
    path = tmp_path_factory.mktemp("small")
    folder = write_embeddings(path / "e", VECTORS[:256])
    return {kind: build_index(folder, path / kind, kind).path for kind in ("exact", "ivf_sq8")}


VECTORS = np.random.default_rng(0).uniform(-1, 1, (266, 3)).astype("float32")


@settings(max_examples=25)
@given(
    kind=st.sampled_from(["exact", "ivf_sq8"]),
    changes=st.lists(st.tuples(st.sampled_from(["add", "delete"]), picked), max_size=5),
)
def test_behaves_like_a_dictionary(small_indexes, tmp_path_factory, kind, changes):
    path = tmp_path_factory.mktemp("index")
    index = Index(shutil.copytree(small_indexes[kind], path / "index"))
    model, next_id = {f"/{i:03}.png": i for i in range(256)}, 256
    for number, (change, rows) in enumerate(changes):
        names = [f"/{row:03}.png" for row in rows]
        is_new = len(set(names)) == len(names) and not set(names) & set(model)
        if change == "add":
            source = write_embeddings(path / str(number), VECTORS[rows], names)
            if is_new:
                index.add(source)
                model.update(zip(names, range(next_id, next_id + len(names)), strict=True))
                next_id += len(names)
            else:
                with pytest.raises(ValueError, match="holds .* of these already|image twice"):
                    index.add(source)
        elif set(names) <= set(model) and len(set(names)) == len(names):
            index.delete(names)
            for name in names:
                del model[name]
        else:
            with pytest.raises(ValueError, match="does not hold .* to delete|named twice"):
                index.delete(names)
        index = Index(path / "index") if number % 2 else index
        assert len(index) == len(model)
        assert dict(zip(index.paths(index.ids), index.ids.tolist(), strict=True)) == model
        query = VECTORS[rows[:1]] + np.float32(0.01)
        ids, distances = index.search(query, len(model))
        assert sorted(ids[0].tolist()) == sorted(model.values())
        found = VECTORS[[int(name[1:4]) for name in index.paths(ids[0])]]
        expected = np.linalg.norm(found - query, axis=1)
        np.testing.assert_allclose(distances[0], expected, atol=1e-5 if kind == "exact" else 0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_that_was_emptied_can_be_filled_again(folder, embeddings, tmp_path, kind):
    index = build_index(folder, tmp_path / "index", kind)
    index.delete(index.paths(index.ids))
    assert len(Index(tmp_path / "index")) == 0
    with pytest.raises(ValueError, match="is empty"):
        index.search(embeddings[:1], 1)
    index.add(folder)
    assert index.ids.tolist() == list(range(300, 600))
    assert index.search(embeddings[45:46], 1)[0].tolist() == [[345]]


@pytest.mark.parametrize(
    ("queries", "k", "message"),
    [
        (np.zeros((1, 8)), 301, "k must be between 1 and 300, the images in .*; received 301"),
        (np.zeros((1, 8)), 0, "k must be between 1 and 300.*received 0"),
        (np.zeros((1, 4)), 1, "is of dimension 8; received embeddings of dimension 4"),
        (np.full((1, 8), np.nan), 1, "finite"),
    ],
)
def test_bad_searches(folder, tmp_path, queries, k, message):
    with pytest.raises(ValueError, match=message):
        build_index(folder, tmp_path / "index").search(queries, k)


def test_other_models_and_images_that_are_there_are_refused(folder, embeddings, tmp_path):
    index = build_index(folder, tmp_path / "index")
    other = write_embeddings(tmp_path / "other", embeddings, ["/x"] * 300, model="b")
    with pytest.raises(ValueError, match=r"the models are two of /no/such/run, which was"):
        index.add(other)
    resized = write_embeddings(tmp_path / "resized", embeddings[:1], ["/x"])
    edit_json(EmbeddingsFolder(resized).metadata_path, preprocessing={"image_size": 17})
    with pytest.raises(ValueError, match="the preprocessing is {'image_size': 17}"):
        index.add(resized)
    with pytest.raises(ValueError, match="index holds 300 images of these already; .* delete them"):
        index.add(folder)
    with pytest.raises(ValueError, match="index does not hold 1 image to delete: /gone.png"):
        index.delete(["/000.png", "/gone.png"])
    with pytest.raises(ValueError, match="named twice"):
        index.delete(["/000.png", "/000.png"])
    assert len(index) == len(Index(tmp_path / "index")) == 300


def test_an_image_twice_in_the_embeddings(tmp_path):
    folder = write_embeddings(tmp_path / "e", np.eye(2), ["/a", "/a"])
    with pytest.raises(ValueError, match="holds an image twice"):
        build_index(folder, tmp_path / "index")


def test_a_folder_that_holds_anything_is_refused(folder, tmp_path):
    build_index(folder, tmp_path / "index")
    with pytest.raises(FileExistsError, match="holds an index; add to it"):
        build_index(folder, tmp_path / "index")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "items-2024.parquet").touch()
    with pytest.raises(FileExistsError, match="exists and holds no index"):
        build_index(folder, tmp_path / "mine")


def test_without_a_run_the_place_has_to_be_said(folder):
    with pytest.raises(FileNotFoundError, match="/no/such/run, is not there or has another model"):
        build_index(folder)


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_change_that_fails_changes_nothing(folder, tmp_path, monkeypatch, fails_at):
    """As when the disk is full, or the process is killed: what was written is removed later."""
    index = build_index(folder, tmp_path / "index")
    before = contents(index.path)
    renamed = []

    def replace(source, target, original=os.replace):
        renamed.append(target)
        if len(renamed) == fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("gsp_tf._files.os.replace", replace)
        with pytest.raises(OSError, match="the disk is full"):
            index.delete(["/000.png"])
    assert len(index) == 300
    assert before.items() <= contents(index.path).items()
    assert len(Index(index.path)) == 300
    (index.path / ".vectors-0123abcd.faiss.partial").mkdir()
    index.delete(["/000.png"])
    assert len(Index(index.path)) == 299 and len(contents(index.path)) == 4


def test_a_killed_build_is_built_again(folder, tmp_path):
    (tmp_path / "index" / ".items-0123abcd.parquet.partial").mkdir(parents=True)
    (tmp_path / "index" / "vectors-0123abcd.faiss").touch()
    with pytest.raises(FileNotFoundError, match="is no index: it has no index.json"):
        Index(tmp_path / "index")
    assert len(build_index(folder, tmp_path / "index")) == 300
    assert len(contents(tmp_path / "index")) == 4


def test_a_change_of_what_another_process_has_changed_is_refused(folder, tmp_path):
    first = build_index(folder, tmp_path / "index")
    second = Index(tmp_path / "index")
    first.delete(["/000.png"])
    whole = contents(first.path)
    with pytest.raises(ValueError, match="has changed the index .*index; open it again"):
        second.delete(["/001.png"])
    assert contents(first.path) == whole and len(whole) == 4


def test_a_change_of_an_index_that_was_built_anew_is_refused(folder, tmp_path):
    index = build_index(folder, tmp_path / "index")
    shutil.rmtree(index.path)
    with pytest.raises(ValueError, match="has changed the index"):
        index.delete(["/001.png"])
    assert not index.path.exists()
    build_index(folder, tmp_path / "index")
    with pytest.raises(ValueError, match="has changed the index"):
        index.delete(["/001.png"])


# Changes an index, and holds on before the new files are named.
HOLD = """
import sys
from gsp_tf.serving import Index, index_files

def write_metadata(*arguments, original=index_files.write_metadata):
    print("writing", flush=True)
    sys.stdin.read()
    original(*arguments)

index_files.write_metadata = write_metadata
Index(sys.argv[1]).delete(["/000.png"])
"""


def test_of_two_processes_that_change_an_index_one_is_refused(folder, tmp_path):
    index = build_index(folder, tmp_path / "index")
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, index.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout.readline() == b"writing\n"
    with pytest.raises(BlockingIOError, match="Another process is writing .*index. Wait until"):
        index.delete(["/001.png"])
    with pytest.raises(BlockingIOError):
        index.add(write_embeddings(tmp_path / "more", np.eye(1, 8), ["/new.png"]))
    assert names_of(Index(index.path)) == names_of(index)
    other.kill()
    other.communicate()
    index.delete(["/001.png"])
    assert names_of(Index(index.path)) == {f"/{i:03}.png" for i in range(300) if i != 1}
    assert len(contents(index.path)) == 4


@pytest.mark.parametrize("mapped", [False, True])
def test_who_opens_an_index_while_it_is_replaced_gets_the_new_one(
    folder, tmp_path, monkeypatch, mapped
):
    index = build_index(folder, tmp_path / "index")
    described = index_files.IndexFiles.metadata
    changes = [lambda: index.delete(["/000.png"])]

    def metadata(self):
        found = described(self)
        if self is not index._files and changes:
            changes.pop()()
        return found

    monkeypatch.setattr(index_files.IndexFiles, "metadata", metadata)
    assert len(Index(index.path, mapped)) == 299


def test_verifying_reads_what_stays_on_disk(folder, tmp_path, command):
    index = build_index(folder, tmp_path / "index")
    assert verify_index(index.path) == index.metadata
    code, output, _ = command("index", index.path, "--verify")
    assert code == 0 and "300 images; the files have their checksums" in output
    code, _, error = command("index", index.path, "--verify", "--kind", "exact")
    assert code == 1 and "--verify takes an index and no other option" in error
    (path,) = index.path.glob("vectors-*")
    path.write_bytes(flip(path.read_bytes()))
    assert len(Index(index.path, mapped=True)) == 300
    code, _, error = command("index", index.path, "--verify")
    assert code == 1 and f"{path.name} is damaged: its SHA-256 is not that" in error
    path.unlink()
    with pytest.raises(FileNotFoundError, match=f"it lacks {path.name}"):
        verify_index(index.path)


class Bomb:
    def __reduce__(self):
        return exit, (3,)


def cut(content):
    return content[: len(content) // 2]


def flip(content):
    return content[:-50] + bytes([content[-50] ^ 1]) + content[-49:]


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("name", ["vectors", "items"])
@pytest.mark.parametrize("change", [cut, flip, lambda content: pickle.dumps(Bomb())])
def test_damaged_files_are_refused(folder, tmp_path, name, change, mapped):
    index = build_index(folder, tmp_path / "index")
    (path,) = index.path.glob(f"{name}-*")
    path.write_bytes(change(path.read_bytes()))
    if mapped and name == "vectors" and change is flip:
        return  # Vectors on disk are not read before they are searched.
    with pytest.raises(ValueError, match=f"{path.name} is damaged"):
        Index(index.path, mapped)


@pytest.mark.parametrize("mapped", [False, True])
def test_vectors_that_are_no_index_and_say_they_are_right(folder, tmp_path, mapped):
    index = build_index(folder, tmp_path / "index")
    files = dict(index.metadata["files"])
    (index.path / "vectors-00000000.faiss").write_bytes(pickle.dumps(Bomb()))
    files["vectors"] = described(index.path / "vectors-00000000.faiss")
    edit_json(index.path / "index.json", files=files)
    with pytest.raises(ValueError, match="is no index of faiss, or damaged"):
        Index(index.path, mapped)


def described(path):
    """What `index.json` says of a file."""
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": file_sha256(path)}


def replace_vectors(index, kind):
    """Put another index of faiss into the folder, with its checksum."""
    path = index.path / "vectors-00000000.faiss"
    faiss.write_index(kind, str(path))
    files = {**index.metadata["files"], "vectors": described(path)}
    edit_json(index.path / "index.json", files=files)


@pytest.mark.parametrize("mapped", [False, True])
def test_vectors_in_a_file_elsewhere_are_refused(folder, tmp_path, mapped):
    """Of what is not ours nothing is searched, and nothing changed by deleting."""
    index = build_index(folder, tmp_path / "index", "ivf_sq8")
    ours = faiss.read_index(str(index.path / index.metadata["files"]["vectors"]["name"]))
    elsewhere = faiss.OnDiskInvertedLists(ours.nlist, ours.code_size, str(tmp_path / "elsewhere"))
    elsewhere.merge_from_1(ours.invlists)
    ours.replace_invlists(elsewhere, False)
    replace_vectors(index, ours)
    with pytest.raises(ValueError, match="vectors-00000000.faiss is no index of kind 'ivf_sq8'"):
        Index(index.path, mapped)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_other_types_of_faiss_are_refused(folder, tmp_path, kind, mapped):
    index = build_index(folder, tmp_path / "index", kind)
    other = faiss.index_factory(8, "IDMap,HNSW4" if kind == "exact" else "IVF4,Flat")
    vectors = random_embeddings(300)
    other.train(vectors)
    other.add_with_ids(vectors, np.arange(300))
    replace_vectors(index, other)
    with pytest.raises(ValueError, match=f"is no index of kind '{kind}'"):
        Index(index.path, mapped)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "hnsw"}, "is no index of kind 'hnsw'"),
        ({"format": "gsp_tf embeddings"}, "does not describe gsp_tf index"),
        ({"format_version": 2}, "has format version 2"),
        ({"count": "many"}, "it has no count, or not of type int"),
        ({"count": True}, "it has no count, or not of type int"),
        ({"model": "a"}, "it has no model, or not of type dict"),
        ({"recall": [1]}, "it has no recall, or not of type dict"),
        ({"count": 299}, "do not belong together"),
        ({"dim": 9}, "do not belong together|9"),
        ({"space": {}}, "its space cannot be read"),
        ({"recall": {}}, "its recall is incomplete"),
        (
            {"recall": {"share": None, "neighbours": 1, "queries": 1, "images": 1}},
            "its recall is incomplete",
        ),
        ({"space": {"origin": "AAAA", "scale": 1}}, "its space cannot be read"),
        ({"space": {"origin": "AAAAAA==", "scale": 1}}, "its origin has 1 dimensions"),
        ({"metric": "manhattan"}, "metric must be one of"),
        ({"files": {}}, "it names no file of vectors"),
        (
            {"files": {"vectors": {"name": "../x", "bytes": 1, "sha256": ""}}},
            "names a file elsewhere: ../x",
        ),
    ],
)
def test_damaged_metadata_are_refused(folder, tmp_path, changes, message):
    index = build_index(folder, tmp_path / "index")
    edit_json(index.path / "index.json", **changes)
    with pytest.raises(ValueError, match=message):
        Index(index.path)


def test_nested_metadata_are_refused(folder, tmp_path):
    index = build_index(folder, tmp_path / "index")
    (index.path / "index.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="index.json is damaged: it is nested too deeply"):
        Index(index.path)


def test_an_index_that_looks_nowhere_is_refused(folder, tmp_path):
    index = build_index(folder, tmp_path / "index", "ivf_sq8")
    index._index.nprobe = 0
    replace_vectors(index, index._index)
    with pytest.raises(ValueError, match="vectors-00000000.faiss is damaged: its nprobe is 0"):
        Index(index.path)


def test_a_file_that_cannot_be_closed_is_not_an_index(folder, tmp_path, monkeypatch):
    """The end of what is written reaches the disk, or its error the caller, when it is closed."""
    index = build_index(folder, tmp_path / "index")
    before = contents(index.path)

    def close(self, original=HashingWriter.close):
        closed = self.closed
        original(self)
        if not closed:
            raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(HashingWriter, "close", close)
    with pytest.raises(OSError, match="faiss cannot be written: it would be larger"):
        index.delete(["/000.png"])
    assert contents(index.path) == before and verify_index(index.path)["count"] == 300


def test_sizes_and_checksums_are_of_what_was_meant(folder, tmp_path, monkeypatch):
    """A file that lost its end on its way is not one with another checksum."""

    def write(self, data, original=HashingWriter.write):
        original(self, data)
        self.truncate(100)

    index = build_index(folder, tmp_path / "index")
    monkeypatch.setattr(HashingWriter, "write", write)
    with contextlib.suppress(ValueError):
        index.delete(["/000.png"])
    with pytest.raises(ValueError, match="is damaged: it has .* bytes, expected"):
        verify_index(index.path)


def test_a_lost_file_is_named(folder, tmp_path):
    index = build_index(folder, tmp_path / "index")
    (path,) = index.path.glob("items-*")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=rf"it lacks {re.escape(path.name)}"):
        Index(index.path)


def test_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match="one of exact, ivf_sq8, ivf_pq; received 'hnsw'"):
        new_index("hnsw", 8, 100, faiss.METRIC_L2)
