import keras
import pytest

from gsp_tf.recipe import load_recipe
from gsp_tf.runs import Run
from gsp_tf.training import ProjectionLearner

CCP = """
data:
  image_size: 16
  channels: 1
  split_fractions: [0.05, 0.03, 0.92]
  classes_per_batch: 4
trainer: ccp
loss: {name: contrastive}
ccp: {proxies_per_class: 2, pool_size: 3, patience: 1}
training:
  epochs: 5
  steps_per_epoch: 2
  warmup_epochs: 1
  learning_rate_multipliers: {proxies: 100}
"""


def test_a_run_trains_by_ccp_and_reports_its_problems(write_recipe, tmp_path, without_tracing):
    run = Run(tmp_path / "run", load_recipe(write_recipe(CCP)))
    run.splits = run.splits._replace(test=run.splits.test.subset(range(4)))
    run.train()
    metrics, history = run.folder.metrics(), run.folder.history()
    assert run.status == "finished"
    assert history["projection"][0] == 0 and set(history["projection"][1:]) >= {1.0}
    problems = metrics["projections"]
    assert sum(problem["steps"] for problem in problems) == 2 * (len(history["loss"]) - 1)
    assert max(problem["map_at_r"] for problem in problems) == pytest.approx(
        max(history["val_map_at_r"][1:])
    )
    keras.backend.clear_session()
    assert isinstance(run.learner, ProjectionLearner)
    page = run.report().read_text("utf-8")
    assert page.count('<th scope="row">Problem') == len(problems)


def test_a_loss_with_proxies_of_its_own_is_refused(write_recipe, tmp_path):
    recipe = load_recipe(write_recipe(CCP), ["--loss.name", "proxy_nca"])
    with pytest.raises(ValueError, match="takes a MetricLearner with a pair loss"):
        Run(tmp_path / "run", recipe).train()
    assert not (tmp_path / "run").exists()
