"""Conditions on metadata columns: what they mean, what they refuse, and searches with them."""

import shutil
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedded import KINDS, random_embeddings, write_embeddings
from scipy.spatial.distance import cdist

from gsp_tf.search import Index, build_index, change_index
from gsp_tf.search._tables import ImageTable
from gsp_tf.search.index._where import rows_where

TABLE = pa.table(
    {
        "camera": pa.array([3, 1, None, 2], pa.int32()),
        "place": ["a", "b", "it's", None],
        "class": [1, 2, 3, 4],
        "sharp": [True, False, None, True],
        "share": [0.5, 1.0, 2.5, None],
        "weight": [0.5, float("nan"), 2.5, None],
        "day": pa.array([0, 1, 2, 3], pa.date32()),
        "time": pa.array([0, 3600, 86400, 86401], pa.timestamp("s", "UTC")),
        "clock": pa.array([0, 45_000, None, 86_399], pa.time32("s")),
        "bytes": [2**24 + 1, 10**8, None, 7],
        "seconds": pa.array([1e8, 2**24, 1.5, 7], pa.float32()),
        "gro\u0308\u00dfe": [1, 2, 3, None],
        "price": pa.array([Decimal("1.10"), Decimal("2.00"), None, Decimal("0.25")]),
    }
)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("camera != 3", [1, 3]),
        ("not camera == 3", [1, 3]),
        ("camera == 3 or sharp", [0, 3]),
        ("not sharp", [1]),
        ("`class` in (1, 3)", [0, 2]),
        ("0.5 < share <= 2.5", [1, 2]),
        ("place == \"it's\" or place == '`b`'", [2]),
        ("place not in ['a']", [1, 2]),
        ("camera is None", [2]),
        ("not weight == 2.5", [0]),
        ("weight != share", []),
        ("weight is None", [1, 3]),
        ("place is not None and (camera > 2 or camera < 2)", [0, 1]),
        ("share < camera", [0]),
        ("camera > -1.5", [0, 1, 3]),
        ("camera > 10000000000", []),
        ("bytes > 16777216.5 and bytes != 1e8", [0]),
        ("bytes > seconds", [1]),
        ("seconds < 16777217", [1, 2, 3]),
        ("gr\u00f6\u00dfe > 1 and `gro\u0308\u00dfe` < 3", [1]),
        ("day >= '1970-01-02'", [1, 2, 3]),
        ("time < '1970-01-01T02:00:00'", [0, 1]),
        ("time < '1970-01-01T02:00:00+01:00'", [0]),
        ("clock == '23:59:59' or clock is None", [2, 3]),
        ("price >= 2 or price == 1.1", [0, 1]),
    ],
)
def test_what_a_condition_means(condition, rows):
    assert np.flatnonzero(np.asarray(rows_where(TABLE, condition))).tolist() == rows


@pytest.mark.parametrize(
    "condition",
    [
        "__import__('os').system('touch /tmp/owned')",
        "camera.__class__ == 3",
        "[x for x in (1, 2)]",
        "place == f'{camera}'",
        "camera == 10 ** 9",
        "camera in ({[]: 1},)",
        "clock > '25:00'",
        "camera",
        "",
        "1 == 1",
        "camera == " + "9" * 400,
        "not " * 3000 + "sharp",
    ],
)
def test_everything_else_is_refused(condition):
    with pytest.raises(ValueError, match=r"The condition .* cannot be used: "):
        rows_where(TABLE, condition)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("camera = 3", "Invalid syntax. A condition compares columns with numbers and texts by =="),
        ("camara == 3", "no column camara; did you mean camera. The columns are camera, place"),
        ("camera == '3'", "column camera holds int32, which is not compared with str '3'"),
        ("sharp == 1", "sharp holds bool, which is not compared with int 1"),
        ("camera == None", "Write camera is None"),
        ("day > 'soon'", "Failed to parse string: 'soon'"),
        ("share == place", "no kernel matching"),
        ("camera is 3", "is takes None only"),
        ("camera in ()", "in takes values in parentheses"),
    ],
)
def test_an_error_says_what_is_wrong(condition, message):
    with pytest.raises(ValueError, match=message):
        rows_where(TABLE, condition)


ROWS = 300
FRAME = pd.DataFrame(
    {
        "camera": np.random.default_rng(1).integers(0, 5, ROWS),
        "year": np.random.default_rng(2).integers(2018, 2026, ROWS),
        "place": np.random.default_rng(3).choice(["north", "south", "east"], ROWS),
    }
)


@pytest.fixture(scope="module")
def with_columns(tmp_path_factory):
    """Indexes of every kind with the columns of `FRAME`."""
    path = tmp_path_factory.mktemp("columns")
    folder = write_embeddings(path / "e", random_embeddings(ROWS), shard_size=100)
    names = [f"/{row:03}.png" for row in range(ROWS)]
    FRAME.assign(path=names).sample(frac=1, random_state=0).to_csv(path / "t.csv", index=False)
    return {k: build_index(folder, path / k, k, table=path / "t.csv").path for k in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_filtered_search_is_a_filter_and_an_exact_search(with_columns, kind):
    """Of pandas and NumPy; also in a graph, where a walk would miss images."""
    vectors, queries = random_embeddings(ROWS), random_embeddings(20, seed=3)
    index = Index(with_columns[kind], mapped=True)
    for condition in (
        "camera >= 0",
        "camera == 2 and (place == 'north' or place in ('south', 'east') and year > 2020)",
    ):
        kept = np.flatnonzero(FRAME.eval(condition))
        np.testing.assert_array_equal(index.matching(condition), kept)
        excluded, left = kept[:3], kept[3:]
        apart = np.sort(cdist(queries, vectors[left]), axis=1)
        for k in (7, len(left)):
            ids, distances = index.search(queries, k, excluded, condition)
            assert np.isin(ids, left).all() and all(len(set(row)) == k for row in ids)
            if kind in ("exact", "hnsw"):
                np.testing.assert_allclose(distances, apart[:, :k], atol=1e-5)
        # Ids that met a condition stand for it.
        np.testing.assert_array_equal(index.search(queries, len(left), excluded, kept)[0], ids)
        with pytest.raises(ValueError, match=f"between 1 and {len(left)}, .* without"):
            index.search(queries, len(kept), excluded, condition)
    with pytest.raises(ValueError, match="has no image of id 300"):
        index.search(queries, 1, where=[1, 300])
    with pytest.raises(ValueError, match="Conditions and exclusions leave no image"):
        index.search(queries, 1, where="year > 2025")


def test_added_images_bring_their_metadata(with_columns, tmp_path):
    index = Index(shutil.copytree(with_columns["exact"], tmp_path / "index"))
    names, table = ["/x.png", "/y.png", "/z.png"], tmp_path / "new.parquet"
    new = write_embeddings(tmp_path / "new", np.eye(3, 8), names)
    columns = {"path": names, "camera": [2, 7, 7], "owner": ["i", "j", "j"]}
    pq.write_table(pa.table(columns), table)
    change_index(index, new, table=table)
    for opened in (index, Index(index.path)):
        assert opened.matching("camera == 7").tolist() == [301, 302]
        assert opened.matching("owner == 'i' or year is None").tolist() == [300, 301, 302]
    (tmp_path / "bad.csv").write_text("path,camera\n/a.png,left\n")
    other = write_embeddings(tmp_path / "other", np.eye(1, 8), ["/a.png"])
    with pytest.raises(ValueError, match="metadata column has different types"):
        change_index(index, other, table=tmp_path / "bad.csv")
    with pytest.raises(ValueError, match="new.parquet lacks 1 image: /a.png"):
        change_index(index, other, table=table)
    assert len(Index(index.path)) == 303


def test_columns_of_a_csv_file_have_the_types_of_their_values(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("path,number,text,day\na.png,007,NA,2026-05-31\nb.png,,,\n")
    found = ImageTable(file).rows([tmp_path / "b.png", tmp_path / "a.png"])
    assert found.to_pylist() == [
        {"number": None, "text": None, "day": None},
        {"number": 7, "text": "NA", "day": date(2026, 5, 31)},
    ]
    lists = {"path": ["a.png"], "tags": [["x"]], "kind": pa.array(["k"]).dictionary_encode()}
    pq.write_table(pa.table(lists), tmp_path / "t.parquet")
    with pytest.warns(UserWarning, match=r"1 column left out: tags \(list<.*string>\)"):
        table = ImageTable(tmp_path / "t.parquet")
    rows = table.rows([tmp_path / "a.png"])
    assert rows.to_pylist() == [{"kind": "k"}]
    with pytest.raises(ValueError, match="The column tags does not hold texts"):
        ImageTable(tmp_path / "t.parquet", ["tags"]).texts([tmp_path / "a.png"], "tags")
    file.write_text("name,number\na.png,1\n")
    with pytest.raises(ValueError, match="t.csv cannot be read; expected .* the columns path"):
        ImageTable(file)
