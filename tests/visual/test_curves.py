from gsp_tf.visual import training_curves


def test_curves_have_one_panel_per_quantity_and_one_line_per_run():
    histories = [
        {"loss": [2, 1], "val_loss": [3, 2], "val_map_at_r": [0.1, 0.2], "learning_rate": [1, 1]},
        {"loss": [2.5], "val_map_at_r": [0.3], "val_recall_at_2": [0.5], "val_other": [0.4]},
        {"val_precision_at_5": [0.6], "val_ndcg_at_10": [0.7]},
        {},
    ]
    figures = training_curves(histories)
    assert list(figures) == ["Loss", "MAP@R (%)", "other", "P@5 (%)", "NDCG@10 (%)"]
    assert [len(figure.axes[0].lines) for figure in figures.values()] == [3, 2, 1, 1, 1]
    loss, validation, _ = figures["Loss"].axes[0].lines
    assert loss.get_color() == validation.get_color()
    assert loss.get_linestyle() != validation.get_linestyle()
    assert figures["MAP@R (%)"].axes[0].lines[0].get_ydata().tolist() == [10, 20]
