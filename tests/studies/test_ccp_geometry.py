import keras
import numpy as np
import pytest
from jsonargparse import auto_cli
from PIL import Image

from gsp_tf.data import ArrayImages
from gsp_tf.training import RetrievalEvaluation

# With a patience of 1 these are three problems, whose best is the last value but one of each line.
EVALUATED = [0.1, 0.5, 0.2]
EVALUATED += [0.6, 0.3]
EVALUATED += [0.4, 0.7, 0.2]


class Scripted(RetrievalEvaluation):
    """An evaluation whose MAP@R is given; only the first one is computed as well."""

    def on_epoch_end(self, epoch, logs=None):
        if epoch == 0:
            super().on_epoch_end(epoch, logs)
        logs["val_map_at_r"] = EVALUATED[epoch]


CLASSES = 4


def few(images):
    """Ten images of each of the first classes: one step of training is a pass over them."""
    rows = np.concatenate([np.flatnonzero(images.labels == c)[:10] for c in range(CLASSES)])
    return ArrayImages(images.images[rows], images.labels[rows], images.class_names[:CLASSES])


def of_class(proxies):
    return proxies.reshape(CLASSES, -1, 2)


def radius(embeddings, labels, proxies):
    farthest = []
    for label, own in enumerate(of_class(proxies)):
        offsets = embeddings[labels == label][:, None].astype(float) - own
        farthest.append(np.sqrt((offsets**2).sum(axis=-1)).min(axis=1).max())
    return np.mean(farthest)


def test_picture_and_numbers_are_those_of_the_problems(
    script, monkeypatch, tmp_path, capsys, without_tracing
):
    images, held_out = map(few, script.handwritten("digits"))
    solve, runs, figures = script.solve, [], []
    picture = script.picture
    monkeypatch.setattr(script, "handwritten", lambda data: (images, held_out))
    monkeypatch.setattr(script, "RetrievalEvaluation", Scripted)
    monkeypatch.setattr(script, "PATIENCE", 1)
    monkeypatch.setattr(script, "POOL_SIZE", 6)

    def solve_and_keep(images, held_out, seed, **samples):
        """The second seed ends in its first problem."""
        monkeypatch.setattr(script, "EVALUATIONS", len(EVALUATED) if seed == 3 else 2)
        runs.append(solve(images, held_out, seed, **samples))
        return runs[-1]

    monkeypatch.setattr(script, "solve", solve_and_keep)
    monkeypatch.setattr(
        script, "picture", lambda *given: figures.append(picture(*given)) or figures[-1]
    )
    results, drawn = tmp_path / "results" / "geometry.csv", tmp_path / "figures" / "geometry.png"
    given = ["--seeds", "[3, 4]", "--results", str(results), "--figure", str(drawn)]
    auto_cli(script.main, as_positional=False, args=given)
    ((trainer, problems), (_, with_samples), (_, others), _), (figure,) = runs, figures

    # The first proxies are the same; samples are where the network puts them, proxies are not.
    np.testing.assert_array_equal(problems[0].chosen, with_samples[0].chosen)
    for run, is_embedding in ((with_samples, True), (problems, False)):
        embedder = script.plane_embedder(8)
        embedder.set_weights(run[0].solved)
        plane = embedder(images.images.astype("float32"), training=False).numpy()
        distances = np.linalg.norm(plane[:, None] - run[0].trained, axis=-1).min(axis=0)
        assert (distances.max() < 1e-5) == is_embedding
    assert not np.array_equal(problems[0].chosen, others[0].chosen)
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

    by_problem = script.records.read(results)
    totals = [by_problem.pop(name) for name in ("proxies", "samples")]
    assert all(total["steps"] == {3: 8, 4: 2} for total in totals)
    assert all(total["MAP@R"] == {3: 70, 4: 50} for total in totals)
    assert list(by_problem) == ["problem 1", "problem 2", "problem 3"]
    steps = [values["steps"] for values in by_problem.values()]
    assert steps == [{3: 3, 4: 2}, {3: 2}, {3: 3}]
    rows = [
        {name: of_seed[3] for name, of_seed in values.items()} for values in by_problem.values()
    ]
    labels = images.labels
    near = dict(rel=1e-4, abs=1e-5)
    for i, (value, problem, record) in enumerate(
        zip(rows, problems, trainer.projections, strict=True)
    ):
        assert value["MAP@R"] == pytest.approx(100 * problem.map_at_r, **near)
        assert record["map_at_r"] == problem.map_at_r
        in_pool = value["radius in the pool, chosen"]
        assert in_pool == pytest.approx(record["covering_radius_after"], **near)
        assert value["radius, chosen"] == pytest.approx(
            radius(planes[i], labels, problem.chosen), **near
        )
        trained = radius(planes[i + 1], labels, problem.trained)
        assert value["radius, trained"] == pytest.approx(trained, **near)
        apart = np.mean(
            [
                np.linalg.norm(a - b)
                for a, its in zip(planes[i + 1], labels, strict=True)
                for b in planes[i + 1][labels != its]
            ]
        )
        assert value["distance between classes"] == pytest.approx(apart, **near)
        assert value["relative radius"] == pytest.approx(trained / apart, **near)
        # No k points cover a class with less than half the radius of the greedy choice.
        assert 0 < value["radius, greedy"] <= 2 * trained + 1e-6
        in_pool = value["radius in the pool, previous"]
        assert in_pool == pytest.approx(record["covering_radius_before"], **near)
        moved = [a - b for a, b in zip(problem.solved, problem.begun, strict=True)]
        moved = np.linalg.norm(np.concatenate([part.ravel() for part in moved]))
        assert value["distance moved"] == pytest.approx(moved, rel=1e-4)

    assert capsys.readouterr().out == script.records.table(results) + "\n"

    panels = figure.axes
    assert [axes.get_title() for axes in panels] == ["Problem 1", "Problem 2", "Problem 3"]
    for i, axes in enumerate(panels):
        points, *chosen, trained = (c.get_offsets().data for c in axes.collections)
        np.testing.assert_allclose(points, planes[i + 1], atol=1e-5)
        np.testing.assert_array_equal(trained, problems[i].trained)
        assert [len(stars) for stars in chosen] == [4 * CLASSES] * (i < 2)
        assert axes.get_aspect() == 1 and axes.get_xlim() == panels[0].get_xlim()
        (caption,) = axes.texts
        assert caption.get_text().startswith(f"covering radius {rows[i]['radius, trained']:.2f}")
        if i < 2:
            np.testing.assert_array_equal(chosen[0], problems[i + 1].chosen)
            assert caption.get_text().endswith(f" {rows[i + 1]['radius, chosen']:.2f}")
    with Image.open(drawn) as file:
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
