import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.search.collection import _Collection
from gsp_tf.search.embed import file_columns


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """30 rows in files of 9, 0, 20 and 1, in row groups of 4."""
    folder, first = tmp_path_factory.mktemp("collection"), 0
    (folder / "b").mkdir()
    for name, count in (("a", 9), ("b/empty", 0), ("b/rest", 20), ("c", 1)):
        paths = [f"/{number:03}.jpg" for number in range(first, first + count)]
        table = pa.table({"path": pa.array(paths, pa.string()), "label": np.arange(count)})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=4)
        first += count
    return folder


@settings(max_examples=30)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 9))
def test_rows_are_those_asked_for_in_their_order(folder, start, stop, size):
    batches = list(_Collection(folder).batches(start, stop, size))
    names = [name for batch in batches for name in batch.names]
    assert names == [f"/{number:03}.jpg" for number in range(start, stop)]
    assert [path for batch in batches for path in batch.images] == names
    labels = [label for batch in batches for label in batch.labels]
    everything = [*map(str, range(9)), *map(str, range(20)), "0"]
    assert labels == everything[start : max(start, stop)]
    assert all(len(batch.names) <= size for batch in batches)


def write(file, columns):
    pq.write_table(pa.table(columns), file)
    [batch] = _Collection(file).batches(0, 99, 99)
    return batch


def test_paths_are_relative_to_the_file(tmp_path):
    batch = write(tmp_path / "a.parquet", {"path": ["x/1.jpg", "/2.jpg", None, ""]})
    rows = [f"{tmp_path / 'a.parquet'}#{row}" for row in (2, 3)]
    assert batch.names == [str(tmp_path / "x/1.jpg"), "/2.jpg", *rows]
    assert batch.images == [str(tmp_path / "x/1.jpg"), "/2.jpg", None, None]
    assert batch.labels == [None] * 4
    batch = write(tmp_path / "a.parquet", {"path": ["a\0.png"]})  # the name of no file
    columns = file_columns(batch.images)
    assert [column.to_pylist() for column in columns.values()] == [[None], [None]]


def test_bytes_are_named_by_their_row_or_path(tmp_path):
    batch = write(tmp_path / "a.parquet", {"bytes": [b"0", None], "label": ["x", ""]})
    assert batch.names == [f"{tmp_path / 'a.parquet'}#{row}" for row in (0, 1)]
    assert batch.images == [b"0", None] and batch.labels == ["x", None]
    batch = write(tmp_path / "a.parquet", {"bytes": [b"0"], "path": ["0.jpg"]})
    assert batch.names == [str(tmp_path / "0.jpg")] and batch.images == [b"0"]


def test_other_columns_are_passed_on(tmp_path):
    first = {"path": ["a", "b"], "year": [1, 2], "place": pa.array(["x", "y"]).dictionary_encode()}
    pq.write_table(pa.table(first), tmp_path / "1.parquet")
    pq.write_table(pa.table({"path": ["c"], "file_size": [9]}), tmp_path / "2.parquet")
    batches = list(_Collection(tmp_path).batches(1, 3, 9))
    found = [{name: column.to_pylist() for name, column in b.columns.items()} for b in batches]
    assert found == [{"year": [2], "place": ["y"]}, {"year": [None], "place": [None]}]
    pq.write_table(pa.table({"path": ["c"], "year": ["MMX"]}), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match="column year of .* is of type int64 and, in .*string"):
        _Collection(tmp_path)


def test_the_fingerprint_is_that_of_the_contents(tmp_path):
    write(tmp_path / "a.parquet", {"path": ["/1.jpg", "/2.jpg"]})
    first = _Collection(tmp_path).sha256
    write(tmp_path / "a.parquet", {"path": ["/1.jpg", "/3.jpg"]})
    assert _Collection(tmp_path).sha256 != first
    write(tmp_path / "a.parquet", {"path": ["/1.jpg", "/2.jpg"]})
    write(tmp_path / ".hidden.parquet", {"path": ["/3.jpg"]})
    assert _Collection(tmp_path).sha256 == first
    (tmp_path / "a.parquet").rename(tmp_path / "b.parquet")
    assert _Collection(tmp_path).sha256 != first


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"name": ["a"], "id": [1]}, "neither a column path nor bytes; received .* name, id"),
        ({"path": [1]}, "path is of type int64; expected string"),
        ({"bytes": ["a"]}, "bytes is of type string; expected binary"),
        ({"path": ["a"], "label": [["b"]]}, r"label is of type list<.*>; expected string"),
        ({"path": pa.array([], pa.string())}, "lists no images"),
    ],
)
def test_other_files_are_refused(tmp_path, columns, message):
    with pytest.raises(ValueError, match=message):
        write(tmp_path / "a.parquet", columns)


def test_what_is_no_collection_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone does not exist"):
        _Collection(tmp_path / "gone")
    with pytest.raises(ValueError, match="There are no Parquet files"):
        _Collection(tmp_path)
