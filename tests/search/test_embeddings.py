"""Embeddings from anywhere: one table, read in blocks."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedded import edit_json, random_embeddings, write_embeddings

from gsp_tf._metadata import ModelInfo, Preprocessing
from gsp_tf.search import Embeddings, RunModel, build_index, excluded_by
from gsp_tf.search._tables import ImageTable
from gsp_tf.search.collection import _Collection
from gsp_tf.search.index._where import ConditionError

COUNT = 1500
LABELS = [None if row % 5 == 0 else f"class {row % 3}" for row in range(COUNT)]
PATHS = [f"/photos/{row:04}.png" for row in range(COUNT)]
CAMERAS = [row % 4 for row in range(COUNT)]


@pytest.fixture(scope="module")
def vectors():
    return random_embeddings(COUNT).astype("float32")


def checked(source):
    """The paths, labels and vectors of a source, whose blocks are small and read again alike."""
    sizes = [len(block) for block in source.blocks()]
    assert max(sizes) <= 1024 and [len(block) for block in source.blocks()] == sizes
    assert (source.count, source.dim) == source.vectors.shape
    return source.paths, source.labels, source.vectors


def test_every_source_says_the_same_about_its_images(vectors, tmp_path):
    folder = write_embeddings(tmp_path / "e", vectors, PATHS, LABELS, shard_size=1200)
    texts = ["" if label is None else label for label in LABELS]
    arrays = {"paths": PATHS, "labels": texts, "camera": CAMERAS, "other": [1]}
    np.savez(tmp_path / "a.npz", embeddings=vectors, **arrays)
    columns = {"path": PATHS, "label": LABELS, "camera": CAMERAS}
    table = pa.table({"embedding": list(vectors.astype(float)), **columns})
    (tmp_path / "parts" / ".hidden").mkdir(parents=True)
    for number, start in enumerate((0, 1100)):
        part = table.slice(start, 1100 if start == 0 else None)
        pq.write_table(part, tmp_path / "parts" / f"{number}.parquet")
    (tmp_path / "parts" / ".hidden" / "0.parquet").write_bytes(b"not read")
    pq.write_table(pa.table({"path": PATHS, "camera": CAMERAS}), tmp_path / "cameras.parquet")
    index = build_index(folder, tmp_path / "index", table=tmp_path / "cameras.parquet").path
    for path in (folder, index, tmp_path / "parts", tmp_path / "a.npz"):
        source = Embeddings.read(path)
        paths, labels, found = checked(source)
        assert source.name == str(path)
        np.testing.assert_allclose(found, vectors, atol=1e-6)
        assert paths == PATHS and labels == LABELS
        if path == folder:
            source = source.with_columns(tmp_path / "cameras.parquet")
        assert source.texts("camera").tolist() == list(map(str, CAMERAS))
        known = ("euclidean", False) if path in (folder, index) else (None, True)
        assert (source.metric, source.model is None) == known
        copy = Embeddings.read(source.to_parquet(tmp_path / "copy.parquet"))
        assert (copy.metric, copy.model) == (source.metric, source.model)
        assert copy.table.equals(source.table.select(copy.table.column_names))
        some = copy.where("camera == 3 and label == 'class 1'")
        rows = [r for r in range(COUNT) if CAMERAS[r] == 3 and LABELS[r] == "class 1"]
        assert some.paths == [PATHS[row] for row in rows]
        np.testing.assert_array_equal(some.vectors, source.vectors[rows])
    with pytest.raises(ConditionError, match="No image of .* meets the condition 'camera > 3'"):
        copy.where("camera > 3")


def test_images_without_a_path_are_named_by_their_row(vectors, tmp_path):
    paths = [None if row % 2 else path for row, path in enumerate(PATHS)]
    split = [None if row % 7 else "test" for row in range(COUNT)]
    table = pa.table({"embedding": vectors.tolist(), "path": paths, "split": split})
    pq.write_table(table, tmp_path / "a.parquet")
    found = Embeddings.read(tmp_path / "a.parquet")
    assert found.paths == [path or f"{tmp_path}/a.parquet#{row}" for row, path in enumerate(paths)]
    assert found.texts("split").tolist() == [text or "" for text in split]
    assert found.has_paths and found.labels == [None] * COUNT


def test_files_of_a_folder_are_one_table(tmp_path):
    """A column that a file lacks is missing for its images, and their types become one."""
    cameras = {"a": pa.nulls(2), "b": pa.array([1, 2]), "c": pa.array([0.5, 2.5])}
    for name, camera in cameras.items():
        table = {"embedding": np.eye(2).tolist(), "camera": camera, "label": ["", name]}
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    pq.write_table(pa.table({"embedding": np.eye(2).tolist()}), tmp_path / "d.parquet")
    found = Embeddings.read(tmp_path)
    assert found.table["camera"].to_pylist() == [None, None, 1, 2, 0.5, 2.5, None, None]
    assert found.labels == [None, "a", None, "b", None, "c", None, None]
    assert found.where("camera > 1").paths == [f"{tmp_path}/b.parquet#1", f"{tmp_path}/c.parquet#1"]
    (tmp_path / ".copy").mkdir()
    copy = Embeddings.read(found.to_parquet(tmp_path / ".copy" / "a.parquet"))
    assert copy.table.equals(found.table)
    pq.write_table(pa.table({"embedding": [[1.0, 2.0]], "camera": ["x"]}), tmp_path / "e.parquet")
    with pytest.raises(ValueError, match="has different types in different images"):
        Embeddings.read(tmp_path)


def test_embeddings_of_two_models_are_not_one_source(tmp_path):
    models = [ModelInfo(sha, "r", f"/{sha}", Preprocessing(16, None)) for sha in ("a", "b")]
    for name, described, message in (
        ("models", [{"model": model} for model in models], "the models are of /a and /b"),
        ("unknown", [{"model": models[0]}, {}], "does not say which model made its"),
        ("metrics", [{"metric": "cosine"}, {}], "the distances are cosine and None"),
    ):
        (tmp_path / name).mkdir()
        for number, known in enumerate(described):
            source = Embeddings.from_arrays(np.eye(2), **known)
            source.to_parquet(tmp_path / name / f"{number}.parquet")
        with pytest.raises(ValueError, match=f"0.parquet and .*1.parquet do not belong.*{message}"):
            Embeddings.read(tmp_path / name)


def test_columns_of_a_table_replace_others_but_not_paths_and_vectors(tmp_path):
    paths, columns = [f"{tmp_path}/{name}" for name in "ab"], {"camera": [1, 2]}
    source = Embeddings.from_arrays(np.eye(2), paths, ["x", "y"], columns)
    table = tmp_path / "t.csv"
    table.write_text("path,camera,label,embedding\na,3,z,5\nb,4,,5\n")
    for names, labels in ((None, ["x", "y"]), (["label", "path", "camera"], ["z", None])):
        found = source.with_columns(table, names)
        assert (found.paths, found.labels) == (paths, labels)
        np.testing.assert_array_equal(found.vectors, np.eye(2))
        assert found.texts("camera").tolist() == ["3", "4"]
    table.write_text("path,camera\n")
    with pytest.raises(ValueError, match="t.csv lacks 2 images: .*/a, .*/b"):
        _ = source.with_columns(table, ["camera"]).table


def test_what_is_not_known_is_missing(tmp_path):
    values = np.array([np.nan, 1.0, np.nan])
    source = Embeddings.from_arrays(np.eye(3), labels=["a", None, ""], columns={"camera": values})
    assert source.texts("camera").tolist() == ["", "1", ""] and source.labels == ["a", None, None]
    index = build_index(source, tmp_path / "index")
    excluded = excluded_by("camera", None, index)(source.paths)
    assert [ids.tolist() for ids in excluded] == [[], [1], []]
    with pytest.raises(ValueError, match="has images without a label; `labelled` leaves"):
        _ = source.classes


def test_arrays_fit_each_other_and_their_paths_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = Embeddings.from_arrays(np.eye(2), ["a", "b/c"], name="photos/of 2024")
    assert found.paths == [f"{tmp_path}/a", f"{tmp_path}/b/c"]
    for given, message in (
        ({"paths": ["a"]}, "one value of paths per embedding; received"),
        ({"labels": np.array([["a"], ["b"]])}, "one value of labels per embedding; received"),
        ({"columns": {"year": [2020]}}, r"one value of year per embedding; received year \(1,\)"),
        ({"columns": {"label": ["a", "b"]}}, "must have labels; received the column label"),
    ):
        with pytest.raises(ValueError, match=message):
            Embeddings.from_arrays(np.eye(2), **given)
    with pytest.raises(TypeError, match="labels must be texts, or None where unknown: "):
        Embeddings.from_arrays(np.eye(2), labels=[1, 2])
    with pytest.raises(ValueError, match="photos/of 2024 keeps no local features"):
        Embeddings.read(found, tokens=True)


def test_all_columns_are_read_as_what_they_are(vectors, tmp_path):
    columns = {"camera": CAMERAS, "day": np.arange(COUNT).astype("datetime64[D]")}
    table = {"embedding": vectors.tolist(), "label": LABELS, "box": [[1, 2]] * COUNT, **columns}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    others = {"other": [1], "phase": np.ones(COUNT, complex)}
    np.savez(tmp_path / "a.npz", embeddings=vectors, paths=PATHS, **columns, **others)
    with pytest.warns(UserWarning, match="1 column left out: box") as warned:
        build_index(tmp_path / "a.parquet", tmp_path / "index")
    assert len(warned) == 1
    for name, left_out in (("a.parquet", "box (list<"), ("a.npz", "phase (complex128)")):
        found = Embeddings.read(tmp_path / name)
        assert len(found.others) == 1 and found.others[0].startswith(left_out)
        assert found.table.schema.names == ["camera", "day", "path", "label", "embedding"]
        assert found.table["camera"].to_pylist() == CAMERAS
        assert pa.types.is_temporal(found.table["day"].type)
    np.save(tmp_path / "a.npy", vectors)
    found = Embeddings.read(tmp_path / "a.npy")
    assert found.paths[-1] == f"{tmp_path}/a.npy#1499" and not found.has_paths
    np.testing.assert_array_equal(found.vectors, vectors)


def test_paths_are_relative_to_the_folder_of_the_file(tmp_path, monkeypatch):
    names = ["a.png", "../b.png", "/c.png", "s3://photos/d.png", ""]
    (tmp_path / "in").mkdir()
    np.savez(tmp_path / "in" / "a.npz", embeddings=np.eye(5), paths=names)
    table = pa.table({"embedding": np.eye(5).tolist(), "path": names})
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    expected = [f"{tmp_path}/in/a.png", f"{tmp_path}/b.png", "/c.png", "s3://photos/d.png"]
    monkeypatch.chdir(tmp_path)
    for path in ("in/a.npz", "in/a.parquet", "in"):
        found = Embeddings.read(path).paths
        assert found[:4] == expected and found[4].endswith("#4")


def test_images_are_embedded_by_a_run(finished_run, images, tmp_path):
    files = sorted(images.rglob("*.png"))[:3]
    (tmp_path / "broken.png").write_bytes(b"no image")
    model = RunModel(finished_run)
    with pytest.warns(UserWarning, match="1 of 4 files cannot be read .*\n.*broken.png"):
        found = Embeddings.read([*files, tmp_path / "broken.png"], run=model)
    assert found.paths == list(map(str, files)) and found.model == model.info
    np.testing.assert_array_equal(found.vectors, model.embed_images(found.paths).embeddings)
    with pytest.raises(ValueError, match="No image can be read of 1 file:\n.*broken.png: "):
        Embeddings.read([tmp_path / "broken.png"], run=model)
    with pytest.raises(ValueError, match="keeps no local features"):
        Embeddings.read(files, run=model, tokens=True)
    with pytest.raises(ValueError, match="are images; name the run or the network"):
        Embeddings.read(files)


def test_what_cannot_be_read(vectors, tmp_path):
    np.savez(tmp_path / "a.npz", embeddings=vectors)
    np.savez_compressed(tmp_path / "zip.npz", embeddings=vectors)
    content = bytearray((tmp_path / "zip.npz").read_bytes())
    content[2000:3000] = bytes(1000)
    (tmp_path / "zip.npz").write_bytes(content)
    np.savez(tmp_path / "text.npz", embeddings=np.full((5, 2), "a"))
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.yaml").touch()
    with pytest.raises(FileNotFoundError, match="run/embeddings holds no .* gsp-tf embed writes"):
        Embeddings.read(run)
    (tmp_path / "text").mkdir()
    np.save(tmp_path / "flat.npy", np.arange(3.0))
    dims = tmp_path / "dims"
    dims.mkdir()
    for name, columns in (
        ("lengths", {"embedding": [[1.0], [1.0, 2.0]]}),
        ("dims/2", {"embedding": [[1.0, 2.0]]}),
        ("dims/3", {"embedding": [[1.0, 2.0, 3.0]]}),
        ("columns", {"label": ["a"]}),
        ("path", {"embedding": [[1.0]], "path": [["a"]]}),
    ):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    for name, identity in (("json", "{"), ("metric", '{"metric": 1}')):
        one = pa.table({"embedding": [[1.0]]}, metadata={"gsp_tf embeddings": identity})
        pq.write_table(one, tmp_path / f"{name}.parquet")
    folder = write_embeddings(tmp_path / "e", vectors[:30])
    outcome = {"embedded": 31, "corrupt": 0, "lengths": [1, 1]}
    images = {"listed": 31, "sha256": "a"}
    edit_json(folder / "embeddings.json", outcome=outcome, images=images)
    np.savez(tmp_path / "nan.npz", embeddings=vectors * np.nan)
    for name, message in (
        ("nan.npz", "1500 of 1500 rows hold NaN"),
        ("columns.parquet", "lacks the column embedding; received label"),
        ("zip.npz", "zip.npz cannot be read; expected arrays embeddings"),
        ("flat.npy", r"flat.npy cannot be read; expected an array \(N, D\): embeddings must"),
        ("text.npz", "text.npz cannot be read; .* real numbers; received dtype <U1"),
        ("lengths.parquet", "lengths.parquet must hold embeddings of one length"),
        ("path.parquet", "path.parquet cannot be used: path is of type list<.*>; expected string"),
        ("json.parquet", "json.parquet is damaged: "),
        ("metric.parquet", "metric.parquet is damaged: it lacks entries, .*: model"),
        ("text", "text holds no embeddings that can be read; expected a run folder"),
        ("dims", "dims holds embeddings of different dimensions, 2 and 3"),
        ("e", "e does not hold 31 embeddings, as expected"),
    ):
        with pytest.raises(ValueError, match=message):
            _ = Embeddings.read(tmp_path / name).table
    with pytest.raises(ValueError, match="one of validation, test, gallery, received 'tets'"):
        Embeddings.read(run, split="tets")
    with pytest.raises(ValueError, match="a.npz has no labels; the classes of images"):
        Embeddings.read(tmp_path / "a.npz").labelled()


def test_labels_of_numbers_are_the_same_classes_in_every_file(tmp_path):
    vectors, labels = np.eye(4), np.array([1.0, np.nan, 2.5, 1.0])
    np.savez(tmp_path / "a.npz", embeddings=vectors, labels=labels)
    table = pa.table({"embedding": vectors.tolist(), "label": labels})
    pq.write_table(table, tmp_path / "a.parquet")
    for name in ("a.npz", "a.parquet"):
        assert Embeddings.read(tmp_path / name).labels == ["1", None, "2.5", "1"]


def test_texts_of_every_type_of_arrow_are_columns(tmp_path):
    texts = pa.array(["a", None, "b"])
    columns = {kind: texts.cast(kind) for kind in ("string", "large_string", "string_view")}
    columns["dictionary"] = texts.dictionary_encode()
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns | {"embedding": np.eye(3).tolist()}), path)
    found = Embeddings.read(path)
    assert found.others == ()
    for name in columns:
        assert found.where(f"{name} == 'b'").count == 1
        assert found.table[name].to_pylist() == texts.to_pylist()


def that_has_a_column_twice(path):
    names = ["path", "camera", "embedding", "camera"]
    pq.write_table(pa.table([["a.png"], [1], [[1.0]], [2]], names=names), path)


def of_one_long_text(path):
    """2 GB of labels, all one text, in a few kilobytes."""
    rows = 2000
    labels = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), ["a" * 10**6])
    paths = [f"{row}.png" for row in range(rows)]
    table = {"path": paths, "embedding": np.eye(rows, 2).tolist(), "label": labels}
    pq.write_table(pa.table(table), path, compression="zstd", store_schema=False)


def of_equal_numbers(path):
    embeddings = pa.FixedSizeListArray.from_arrays(np.zeros(2 * 10**7, np.float32), 10**5)
    paths = [f"{row}.png" for row in range(len(embeddings))]
    pq.write_table(pa.table({"path": paths, "embedding": embeddings}), path, compression="zstd")


def of_bytes_that_are_no_text(path):
    paths = pa.array([b"\xff.png"] * 3).view(pa.string())
    table = {"path": paths, "label": paths, "embedding": np.eye(3).tolist()}
    pq.write_table(pa.table(table), path)


def read_embeddings(path):
    _ = Embeddings.read(path).table


UNFOLDS = r"is refused: its [\d,]{1,7} bytes unfold to ([\d,]+) bytes or more"


@pytest.mark.parametrize(
    ("read", "write", "message"),
    [
        (read_embeddings, that_has_a_column_twice, "has two columns of the name camera"),
        (read_embeddings, of_equal_numbers, UNFOLDS),
        (read_embeddings, of_bytes_that_are_no_text, "is damaged, or no Parquet file: .*UTF8"),
        (read_embeddings, of_one_long_text, UNFOLDS),
        (lambda path: list(_Collection(path).batches(0, 9, 9)), of_one_long_text, UNFOLDS),
        (ImageTable, of_one_long_text, UNFOLDS),
    ],
)
def test_tables_that_are_crafted_or_damaged_are_refused(tmp_path, read, write, message):
    path = tmp_path / "a.parquet"
    write(path)
    with pytest.raises(ValueError, match=f"a.parquet {message}") as refused:
        read(path)
    for size in re.findall("unfold to ([0-9,]+)", str(refused.value)):
        assert int(size.replace(",", "")) < 2**28  # it was refused before the rest was read


def test_no_damage_of_a_footer_ends_the_process(tmp_path):
    """pyarrow would call `abort` where it describes a column that is damaged."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"embedding": [[1.0, 2.0]], "path": ["a"]}), path, store_schema=False)
    content = bytearray(path.read_bytes())
    start, refused = len(content) - 8 - int.from_bytes(content[-8:-4], "little"), 0
    for place in range(start, len(content), 2):
        content[place] ^= 16
        path.write_bytes(content)
        content[place] ^= 16
        try:
            list(Embeddings.read(path).blocks())
        except ValueError as error:
            assert type(error) is ValueError and str(path) in str(error), error
            refused += 1
    assert refused > 50
