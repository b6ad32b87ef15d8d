import numpy as np
import pytest
from jsonargparse import auto_cli

from gsp_tf.data import synthetic_token_sets
from gsp_tf.evaluation import retrieval_metrics


def test_runs_are_kept_and_their_numbers_written(script, tmp_path, monkeypatch, without_tracing):
    monkeypatch.setattr(script, "TEST_SETS", 8)
    folders = {name: str(tmp_path / name) for name in ("runs", "results", "figures")}
    sizes = {"sets_per_class": 8, "max_epochs": 2}

    def study(*arguments):
        given = [f"--{name}={value}" for name, value in {**folders, **sizes}.items()]
        auto_cli(script.main, as_positional=False, args=[*given, *arguments])

    study("--seeds=[3]", "--variants=[gap, gsp]")
    pictures = {path.name for path in (tmp_path / "figures").iterdir()}
    assert pictures == {"synthetic_tokens_gap.png", "synthetic_tokens_gsp.png"}
    runs = script.finished(tmp_path / "runs")
    assert list(runs) == [("gap", 3), ("gsp", 3)]
    for run in runs.values():
        assert np.abs(run["tokens"]).max() <= np.float32(0.3) and run["tokens"].shape == (68, 2)
        metrics = retrieval_metrics(run["points"], run["labels"], recall_at=(1,))
        assert metrics["map_at_r"] == run["map_at_r"] and 1 <= run["best_epoch"] <= 2
    background = synthetic_token_sets(8, seed=(3, script.TEST))[0] < 4
    assert runs["gap", 3]["background_weight"] == pytest.approx(background.mean())
    assert 0 < runs["gsp", 3]["background_weight"] < 1
    assert (runs["gap", 3]["points"] != runs["gsp", 3]["points"]).all()
    square = script.draw(runs["gap", 3]).axes[0].patches[-1]
    np.testing.assert_allclose(square.get_bbox().extents, [-0.3, -0.3, 0.3, 0.3])

    monkeypatch.setattr(script, "solve", None)
    study("--seeds=[3]", "--variants=[gap]")
    values = script.records.read(tmp_path / "results/synthetic_tokens.csv")
    assert list(values) == ["GAP", "GSP"]
    assert values["GAP"]["MAP@R"][3] == pytest.approx(100 * runs["gap", 3]["map_at_r"], rel=1e-5)
    assert values["GSP"]["best epoch"][3] == runs["gsp", 3]["best_epoch"]
