import re
import shutil
from pathlib import Path

import numpy as np
from embedded import rows_of
from sklearn.datasets import load_digits

from gsp_tf.search import find_label_errors


def test_an_image_of_two_sources_does_not_vote_for_its_own_label(tmp_path):
    path = tmp_path / "digits.npz"
    embeddings, labels = load_digits(return_X_y=True)
    labels[::10] += 1
    np.savez(path, embeddings=embeddings[:400], labels=list(map(str, labels[:400])))
    before = path.read_bytes()
    once = find_label_errors(path, tmp_path / "once")
    rows = rows_of(once.table)
    scores = [row["score"] for row in rows]
    assert len(rows) >= 40 and scores == sorted(scores, reverse=True) and min(scores) > 0
    twice = find_label_errors([path, path], tmp_path / "twice")
    assert twice.table.read_bytes() == once.table.read_bytes() and len(twice.names) == 400
    assert path.read_bytes() == before


def test_an_image_in_a_folder_of_another_class_is_found(colours, colours_run, tmp_path, printed_by):
    folder = tmp_path / "photos"
    for number in range(6):  # four copies of each first image are a class
        name = f"class {number}"
        (folder / name).mkdir(parents=True)
        for copy in range(4):
            shutil.copy(colours / name / f"{number}.png", folder / name / f"{copy}.png")
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
    page = (tmp_path / "out" / "label_errors.html").read_text("utf-8")
    shown = re.sub(r"(?s)<style.*?</style>|<[^>]*>", "\n", page)
    assert "class 1/moved.png" in shown and "class 0" in shown and str(tmp_path) not in shown


def test_what_cannot_be_used_is_refused(colours, tmp_path, refused):
    np.savez(tmp_path / "none.npz", embeddings=np.eye(4))
    np.savez(tmp_path / "one.npz", embeddings=np.eye(4), labels=["a"] * 4)
    for arguments, message in (
        ([colours], "name the run whose model embeds the images"),
        ([tmp_path / "none.npz"], "Three images with labels or more are needed; received 0"),
        ([tmp_path / "one.npz"], "Labels of two classes or more are needed; received 1"),
    ):
        refused(message, "clean", *arguments, "--out", tmp_path / "out")
