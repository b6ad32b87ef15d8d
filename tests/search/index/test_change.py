import shutil

import numpy as np
import pytest
from embedded import KINDS, random_embeddings, write_embeddings
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from gsp_tf.search import Index, build_index, change_index, search_many


@pytest.mark.parametrize("kind", KINDS)
def test_images_are_added_and_deleted(built, embeddings, tmp_path, kind):
    index = Index(built(kind))
    more = random_embeddings(40, seed=5)
    names = [f"/new/{i}.png" for i in range(40)]
    change_index(index, write_embeddings(tmp_path / "more", more, names, labels=["new"] * 40))
    change_index(index, delete=["/000.png"])
    change_index(index, delete="/new/0.png")  # one path is not read letter by letter
    for reopened in (index, Index(index.path), Index(index.path, mapped=True)):
        assert len(reopened) == 338
        assert not {"/000.png", "/new/0.png"} & set(reopened.paths(reopened.ids))
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
@pytest.mark.parametrize("kind", ["exact", "hnsw"])
def test_equally_near_images_come_by_id(tmp_path, kind, metric):
    """Four copies of each of nine images, also where segments divide the copies."""
    corners = np.stack(np.meshgrid([-1, 0, 1], [0.5, 1, 2]), axis=-1).reshape(9, 2)
    rows, queries = np.tile(corners, (4, 1)), np.array([[3.0, -1.0], [-0.5, 0.25]])
    index = build_index(write_embeddings(tmp_path / "0", rows[:20]), tmp_path / "i", kind, metric)
    for first, last in ((20, 30), (30, 36)):
        names = [f"/{row:03}.png" for row in range(first, last)]
        change_index(index, write_embeddings(tmp_path / str(last), rows[first:last], names))
    expected = np.sort(cdist(queries, rows, metric), axis=1)
    for k in (6, 36):
        ids, distances = index.search(queries, k)
        np.testing.assert_allclose(distances, expected[:, :k], atol=1e-6)
        is_tied = np.diff(distances) == 0
        assert is_tied.sum() >= k // 2
        assert (np.diff(ids)[is_tied] > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_that_was_emptied_can_be_searched_and_filled_again(built, folder, tmp_path, kind):
    index, more = Index(built(kind)), random_embeddings(110, seed=5)
    for first, last in ((0, 100), (100, 110)):
        names = [f"/new/{row}.png" for row in range(first, last)]
        change_index(index, write_embeddings(tmp_path / str(last), more[first:last], names))
    change_index(index, delete=[f"/{row:03}.png" for row in range(300)])
    assert [segment.count for segment in index.metadata.segments] == [0, 100, 10]
    ids, _ = index.search(more[:3], 110, where="id >= 0")
    assert np.sort(ids).tolist() == [[*range(300, 410)]] * 3
    change_index(index, delete=index.paths(index.ids))
    index = Index(index.path)
    with pytest.raises(ValueError, match="is empty"):
        index.search(more[:1], 1)
    change_index(index, folder)
    assert index.ids.tolist() == list(range(410, 710))
    assert index.search(random_embeddings(300)[45:46], 1)[0].tolist() == [[455]]


def test_small_segments_become_one(built, tmp_path):
    index = Index(built("exact"))
    for number in range(10):
        change_index(index, write_embeddings(tmp_path / str(number), np.eye(1, 8), [f"/{number}"]))
    assert [segment.count for segment in index.metadata.segments] == [300, 8, 2]
    assert len(list(index.path.glob("vectors-*"))) == 3


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


def test_other_models_and_images_that_are_not_there_are_refused(built, embeddings, tmp_path):
    index = Index(built("exact"))
    other = write_embeddings(tmp_path / "other", embeddings, ["/x"] * 300, model="b")
    with pytest.raises(ValueError, match=r"the models are two of /no/such/run, which was"):
        change_index(index, other)
    source = write_embeddings(tmp_path / "source", 3 * embeddings, [f"/x{i}" for i in range(300)])
    cosine = build_index(source, tmp_path / "cosine", metric="cosine").path
    for use, *out in ((change_index,), (search_many, tmp_path / "found.csv")):
        with pytest.raises(ValueError, match="cosine and .* lost their lengths, which Euclidean"):
            use(index, cosine, *out)
    assert search_many(cosine, index.path, tmp_path / "found.csv", k=1).queries == 300
    with pytest.raises(ValueError, match=r"not hold 2 images to delete: /gone.png, /\\udcff.png"):
        change_index(index, delete=["/000.png", "/gone.png", "/\udcff.png"])
    assert len(index) == len(Index(index.path)) == 300
