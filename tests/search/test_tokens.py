"""Local features beside embeddings: in the folder of embed, in the index, and in search."""

import json

import numpy as np
import pytest
from digit_runs import run_command
from embedded import save_digits, save_run

from gsp_tf.evaluation import match_tokens, reranking_metrics
from gsp_tf.runs import RunFolder, TokenModel, load_splits
from gsp_tf.search import (
    Embeddings,
    Index,
    RunModel,
    build_index,
    calibrate,
    change_index,
    embed_images,
    ranked_images,
    search,
)
from gsp_tf.search._embedded import EmbeddingsFolder
from gsp_tf.search.pages import _explained

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Digits, a run with GSP, and the embeddings of half of the digits with four tokens each."""
    folder = tmp_path_factory.mktemp("tokens")
    images = save_digits(folder / "digits")
    run = save_run(folder / "run", images, pooling="{name: gsp, num_prototypes: 4}")
    files = sorted(images.rglob("*.png"))
    lines = [f"{file},{file.parent.name}" for file in files[::2]]
    listed = folder / "half.csv"
    listed.write_text("\n".join(["path,label", *lines]), "utf-8")
    return run, files, embed_images(run, [listed], folder / "half", shard_size=16, tokens=4)


@pytest.fixture(scope="module")
def expected(searched):
    """The embeddings and tokens of all digits."""
    run, files, _ = searched
    (embeddings, _), sets = RunModel(run).embed_with_tokens([str(file) for file in files], 4)
    return embeddings, sets


def test_an_index_keeps_the_tokens_of_its_images_through_changes(searched, expected, tmp_path):
    run, files, embedded = searched
    index = build_index(embedded, tmp_path / "index")
    rows = {str(file): row for row, file in enumerate(files)}

    def check(index, count):
        assert len(index) == count
        ids = index.ids[[-1, 0, 7]]
        found = index.token_sets(ids)
        wanted = expected[1].take([rows[path] for path in index.paths(ids)])
        np.testing.assert_array_equal(found.places, wanted.places)
        assert np.abs(found.tokens.astype(int) - wanted.tokens).max() <= 1

    check(index, 40)
    more = embed_images(run, files[1::2], tmp_path / "more", tokens=4)
    change_index(index, more, delete=[files[0], files[4]])
    check(Index(index.path), 78)
    change_index(index, more, replace_known=True)
    check(Index(index.path), 78)
    assert len(list(index.path.glob("tokens-*.arrow"))) == len(index.metadata.segments)
    change_index(index, delete=index.paths(index.ids))
    change_index(Index(index.path), embedded)  # the first images of an empty index bring theirs
    check(index := Index(index.path), 40)
    none = embed_images(run, files[:1], tmp_path / "none")
    with pytest.raises(ValueError, match="keeps local features, and .*none has none; embed its"):
        change_index(index, none)


def test_search_orders_results_by_transport(searched, expected, tmp_path, printed_by, refused):
    run, files, embedded = searched
    index = build_index(embedded, tmp_path / "index")
    found = search(run, files[1], index, k=5, rerank="transport")
    plain = search(run, files[1], index, k=40)
    assert len(found) == 5 and sorted(n.cost for n in found) == [n.cost for n in found]
    ids = [neighbour.id for neighbour in plain]
    by_id = {neighbour.id: neighbour for neighbour in plain}
    assert all(n.distance == by_id[n.id].distance and by_id[n.id].cost is None for n in found)
    distances, _ = match_tokens(expected[1].take([1] * 40), index.token_sets(ids))
    np.testing.assert_allclose([n.cost for n in found], np.sort(distances)[:5], atol=1e-4)
    cut = search(run, files[1], index, k=5, rerank="transport", dim=4)
    assert [(one.id, one.cost) for one in cut] == [(one.id, one.cost) for one in found]
    assert cut[0].distance != found[0].distance
    thresholds = calibrate(run, 0.05, out=tmp_path / "thresholds.json", num_resamples=5)
    arguments = "search", run, files[1], "--index", index.path, "--rerank", "transport"
    printed = printed_by(*arguments, "--k", 3, "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert f"{found[0].cost:.4f} · {found[0].distance:.4f}" in page and "gives the order" in page
    assert found[0].path.rsplit("/")[-1] in printed
    printed = printed_by(*arguments, "--thresholds", tmp_path / "thresholds.json")
    said = f"First by transport for {files[1]} ({thresholds.decide(found[0].distance)}), in"
    assert said in printed.replace("\n", " ")
    refused("Transport orders the first 100 results; received k=101", *arguments, "--k", 101)


def test_transport_leaves_excluded_images_out(searched, tmp_path):
    run, files, embedded = searched
    index, queries = build_index(embedded, tmp_path / "index"), [str(files[1]), str(files[3])]
    excluded = [index.ids[::3], index.ids[1::3]]
    whole = search(run, queries, index, 40, rerank="transport")
    found = search(run, queries, index, 9, rerank="transport", excluded=excluded)
    for neighbours, ids, of_whole in zip(found, excluded, whole, strict=True):
        others = [one.id for one in of_whole if one.id not in ids][:9]
        assert [one.id for one in neighbours] == others
    with pytest.raises(ValueError, match="ids for each of 1 images; received 2"):
        search(run, queries[0], index, excluded=excluded)


def transported(*arguments, **tokens):
    """MAP@R in the order of transport."""
    found = reranking_metrics(*arguments, methods=["transport"], **tokens)["transport"]
    return found.metrics.means()["map_at_r"].value


def evaluated(tmp_path, *arguments):
    """MAP@R in the order of transport, as `gsp-tf rank` writes it."""
    out = tmp_path / "metrics.json"
    assert run_command("rank", *arguments, "--rerank", "transport", "--out", out) == 0
    return json.loads(out.read_text("utf-8"))["transport"]["map_at_r"]


@pytest.fixture(scope="module")
def labelled(searched, expected, tmp_path_factory):
    """A folder and an index of 40 digits, and their embeddings, tokens and labels."""
    _, files, embedded = searched
    index = build_index(embedded, tmp_path_factory.mktemp("labelled") / "index")
    labels = np.unique([file.parent.name for file in files[::2]], return_inverse=True)[1]
    rows = np.arange(0, 80, 2)
    return embedded.path, index.path, expected[0][rows], expected[1].take(rows), labels


def test_rank_compares_the_tokens_of_folders_and_indexes(labelled, tmp_path):
    *sources, embeddings, sets, labels = labelled
    expected = transported(embeddings, labels, query_tokens=sets)
    for source in sources:
        assert evaluated(tmp_path, source) == pytest.approx(expected, abs=2e-3)
    # Random classes keep their own tokens.
    read = Embeddings.read(sources[0], tokens=True).labelled(most_images=15)
    rows = np.abs(embeddings[:, None] - read.vectors).sum(axis=2).argmin(axis=0)
    assert len(rows) == 12 and (read.tokens.places == sets.take(rows).places).all()


def test_rank_compares_the_images_of_a_run_with_a_gallery(searched, labelled, tmp_path, refused):
    run, files, _ = searched
    folder, index, embeddings, sets, labels = labelled
    test = load_splits(RunModel(run).recipe).test
    paths = [str(path) for path in test.paths]
    (queries, _), tokens = RunModel(run).embed_with_tokens(paths, 3)
    numbers = np.unique([file.parent.name for file in files])
    of_queries = np.searchsorted(numbers, np.array(test.class_names)[test.labels])
    both = {"query_tokens": tokens, "reference_tokens": sets}
    expected = transported(queries, of_queries, embeddings, labels, **both)
    found = evaluated(tmp_path, run, "--gallery", index, "--tokens", 3)
    assert found == pytest.approx(expected, abs=2e-3)
    arguments = "rank", folder, "--gallery", run, "--rerank", "transport"
    refused("keeps no local features, which transport", *arguments)
    few = embed_images(run, [files[0].parents[1]], tmp_path / "few", tokens=2)
    with pytest.raises(ValueError, match="different numbers of local features, 2, 4"):
        ranked_images(folder, [few.path, index], tokens=4)


def test_the_page_shows_what_the_neighbours_have_in_common(searched, tmp_path, refused):
    run, files, embedded = searched
    gone = tmp_path / "gone.png"
    pictures = _explained(RunModel(run), files[0], [files[1], gone])
    assert pictures[0].shape == (320, 680, 3) and pictures[1] is None
    with pytest.raises(ValueError, match="gone.png"):
        _explained(RunModel(run), gone, files[:1])
    index, page = build_index(embedded, tmp_path / "index"), tmp_path / "page.html"
    arguments = "search", run, files[1], "--index", index.path, "--k", 2
    assert run_command(*arguments, "--html", page, "--why") == 0
    text = page.read_text("utf-8")
    assert text.count("matched places of the query") == 2 and "Euclidean distance" in text
    refused("--why is for the page with pictures; give --html too", *arguments, "--why")


def test_refuses_what_has_no_tokens(searched, tmp_path):
    run, files, embedded = searched
    listed = [embedded.path.with_suffix(".csv")]
    with pytest.raises(ValueError, match="with 4 local features of each image, and 3 were asked"):
        embed_images(run, listed, embedded, tokens=3)
    embed_images(run, listed, embedded, tokens=4)
    plain = build_index(embed_images(run, files[:8], tmp_path / "plain"), tmp_path / "index")
    assert not plain.has_tokens
    with pytest.raises(ValueError, match="keeps no local features; embed the images with --tokens"):
        search(run, files[1], plain, rerank="transport")
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    model = RunModel(run)
    (embeddings, problems), sets = model.embed_with_tokens([str(broken), str(files[0])], 4)
    assert np.isnan(embeddings[0]).all() and problems[0] and not problems[1]
    assert sets.tokens.shape == (2, 4, 8)
    assert [(values[0] == 0).all() for values in sets] == [True] * 3 and sets.weights[1].any()
    assert TokenModel(RunFolder(run).learner().embedder, 4).none().weights.sum() == 0
    assert EmbeddingsFolder(embedded).shard_schema(0).field("token_weights").type.list_size == 4
