"""What a run says of its epochs, in every place that shows its results."""

from gsp_tf.recipe import ProtocolRecipe, Recipe
from gsp_tf.runs import best_epoch_note

VALUES = {"best_val_recall_at_1": 0.6, "untrained": {"val_recall_at_1": 0.3}}
FINISHED = {"status": "finished", "epochs": 15, "best_epoch": 5, **VALUES}
LAST = "The last epoch is the best one: longer training may give more."


def test_the_best_epoch_stands_with_the_metric_that_chose_it():
    conventional = Recipe(protocol=ProtocolRecipe("conventional"))
    said = best_epoch_note(conventional, FINISHED)
    assert "Validation Recall@1 is 60.0 %, and 30.0 % in epoch 0." in said
    classifier = Recipe(trainer="classification")
    metrics = FINISHED | {"best_val_accuracy": 0.5, "untrained": {"val_accuracy": 0.25}}
    assert "Validation accuracy is 50.0 %, and 25.0 %" in best_epoch_note(classifier, metrics)


def test_a_best_epoch_that_is_the_last_is_said():
    last = FINISHED | {"best_epoch": 15}
    assert best_epoch_note(Recipe(), last).endswith(LAST)
    assert not best_epoch_note(Recipe(), FINISHED).endswith(LAST)
    stopped = best_epoch_note(Recipe(), last | {"status": "interrupted"})
    assert not stopped.endswith(LAST)  # the stop is said instead


def test_epochs_that_are_not_known_are_not_claimed():
    assert best_epoch_note(Recipe(), {"status": "finished"}) is None
    assert best_epoch_note(Recipe(), {}) is None
    # A process was killed while it continued: the numbers are those of the training before.
    assert best_epoch_note(Recipe(), FINISHED | {"status": "running"}) is None
    assert best_epoch_note(Recipe(), FINISHED | {"best_epoch": None}).startswith("No epoch was")
