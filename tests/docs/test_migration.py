"""The tables for people of other libraries are complete, current, and run as they are written."""

import ast
import re
import runpy
from pathlib import Path

import keras
import numpy as np
import pytest
from pml_batches import BATCHES

import gsp_tf
from gsp_tf import data, evaluation, losses

ROOT = Path(__file__).parents[2]
PAGES = runpy.run_path(ROOT / "tools/migration/pages.py")
SIGNATURES = {library: PAGES["signatures"](library) for library in PAGES["TABLE"]}
ROWS = [
    pytest.param(library, row, id=f"{library}-{PAGES['entries'](row, 'theirs')[0]}")
    for library, sections in PAGES["TABLE"].items()
    for rows in sections.values()
    for row in rows
]
# Losses of a batch, whose oracle has the library's default arguments.
AT_DEFAULTS = [
    param
    for param in ROWS
    if param.values[1].get("oracle", "").startswith("losses_field/")
    and param.values[1] in PAGES["TABLE"]["pytorch_metric_learning"]["losses over pairs"]
    and not param.id.endswith(("SelfSupervisedLoss", "VICRegLoss", "MultipleLosses"))
]
NAMED = ("backbones", "data", "evaluation", "export", "layers", "search", "training", "visual")
SUBPACKAGES = {name: getattr(gsp_tf, name) for name in NAMED}


def call(text):
    """Name, parameters and evaluated arguments of a signature or of a call."""
    node = ast.parse(text, mode="eval").body
    if not isinstance(node, ast.Call):
        return text, [], {}
    defaults = {}
    for keyword in node.keywords:
        try:
            defaults[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError:
            defaults[keyword.arg] = None  # a name of the other library
    return ast.unparse(node.func), [x.id for x in node.args] + list(defaults), defaults


@pytest.fixture(scope="module")
def values():
    """What expressions of the tables may use: our names, and values of parameters."""
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(64, 4)), np.arange(64) // 8
    pixels = np.zeros((64, 8, 8, 1), "uint8")
    class_names = [str(label) for label in range(8)]
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    outputs = {name: keras.layers.Dense(2)(inputs) for name in ("embedding", "class")}
    return (
        {name: getattr(losses, name) for name in losses.__all__}
        | {
            "K": 4, "Tn": 10, "backbone": model, "centers_per_class": 3,
            "class_names": class_names, "classes_per_batch": 4, "dataset": [(embeddings, labels)],
            "dim": 4, "embeddings": embeddings, "image_size": 8,
            "images": data.ArrayImages(pixels, labels, class_names), "keras": keras,
            "labels": labels, "loss": losses.ContrastiveLoss(),
            "losses": [losses.ContrastiveLoss()], "m": 2, "margin": 0.4,
            "max_learning_rate": 0.1, "memory_size": 64, "model": model, "num_classes": 4,
            "num_triplets": 8, "pairs": evaluation.PairDistances(embeddings, labels),
            "queries": embeddings, "query_labels": labels, "reference_labels": labels,
            "references": embeddings, "samples_per_class": 2, "super_classes": [0] * 4 + [1] * 4,
            "target_labels": labels, "targets": embeddings, "total_steps": 10,
            "two_outputs": keras.Model(inputs, outputs), "warmup_steps": 2, "weights": [1.0] * 8,
            "x": pixels, "y": labels,
        }
    )  # fmt: skip


@pytest.mark.parametrize(("library", "row"), ROWS)
def test_a_row_runs_names_every_parameter_and_is_equal_where_an_oracle_is(library, row, values):
    theirs, ours = (PAGES["entries"](row, key) for key in ("theirs", "ours"))
    name, _, arguments = call(theirs[0])
    _, parameters, defaults = call(SIGNATURES[library][name])
    assert {*arguments} <= {*parameters}
    for expression in ours:
        eval(expression, values | defaults | arguments | SUBPACKAGES)
    if ours and not PAGES["WHOLE"].match(name):
        page = (ROOT / f"docs/migration/{library}.md").read_text("utf-8")
        introduction = page.split("<!-- table")[0]
        told = " ".join([*ours, *re.findall(r"`([^`]+)`", row["difference"] + introduction)])
        assert {*parameters} <= {*re.findall(r"\w+", told), *arguments}
    # "Equal" is what an oracle holds.
    assert bool(re.search(r"\bequal\b", row["difference"])) == ("oracle" in row)
    if "oracle" in row:
        file, key = row["oracle"].split("/", 1)
        with np.load(ROOT / f"tests/oracles/{file}.npz") as oracle:
            assert any(name.startswith(key) for name in oracle.files)


@pytest.mark.parametrize(("library", "row"), AT_DEFAULTS)
def test_ours_has_the_value_of_theirs_with_its_defaults(library, row, values, oracle):
    (theirs,), (ours,) = (PAGES["entries"](row, key) for key in ("theirs", "ours"))
    name, _, arguments = call(theirs)
    loss = eval(ours, values | call(SIGNATURES[library][name])[2] | arguments)
    file, key = row["oracle"].split("/")
    case, batch = oracle(file), "square" if "Instance" not in name else "no_positives"
    found = float(loss(case[f"{batch}/labels"], case[f"{batch}/embeddings"]))
    assert found == pytest.approx(case[f"{key}/values"][BATCHES.index(batch)], rel=1e-3)


@pytest.mark.parametrize("library", SIGNATURES)
def test_every_public_name_has_a_row(library):
    rows = [row for rows in PAGES["TABLE"][library].values() for row in rows]
    named = {call(entry)[0] for row in rows for entry in PAGES["entries"](row, "theirs")}
    assert named == {*SIGNATURES[library]}


@pytest.mark.parametrize("page", PAGES["PAGES"], ids=lambda page: page.stem)
def test_a_page_has_the_current_tables(page):
    text = page.read_text("utf-8")
    assert PAGES["MARKED"].search(text)
    assert text == PAGES["page"](text)
