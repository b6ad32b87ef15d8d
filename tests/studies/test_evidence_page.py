import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

ROOT = Path(__file__).parents[2]


def rows(**maps):
    """Rows of `records.write` with MAP@R by variant, one number a seed."""
    return [
        (variant.replace("__", "-"), seed, quantity, value)
        for variant, values in maps.items()
        for seed, value in enumerate(values)
        for quantity in ("P@1", "MAP@R")
    ]


def test_intervals_are_those_of_the_paired_t_test(script):
    first, second = np.random.default_rng(0).normal(size=(2, 5))
    mean, half = script.interval(dict(enumerate(first)), dict(enumerate(second)))
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    np.testing.assert_allclose([mean - half, mean + half], expected)
    assert script.interval({0: 3.0, 1: 5.0}, {1: 4.0, 2: 9.0}) == (1.0, None)
    assert script.interval({0: 1.0}, {1: 1.0}) is None


def test_rows_are_compared_with_the_plain_method_of_their_group(script):
    assert script.baseline_of("cars", "cars_ms-gsp-zs") == "cars_ms-gap"
    assert script.baseline_of("cars", "cars_agrouping") == "cars_pnca-gap"
    assert script.baseline_of("ccp", "ccp_c2-memory") == "ccp_c2-plain"
    assert script.baseline_of("dose", "dose_40_160-gsp-best") == "dose_40_160-gap"


def test_a_gain_has_its_interval(script):
    row = {"gain": {0: 1.0, 1: 2.0}, "gain from": {0: 0.5, 1: 0.7}, "gain to": {0: 2.0, 1: 3.0}}
    assert script.quantity(row, "gain") == "+1.50 [0.60, 2.50]"
    assert script.quantity({"best step": {0: 350.0}}, "best step") == "350"
    assert script.quantity(row, "best step") == ""


def test_tables_hold_means_deviations_and_differences(script, tmp_path):
    import records

    values = rows(cars_c2__gap=[5.0, 6.0], cars_c2__gsp=[5.5, 7.5], cars_c2__gsp__zs=[4.0])
    records.write(tmp_path / "cars.csv", [("cars-frozen", 0, "MAP@R", 2.0), *values])
    found = records.read(tmp_path / "cars.csv")
    found["cars-frozen"]["P@1"] = {0: 9.0}
    assert script.markdown("cars", found).splitlines()[2:] == [
        "|  | frozen, GAP | 9.00 | 2.00 |  |  |",
        "| C2 | GAP | 5.50 ± 0.71 | 5.50 ± 0.71 |  | 0, 1 |",
        "| C2 | GSP | 6.50 ± 1.41 | 6.50 ± 1.41 | +1.00 ± 6.35 | 0, 1 |",
        "| C2 | GSP + L_ZS | 4.00 | 4.00 | -1.00 | 0 |",
    ]


def test_the_page_keeps_its_text_and_says_what_the_numbers_say(script, tmp_path):
    import records

    text = f"before\n{script.BEGIN}old\n{script.END}after\n"
    records.write(tmp_path / "ccp.csv", rows(ccp_ms__plain=[1.0], ccp_ms__ccp=[3.0]))
    written = script.page(text, tmp_path)
    assert written.startswith("before\n") and written.endswith("after\n") and "old" not in written
    assert "| MS | CCP | 3.00 | 3.00 | +2.00 |" in written
    assert script.page(written, tmp_path) == written


def test_losses_stand_in_the_order_of_their_map_at_r(script):
    values = {
        "losses_cars-margin": {"P@1": {0: 40.0}, "MAP@R": {0: 8.0}},
        "losses_cars-circle": {"P@1": {0: 42.0, 1: 44.0}, "MAP@R": {0: 9.0, 1: 9.0}},
        "losses_collage-circle": {"P@1": {0: 30.0}, "MAP@R": {0: 6.0}},
        "losses_cars-frozen": {"P@1": {0: 41.0}, "MAP@R": {0: 5.0}},
    }
    assert script.losses_markdown(values).splitlines()[2:] == [
        "| `circle` | 43.00 ± 1.41 | 9.00 ± 0.00 | 30.00 | 6.00 |",
        "| `margin` | 40.00 | 8.00 |  |  |",
        "| the network alone | 41.00 | 5.00 |  |  |",
    ]


def test_a_page_without_the_marks_is_refused(script):
    with pytest.raises(ValueError, match="lacks the marks <!-- evidence_page.py writes from here"):
        script.between_marks("no marks\n", "a table")
    text = (ROOT / "docs/losses.md").read_text("utf-8")
    assert "| a |" in script.between_marks(text, "| a |")


def test_the_figure_shows_the_gains(script):
    values = {
        f"{prefix}-{name}": {"MAP@R": {0: base + shift, 1: base + 2 * shift}}
        for base, prefix in ((5.0, "dose_100_160"), (2.0, "dose_20_160"), (1.0, "dose_40_96"))
        for name, shift in (("gap", 0.0), ("max", 1.0), ("gsp", 2.0), ("gsp-best", 3.0))
    }
    places = [(100, "dose_100_160"), (40, "dose_40_160"), (20, "dose_20_160")]
    found = script.gains(values, "gsp", "max", places)
    half = pytest.approx(stats.t.ppf(0.975, 1) / 2)  # differences of 1 and 2
    assert found == [(100, 1.5, half), (20, 1.5, half)]
    panels = script.picture(values).axes
    assert len(panels) == 4
    np.testing.assert_allclose(panels[0].containers[0].lines[0].get_ydata(), 3.0)
    np.testing.assert_allclose(panels[3].containers[0].lines[0].get_ydata(), 4.5)


def test_the_page_holds_the_tables_of_the_results(script):
    text = (ROOT / "docs/studies/evidence.md").read_text("utf-8")
    assert re.search(script.BEGIN, text)
    assert script.page(text, ROOT / "experiments/results/evidence") == text
