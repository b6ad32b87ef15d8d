import pytest


@pytest.fixture
def results(module):
    return module("results")


def test_ratio_says_whether_its_target_is_met(results):
    assert str(results.Ratio(1.5)) == "1.500"
    assert str(results.Ratio(1.03, at_most=1.03)) == "1.030 (at most 1.03: met)"
    assert str(results.Ratio(1.031, at_most=1.03)) == "1.031 (at most 1.03: not met)"
    assert str(results.Ratio(0.7, at_least=0.6)) == "0.700 (at least 0.6: met)"
    assert str(results.Ratio(0.5, at_least=0.6, unit=" s")) == "0.500 s (at least 0.6 s: not met)"


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_ratio_refuses_what_no_measurement_gives(results, value):
    with pytest.raises(ValueError, match=f"received {value}"):
        results.Ratio(value)


def test_markdown_of_a_table(results):
    rows = [("a", 1234, 0.01234), ("b", 0, 5678.9)]
    table = results.Table("Sizes", ["name", "count", "ms"], rows, note="A note.")
    assert table.markdown() == (
        "### Sizes\n\n"
        "| name | count | ms |\n"
        "| --- | ---: | ---: |\n"
        "| a | 1,234 | 0.0123 |\n"
        "| b | 0 | 5,679 |\n"
        "\nA note.\n"
    )


def test_section_replaces_its_own_and_leaves_the_others(results, tmp_path):
    path = tmp_path / "folder" / "RESULTS.md"
    for title, text in (
        ("losses (CPU)", "### Old\n\nold"),
        ("heads (CPU)", "### Heads\n\nheads"),
        ("losses (CPU)", "### New\n\nnew"),
    ):
        results.write_section(path, title, text)
    text = path.read_text()
    assert text == (
        results.HEADER + "## heads (CPU)\n\n### Heads\n\nheads\n\n"
        "## losses (CPU)\n\n### New\n\nnew\n\n" + results.NO_GPU
    )
    assert [file.name for file in path.parent.iterdir()] == ["RESULTS.md"]


def test_sections_of_the_gpu_come_last_and_replace_the_words_that_there_is_none(results, tmp_path):
    path = tmp_path / "RESULTS.md"
    for title in ("heads (CPU)", "heads (GPU)", "losses (CPU)"):
        results.write_section(path, title, title)
    text = path.read_text()
    assert results.NO_GPU not in text
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == ["## heads (CPU)", "## losses (CPU)", "## heads (GPU)"]
