import csv
import importlib.util
from pathlib import Path

import keras
import numpy as np
import pytest
from jsonargparse import auto_cli
from PIL import Image

from gsp_tf.data import ArrayImages
from gsp_tf.training import RetrievalEvaluation

SCRIPT = Path(__file__).parent.parent / "experiments" / "ccp_geometry.py"
# With a patience of 1 these are three problems, whose best is the last value but one of each line.
EVALUATED = [0.1, 0.5, 0.2]
EVALUATED += [0.6, 0.3]
EVALUATED += [0.4, 0.7, 0.2]


class Scripted(RetrievalEvaluation):
    """An evaluation whose MAP@R is given."""

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        logs["val_map_at_r"] = EVALUATED[epoch]


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("ccp_geometry", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def few(images):
    return ArrayImages(images.images[:240], images.labels[:240], images.class_names)


def of_class(proxies):
    return proxies.reshape(10, -1, 2)


def radius(embeddings, labels, proxies):
    farthest = []
    for label, own in enumerate(of_class(proxies)):
        offsets = embeddings[labels == label][:, None].astype(float) - own
        farthest.append(np.sqrt((offsets**2).sum(axis=-1)).min(axis=1).max())
    return np.mean(farthest)


def test_picture_and_numbers_are_those_of_the_problems(script, monkeypatch, tmp_path, capsys):
    images, held_out = map(few, script.handwritten("digits"))
    solve, runs, figures = script.solve, [], []
    picture = script.picture
    monkeypatch.setattr(script, "handwritten", lambda data: (images, held_out))
    monkeypatch.setattr(script, "RetrievalEvaluation", Scripted)
    monkeypatch.setattr(script, "PATIENCE", 1)
    monkeypatch.setattr(script, "EVALUATIONS", len(EVALUATED))
    monkeypatch.setattr(script, "solve", lambda *given: runs.append(solve(*given)) or runs[-1])
    monkeypatch.setattr(
        script, "picture", lambda *given: figures.append(picture(*given)) or figures[-1]
    )
    out = tmp_path / "figures" / "geometry.png"
    auto_cli(script.main, as_positional=False, args=["--out", str(out), "--seed", "3"])
    (trainer, problems), (figure,) = *runs, figures

    assert [p.map_at_r for p in problems] == [0.5, 0.6, 0.7]
    embedder, planes = script.plane_embedder(8), []
    for weights in (problems[0].begun, *(p.solved for p in problems)):
        embedder.set_weights(weights)
        planes.append(embedder(images.images.astype("float32"), training=False).numpy())
    for before, after in zip(problems, problems[1:], strict=False):
        assert all(map(np.array_equal, before.solved, after.begun))
    np.testing.assert_array_equal(
        problems[-1].trained, trainer.learner.embedding_loss.proxies.numpy()
    )
    assert all(map(np.array_equal, problems[-1].solved, trainer.learner.embedder.get_weights()))

    # Proxies are chosen among the embeddings of their class, each of another image, and trained.
    for problem, plane in zip(problems, planes, strict=False):
        for label, own in enumerate(of_class(problem.chosen)):
            points = plane[images.labels == label]
            distances = np.linalg.norm(points[:, None] - own, axis=-1)
            np.testing.assert_allclose(distances.min(axis=0), 0, atol=1e-5)
            assert len(set(distances.argmin(axis=0))) == script.PROXIES_PER_CLASS
        assert np.abs(problem.trained - problem.chosen).max() > 1e-4

    rows = list(csv.DictReader(out.with_suffix(".csv").read_text("utf-8").splitlines()))
    assert [row["problem"] for row in rows] == ["1", "2", "3"]
    assert [int(row["steps"]) for row in rows] == [9, 6, 9]
    assert rows[0]["pool_radius_before"] == rows[0]["distance_moved"] == ""
    labels = images.labels
    for i, (row, problem, record) in enumerate(
        zip(rows, problems, trainer.projections, strict=True)
    ):
        value = {name: float(text) for name, text in row.items() if text}
        assert value["map_at_r"] == record["map_at_r"] == problem.map_at_r
        assert value["pool_radius_after"] == record["covering_radius_after"]
        near = dict(rel=1e-4, abs=1e-5)
        assert value["chosen_radius"] == pytest.approx(
            radius(planes[i], labels, problem.chosen), **near
        )
        trained = radius(planes[i + 1], labels, problem.trained)
        assert value["trained_radius"] == pytest.approx(trained, **near)
        means = np.stack([planes[i + 1][labels == label].mean(axis=0) for label in range(10)])
        apart = np.linalg.norm(means[:, None] - means, axis=-1) + np.diag([np.inf] * 10)
        nearest = apart.min(axis=0).mean()
        assert value["class_distance"] == pytest.approx(nearest, **near)
        assert value["relative_radius"] == pytest.approx(trained / nearest, **near)
        # No k points cover a class with less than half the radius of the greedy choice.
        assert 0 < value["greedy_radius"] <= 2 * trained + 1e-6
        if i:
            assert value["pool_radius_before"] == record["covering_radius_before"]
            moved = [a - b for a, b in zip(problem.solved, problem.begun, strict=True)]
            moved = np.linalg.norm(np.concatenate([part.ravel() for part in moved]))
            assert value["distance_moved"] == pytest.approx(moved, rel=1e-4)

    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("| problem | steps | MAP@R |") and len(printed) == 5
    assert printed[3].split(" | ")[7] == f"{float(rows[1]['trained_radius']):.2f}"

    panels = figure.axes
    assert [axes.get_title() for axes in panels] == ["Problem 1", "Problem 2", "Problem 3"]
    for i, axes in enumerate(panels):
        points, *chosen, trained = (c.get_offsets().data for c in axes.collections)
        np.testing.assert_allclose(points, planes[i + 1], atol=1e-5)
        np.testing.assert_array_equal(trained, problems[i].trained)
        assert [len(stars) for stars in chosen] == [40] * (i < 2)
        assert axes.get_aspect() == 1 and axes.get_xlim() == panels[0].get_xlim()
        (caption,) = axes.texts
        assert caption.get_text().startswith(
            f"covering radius {float(rows[i]['trained_radius']):.2f}"
        )
        if i < 2:
            np.testing.assert_array_equal(chosen[0], problems[i + 1].chosen)
            assert caption.get_text().endswith(f" {float(rows[i + 1]['chosen_radius']):.2f}")
    assert sorted(path.name for path in out.parent.iterdir()) == ["geometry.csv", "geometry.png"]
    with Image.open(out) as file:
        assert file.format == "PNG"
        file.load()
        assert min(file.size) > 600 and len(file.convert("RGB").getcolors(1 << 20)) > 50


def test_mnist_has_the_form_of_digits(script, monkeypatch):
    rng = np.random.default_rng(0)
    parts = [(rng.integers(0, 256, (n, 28, 28), np.uint8), np.arange(n) % 10) for n in (5100, 2100)]
    monkeypatch.setattr(keras.datasets.mnist, "load_data", lambda: parts)
    images, held_out = script.handwritten("mnist")
    assert images.images.shape == (5000, 28, 28, 1) and held_out.images.shape == (2000, 28, 28, 1)
    np.testing.assert_array_equal(held_out.images[..., 0], parts[1][0][:2000])
    digits, others = script.handwritten("digits")
    assert len(digits) + len(others) == 1797 and digits.images.max() == 255
    assert digits.class_names == images.class_names == tuple("0123456789")


def test_a_name_that_is_no_png_is_refused(script, tmp_path):
    with pytest.raises(ValueError, match="--out must be the name of a .png file, received"):
        script.main(str(tmp_path / "geometry.csv"))
