import shutil

import numpy as np
import pytest
from embedded import KINDS, edit_json, names_of, random_embeddings, write_embeddings
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.evaluation import ExactSearch
from gsp_tf.serving import EmbeddingsFolder, Index, build_index, change_index
from gsp_tf.serving.index import _folder, build


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("mapped", [False, True])
def test_the_exact_index_finds_what_the_evaluation_finds(
    folder, embeddings, tmp_path, metric, mapped
):
    build_index(folder, tmp_path / "index", metric=metric)
    index = Index(tmp_path / "index", mapped)
    assert index.mapped is mapped and index.metadata.kind == "exact"
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
def test_vectors_on_disk_give_the_same_answers(built, embeddings, kind, monkeypatch):
    index = Index(built(kind))
    assert not index.mapped
    monkeypatch.setattr(_folder, "available_memory", lambda: 1000)
    on_disk = Index(index.path)
    assert on_disk.mapped and not Index(index.path, mapped=False).mapped
    for ours, theirs in zip(
        on_disk.search(embeddings, 15), index.search(embeddings, 15), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert on_disk.paths([299, 3]) == ["/299.png", "/003.png"]
    assert on_disk.labels([3, 20]) == [None, "class 2"]


@pytest.mark.parametrize("memory", [0, 10**9])
@pytest.mark.parametrize("kind", ["ivf_sq8", "ivf_pq"])
def test_the_recall_is_what_it_says(tmp_path, kind, memory, monkeypatch):
    """All images of the index are queries; the embeddings are kept in memory, or read again."""
    monkeypatch.setattr(build, "NUM_QUERIES", 600)
    monkeypatch.setattr(build, "available_memory", lambda: memory)
    embeddings = np.random.default_rng(2).normal(size=(600, 8)).astype("float32")
    folder = write_embeddings(tmp_path / "e", embeddings, shard_size=100)
    index = build_index(folder, tmp_path / "index", kind)
    distances = np.linalg.norm(embeddings[:, None] - embeddings, axis=2)
    np.fill_diagonal(distances, np.inf)
    truth = np.argsort(distances, axis=1)[:, :10]
    found, _ = index.search(embeddings, 11)
    others = [[i for i in row if i != query][:10] for query, row in enumerate(found)]
    hits = [len(set(a) & set(b)) for a, b in zip(others, truth.tolist(), strict=True)]
    measured = index.metadata.recall
    assert measured.queries == measured.images == 600 and measured.neighbours == 10
    assert measured.share == pytest.approx(np.mean(hits) / 10) and 0.5 < measured.share < 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_embedding_is_read_once(folder, tmp_path, monkeypatch, kind):
    """But for those of the first shard, which say where the vectors lie."""
    numbers = []
    read = EmbeddingsFolder.read_shard

    def counted(self, number, dim):
        numbers.append(number)
        return read(self, number, dim)

    monkeypatch.setattr(EmbeddingsFolder, "read_shard", counted)
    build_index(folder, tmp_path / "index", kind)
    assert sorted(numbers) == [0, *range(5)]


def test_a_compressed_index_is_smaller_and_finds_nearly_as_much(tmp_path):
    folder = write_embeddings(tmp_path / "e", random_embeddings(4000, dim=32), shard_size=1000)
    built = [build_index(folder, tmp_path / kind, kind) for kind in KINDS]
    bytes_of = {i.metadata.kind: i.metadata.segments[0].vectors.bytes for i in built}
    assert bytes_of["exact"] > 2.5 * bytes_of["ivf_sq8"] > 3 * bytes_of["ivf_pq"]
    assert bytes_of["exact"] > 3 * bytes_of["sq8"] and bytes_of["hnsw"] > 1.3 * bytes_of["hnsw_sq8"]
    shares = {index.metadata.kind: index.metadata.recall.share for index in built}
    assert shares["exact"] == 1 and shares["hnsw"] > 0.95
    assert shares["ivf_pq"] < min(shares[kind] for kind in ("sq8", "hnsw_sq8", "ivf_sq8"))
    assert all(share > 0.9 for kind, share in shares.items() if kind != "ivf_pq")


def test_one_image(tmp_path):
    index = build_index(write_embeddings(tmp_path / "e", [[3.0, 4.0]]), tmp_path / "index")
    ids, distances = index.search([[0.0, 0.0]], 1)
    assert ids.tolist() == [[0]] and distances.tolist() == [[5.0]]


@pytest.mark.parametrize("kind", KINDS)
def test_images_are_added_and_deleted(built, embeddings, tmp_path, kind):
    index = Index(built(kind))
    more = random_embeddings(40, seed=5)
    names = [f"/new/{i}.png" for i in range(40)]
    change_index(index, write_embeddings(tmp_path / "more", more, names, labels=["new"] * 40))
    change_index(index, delete=["/000.png", "/new/0.png"])
    for reopened in (index, Index(index.path), Index(index.path, mapped=True)):
        assert len(reopened) == 338
        assert not {"/000.png", "/new/0.png"} & names_of(reopened)
        assert reopened.paths([301, 1]) == ["/new/1.png", "/001.png"]
        assert reopened.labels([301]) == ["new"]
        ids, distances = reopened.search(np.stack([more[7], embeddings[250]]), 1)
        assert ids.tolist() == [[307], [250]]
        np.testing.assert_allclose(distances, 0, atol=0.6 if kind == "ivf_pq" else 0.05)
    ids, distances = index.search(more[:3], 338)  # A search for all finds all.
    assert np.sort(ids).tolist() == [index.ids.tolist()] * 3 and (np.diff(distances) >= 0).all()
    with pytest.raises(ValueError, match="has no image of id 0, 300"):
        index.paths([5, 0, 300])


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_segments_together_find_what_one_segment_finds(embeddings, tmp_path, metric):
    whole = build_index(write_embeddings(tmp_path / "e", embeddings), tmp_path / "w", metric=metric)
    first = write_embeddings(tmp_path / "0", embeddings[:200])
    index = build_index(first, tmp_path / "index", metric=metric)
    for number, rows in enumerate([range(200, 290), range(290, 300)], 1):
        names = [f"/{row:03}.png" for row in rows]
        change_index(index, write_embeddings(tmp_path / str(number), embeddings[rows], names))
    assert [segment.count for segment in index.metadata.segments] == [200, 90, 10]
    index = Index(index.path)
    expected, distances = whole.search(embeddings, 300)
    ids, found = index.search(embeddings, 300)
    np.testing.assert_allclose(found, distances, atol=2e-4)
    assert (ids[:, 0] == expected[:, 0]).mean() > 0.9  # some images are there twice


def test_small_segments_become_one(built, tmp_path):
    index = Index(built("exact"))
    for number in range(20):
        change_index(index, write_embeddings(tmp_path / str(number), np.eye(1, 8), [f"/{number}"]))
    assert [segment.count for segment in index.metadata.segments] == [300, 16, 4]
    assert len(list(index.path.glob("vectors-*"))) == 3


def test_what_a_change_does_not_touch_is_not_written(built, tmp_path):
    index = Index(built("ivf_sq8"))
    (first,) = index.metadata.segments
    change_index(index, write_embeddings(tmp_path / "more", np.eye(3, 8), ["/a", "/b", "/c"]))
    change_index(index, delete=["/b"])
    assert index.metadata.segments[0] == first and index.metadata.segments[1].count == 2


def test_images_are_replaced_in_one_step(built, tmp_path):
    index = Index(built("exact"), mapped=True)
    new = write_embeddings(tmp_path / "new", 5 * np.eye(3, 8), ["/000.png", "/001.png", "/x.png"])
    with pytest.raises(ValueError, match="holds 2 images of these already; .*--replace"):
        change_index(index, new)
    change_index(index, new, delete=["/002.png"], replace_known=True)
    for reopened in (index, Index(index.path)):
        assert len(reopened) == 300 and reopened.ids[-3:].tolist() == [300, 301, 302]
        ids, distances = reopened.search(5 * np.eye(3, 8), 1)
        assert ids.tolist() == [[300], [301], [302]] and distances.max() == 0
    assert names_of(index) == {f"/{i:03}.png" for i in range(300) if i != 2} | {"/x.png"}


VECTORS = np.random.default_rng(0).uniform(-1, 1, (266, 3)).astype("float32")
picked = st.lists(st.integers(250, 265), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def small_indexes(tmp_path_factory):
    """Indexes of 256 images of dimension 3, to be copied."""
    path = tmp_path_factory.mktemp("small")
    folder = write_embeddings(path / "e", VECTORS[:256])
    return {kind: build_index(folder, path / kind, kind).path for kind in ("exact", "ivf_sq8")}


@settings(max_examples=25)
@given(
    kind=st.sampled_from(["exact", "ivf_sq8"]),
    changes=st.lists(st.tuples(st.sampled_from(["add", "delete", "replace"]), picked), max_size=5),
)
def test_behaves_like_a_dictionary(small_indexes, tmp_path_factory, kind, changes):
    path = tmp_path_factory.mktemp("index")
    index = Index(shutil.copytree(small_indexes[kind], path / "index"))
    model, next_id = {f"/{i:03}.png": i for i in range(256)}, 256
    for number, (change, rows) in enumerate(changes):
        names = [f"/{row:03}.png" for row in rows]
        is_clean, known = len(set(names)) == len(names), set(names) & set(model)
        if change == "delete":
            if known == set(names) and is_clean:
                change_index(index, delete=names)
                model = {name: model[name] for name in model if name not in names}
            else:
                with pytest.raises(ValueError, match="does not hold .* to delete|named twice"):
                    change_index(index, delete=names)
        else:
            source = write_embeddings(path / str(number), VECTORS[rows], names)
            if is_clean and (change == "replace" or not known):
                change_index(index, source, replace_known=change == "replace")
                model.update(zip(names, range(next_id, next_id + len(names)), strict=True))
                next_id += len(names)
            else:
                with pytest.raises(ValueError, match="holds .* of these already|image twice"):
                    change_index(index, source)
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
def test_an_index_that_was_emptied_can_be_filled_again(built, folder, embeddings, kind):
    index = Index(built(kind))
    change_index(index, delete=index.paths(index.ids))
    index = Index(index.path)
    with pytest.raises(ValueError, match="is empty"):
        index.search(embeddings[:1], 1)
    change_index(index, folder)
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
def test_bad_searches(built, queries, k, message):
    with pytest.raises(ValueError, match=message):
        Index(built("exact")).search(queries, k)


@pytest.mark.parametrize("kind", KINDS)
def test_excluded_images_are_not_found(built, embeddings, kind):
    index = Index(built(kind))
    change_index(index, delete=["/007.png"])
    everything, distances = index.search(embeddings[:4], 299)
    excluded = np.flatnonzero(np.arange(300) % 3 == 0)
    kept = ~np.isin(everything, excluded)
    for k in (5, 199):
        found, theirs = index.search(embeddings[:4], k, excluded)
        np.testing.assert_array_equal(theirs, distances[kept].reshape(4, 199)[:, :k])
        assert not np.isin(found, excluded).any()
    for ids, message in (
        ([7], "no image of id 7"),
        (excluded, "between 1 and 199, .* without 100"),
    ):
        with pytest.raises(ValueError, match=message):
            index.search(embeddings[:1], 200, ids)


def test_other_models_and_images_that_are_not_there_are_refused(built, embeddings, tmp_path):
    index = Index(built("exact"))
    other = write_embeddings(tmp_path / "other", embeddings, ["/x"] * 300, model="b")
    with pytest.raises(ValueError, match=r"the models are two of /no/such/run, which was"):
        change_index(index, other)
    resized = write_embeddings(tmp_path / "resized", embeddings[:1], ["/x"])
    model = EmbeddingsFolder(resized).metadata().model
    preprocessing = {"image_size": 17, "resize": None}
    edit_json(resized / "embeddings.json", model={**vars(model), "preprocessing": preprocessing})
    with pytest.raises(ValueError, match="the preprocessing is {'image_size': 17"):
        change_index(index, resized)
    with pytest.raises(ValueError, match="index does not hold 1 image to delete: /gone.png"):
        change_index(index, delete=["/000.png", "/gone.png"])
    assert len(index) == len(Index(index.path)) == 300


def test_what_cannot_be_built(folder, built, tmp_path):
    for kind in ("ivf_sq8", "ivf_pq"):
        few = write_embeddings(tmp_path / kind, np.eye(255, 4))
        with pytest.raises(ValueError, match=f"{kind} needs at least 256 images; received 255"):
            build_index(few, tmp_path / "index", kind)
        assert not (tmp_path / "index").exists()
    twice = write_embeddings(tmp_path / "twice", np.eye(2), ["/a", "/a"])
    with pytest.raises(ValueError, match="holds an image twice"):
        build_index(twice, tmp_path / "index")
    with pytest.raises(FileExistsError, match="holds an index; add to it"):
        build_index(folder, built("exact"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "items-2024.parquet").touch()
    with pytest.raises(FileExistsError, match="exists and holds no index"):
        build_index(folder, tmp_path / "mine")
    with pytest.raises(FileNotFoundError, match="/no/such/run, is not there or has another model"):
        build_index(folder)
    with pytest.raises(ValueError, match="one of exact, sq8, .*, ivf_pq; received 'lsh'"):
        build_index(folder, tmp_path / "another", "lsh")
    for kind, rescore, message in (
        ("exact", "sq8", "exact has the vectors themselves and is not rescored"),
        ("ivf_sq8", "sq8", "can be rescored by vectors; received rescore='sq8'"),
        ("ivf_pq", "lsh", "can be rescored by sq8 or vectors; received rescore='lsh'"),
    ):
        with pytest.raises(ValueError, match=message):
            build_index(folder, tmp_path / "another", kind, rescore=rescore)
    with pytest.raises(ValueError, match="have between 1 and 8, received 9"):
        build_index(folder, tmp_path / "another", dim=9)
    assert not (tmp_path / "another" / "index.json").exists()
