import re

from gsp_tf.visual import TrialResult, write_tuning_page
from gsp_tf.visual.tuning_page import _by_epoch, _Scale

TRIALS = [
    TrialResult(
        0, "complete", 0.25, {"loss": {"name": "triplet"}, "rate": 0.1}, {1: 0.1, 2: 0.25}, 3
    ),
    TrialResult(1, "failed", None, {"loss": {"name": "<b>"}, "rate": 0.2}, note="a < b"),
    TrialResult(
        *(2, "complete", 0.5, {"loss": {"name": "triplet"}, "rate": 0.01}),
        *({1: 0.5, 2: 0.3}, 2000),
        untrained=0.2,
        best_epoch=1,
    ),
    TrialResult(3, "pruned", 0.05, {"loss": {"name": "<b>"}, "rate": 0.03}, {1: 0.05}, 1),
    TrialResult(4, "running", None, {}),
]


def test_a_page(tmp_path):
    importance = {"loss": 0.25, "rate": 0.75}
    path = tmp_path / "a.html"
    write_tuning_page(path, "A & B", "val_map_at_r", TRIALS, ["rate"], importance)
    page = path.read_text()
    rows = re.findall(r'<tr class="(\w+)"><th scope="row">(\d+)</th>(.*)</tr>', page)
    assert [(kind, number) for kind, number, _ in rows] == [
        *(("chosen", "2"), ("complete", "0"), ("pruned", "3"), ("running", "4"), ("failed", "1")),
    ]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", rows[0][2])
    assert cells == ["50.00", "20.00", "1 of 2", "2,000", "{name: triplet}", "0.01", "complete"]
    assert "failed: a &lt; b" in rows[4][2] and "{name: &lt;b&gt;}" in rows[4][2]
    assert "5 trials, 1 pruned, 1 failed. Each is judged by MAP@R (%)" in page
    assert re.findall(r"<h3>(.*)</h3>", page) == [
        "Trials",
        "Epochs",
        "loss",
        "rate",
        "What matters",
    ]
    assert page.count("<svg") == 5 and "//" not in page.replace("http://www.w3.org", "")


def test_the_untrained_model_is_epoch_0_of_the_curves():
    shown = [trial for trial in TRIALS if trial.by_epoch]
    lines = _by_epoch(shown, TRIALS[2], _Scale("val_map_at_r")).axes[0].lines
    curves = [[line.get_xdata().tolist(), line.get_ydata().tolist()] for line in lines]
    assert curves[:3] == [[[1, 2], [10, 25]], [[0, 1, 2], [20, 50, 30]], [[1], [5]]]


def test_a_page_before_any_trial_has_ended(tmp_path):
    write_tuning_page(tmp_path / "a.html", "Search", "val_map_at_r", [TRIALS[4], TRIALS[1]])
    page = (tmp_path / "a.html").read_text()
    assert "<svg" not in page and "All trials" in page
