"""Texts in CSV files: no spreadsheet takes one for a formula, and reading gives the same text."""

import csv
import itertools

import pyarrow as pa

from gsp_tf._files import csv_cell, csv_table, csv_text
from gsp_tf.data.datasets.own import read_rows
from gsp_tf.search._tables import ImageTable, write_table
from gsp_tf.search.embed import list_images

# https://owasp.org/www-community/attacks/CSV_Injection
BEGINNINGS = ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"]
PLAIN = ["cat", "'cat'", "a=b", "", "'", " =", "7"]
FORMULAS = [f"{begin}cmd|' /C calc'!A0" for begin in BEGINNINGS]
TEXTS = [*PLAIN, *FORMULAS, *(f"{quotes}{text}" for text in FORMULAS for quotes in ("'", "''"))]


def test_a_cell_is_no_formula_and_gives_its_text_back():
    for text in TEXTS:
        assert (csv_cell(text) == text) == (text in PLAIN)
    for text in (*TEXTS, *map("".join, itertools.product("'=-a\t+", repeat=4))):
        assert not csv_cell(text).startswith(tuple(BEGINNINGS))
        assert csv_text(csv_cell(text)) == text
    assert [csv_cell(value) for value in (-1, -0.5, None, True)] == [-1, -0.5, None, True]
    assert csv_table([["name", "@sum"], ["=1+1", -1]]) == "name,'@sum\n'=1+1,-1\n"


def test_tables_and_lists_of_images_are_no_formulas_and_come_back(tmp_path):
    names = [text for text in TEXTS if text.strip() == text and text]
    paths = [str(tmp_path / f"{row}.png") for row in range(len(names))]
    for path in paths:
        open(path, "w").close()
    table = tmp_path / "table.csv"
    write_table(table, {"path": paths, "label": names, "score": pa.array([-1.0] * len(names))})
    with open(table, newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.reader(file) for cell in row if cell != "-1"]
    assert not any(cell.startswith(tuple(BEGINNINGS)) for cell in cells)
    assert [image.label for image in list_images([table])] == names
    assert ImageTable(table, ["label"]).texts(paths, "label").tolist() == names
    assert ImageTable(table).rows(paths)["label"].to_pylist() == names
    assert [row.label for row in read_rows(table)] == names
