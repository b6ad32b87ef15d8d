import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from embedded import rows_of
from sklearn.datasets import load_digits

from gsp_tf.search import find_duplicates, find_label_errors


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """A file with 400 handwritten digits as embeddings, 40 of them with a wrong label."""
    embeddings, labels = load_digits(return_X_y=True)
    embeddings, labels = embeddings[:400], labels[:400]
    rng = np.random.default_rng(0)
    wrong = rng.choice(400, 40, replace=False)
    given = labels.copy()
    given[wrong] = (labels[wrong] + rng.integers(1, 10, 40)) % 10
    path = tmp_path_factory.mktemp("noisy") / "digits.npz"
    np.savez(path, embeddings=embeddings, labels=[f"digit {label}" for label in given])
    return path, labels, wrong


def test_wrong_labels_of_handwritten_digits_are_listed(noisy, tmp_path, printed_by):
    path, labels, wrong = noisy
    before = path.read_bytes()
    assert "of 400 images disagree" in printed_by("clean", path, "--out", tmp_path / "out")
    rows = rows_of(tmp_path / "out" / "label_errors.csv")
    numbers = [int(row["path"].split("#")[1]) for row in rows]
    assert set(wrong) <= set(numbers) and len(set(numbers[:40]) & set(wrong)) >= 37
    right = [row["suggested"] == f"digit {labels[n]}" for n, row in zip(numbers, rows, strict=True)]
    assert np.mean(np.array(right)[np.isin(numbers, wrong)]) > 0.94
    scores = [row["score"] for row in rows]
    assert scores == sorted(scores, reverse=True) and min(scores) > 0
    assert path.read_bytes() == before
    found = find_label_errors(path, tmp_path / "out", table="parquet")
    assert [row["score"] for row in rows_of(found.table)] == scores


def test_an_image_of_two_sources_does_not_vote_for_its_own_label(noisy, tmp_path):
    once = find_label_errors(noisy[0], tmp_path / "once")
    twice = find_label_errors([noisy[0], noisy[0]], tmp_path / "twice")
    assert twice.table.read_bytes() == once.table.read_bytes()
    assert len(twice.names) == 400


def test_an_image_in_the_folder_of_another_class_is_found(
    colours, colours_run, tmp_path, printed_by
):
    folder = shutil.copytree(colours, tmp_path / "photos")
    for number in range(6):  # four copies of each first image are a class
        shutil.rmtree(folder / f"class {number}")
        (folder / f"class {number}").mkdir()
        for copy in range(4):
            first = colours / f"class {number}" / f"{number}.png"
            shutil.copy(first, folder / f"class {number}" / f"{copy}.png")
    moved = folder / "class 1" / "moved.png"
    (folder / "class 0" / "3.png").rename(moved)
    (folder / "class 2" / "broken.png").write_bytes(b"no image")
    arguments = ["clean", folder, "--run", colours_run, "--k", 3, "--out", tmp_path / "out"]
    printed = printed_by(*arguments)
    assert "broken.png: " in printed and "Embedded 24 new images." in printed
    rows = rows_of(tmp_path / "out" / "label_errors.csv")
    assert [Path(row["path"]) for row in rows] == [moved]
    assert (rows[0]["label"], rows[0]["suggested"], rows[0]["score"]) == ("class 1", "class 0", 1)
    assert "Embedded 0 new images." in printed_by(*arguments)


def test_pages_have_labels_and_short_names_of_files(colours, colours_run, tmp_path):
    for number in range(2):
        shutil.copytree(colours / f"class {number}", tmp_path / f"{number}" / "first")
        shutil.copytree(colours / f"class {number}", tmp_path / f"{number}" / "second")
    sources = [tmp_path / "0", tmp_path / "1"]
    found = find_duplicates(sources, tmp_path / "out")
    errors = find_label_errors(sources, tmp_path / "labels", colours_run, k=3)
    for page in (found.page, errors.page):
        text = page.read_text("utf-8")
        shown = re.sub(r"(?s)<style.*?</style>|<[^>]*>", "\n", text)
        assert str(tmp_path) in text and str(tmp_path) not in shown
        assert re.search(r"\bfirst\b *(·|$)", shown, re.M) and re.search(
            r"^first/\S+$", shown, re.M
        )


def test_what_cannot_be_used_is_refused(colours, tmp_path, refused):
    np.savez(tmp_path / "none.npz", embeddings=np.eye(4))
    np.savez(tmp_path / "one.npz", embeddings=np.eye(4), labels=["a"] * 4)
    np.savez(tmp_path / "two.npz", embeddings=np.eye(4), labels=list("aabb"))
    np.savez(tmp_path / "nan.npz", embeddings=np.full((4, 2), np.nan), labels=list("aabb"))
    for arguments, message in (
        ([colours], "name the run whose model embeds the images"),
        ([tmp_path / "none.npz"], "Three images with labels or more are needed; received 0"),
        ([tmp_path / "one.npz"], "Labels of two classes or more are needed; received 1"),
        ([tmp_path / "nan.npz"], "4 of 4 rows hold NaN or infinity"),
        ([tmp_path / "two.npz", "--k", 0], "--k must be an integer from 1"),
    ):
        refused(message, "clean", *arguments, "--out", tmp_path / "out")
