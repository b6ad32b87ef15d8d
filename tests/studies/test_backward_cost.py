from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from gsp_tf.ops import partial_transport

SHAPE = (2, 4, 9)
PARAMETERS = {"transport_ratio": 0.3, "entropy_smoothing": 5.0}


def test_costs_are_distances_on_the_sphere_of_which_half_are_short(script):
    cost = script.costs((3, 5, 400), seed=1)
    assert cost.shape == (3, 5, 400) and cost.dtype == np.float32
    assert cost.min() > 0 and cost.max() < 2
    assert (cost.min(axis=1) < 0.6).mean() == pytest.approx(0.5, abs=0.06)
    assert np.abs(cost - script.costs((3, 5, 400), seed=2)).max() > 0.1


def test_automatic_differentiation_converges_to_the_closed_form(script):
    arguments = [script.costs(SHAPE, 0), *script.upstream(SHAPE, 0)]
    arguments = [tf.constant(array, "float64") for array in arguments]
    ways = (partial(script.automatic, max_iterations=300), partial_transport)
    (gradient, plan), (expected, expected_plan) = (
        script.forward_and_backward(partial(way, **PARAMETERS), SHAPE, "float64")(*arguments)
        for way in ways
    )
    np.testing.assert_allclose(plan, expected_plan, rtol=1e-10)
    np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("iterations", [1, 3])
def test_both_fixed_points_are_the_same_iteration(script, iterations):
    cost = tf.constant(script.costs(SHAPE, 0), "float64")
    ours, library = (
        script.WAYS[name](cost, **PARAMETERS, max_iterations=iterations)
        for name in ("automatic differentiation", "closed form, fixed point")
    )
    for value, expected in zip(ours, library, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is that of Linux")
def test_numbers_and_picture_of_a_small_run(script, tmp_path, monkeypatch):
    measured = []

    def in_this_process(function, tasks):
        measured.extend(tasks)
        function(*tasks[0])
        return [2**20 * k for _, k, *_ in tasks]

    monkeypatch.setattr(script, "in_fresh_processes", in_this_process)
    script.main(str(tmp_path), str(tmp_path), (3,), iterations=(1, 40), shape=SHAPE, rounds=1)
    values = script.records.read(tmp_path / "backward_cost.csv")
    assert list(values) == [f"{name}, k = {k}" for name in script.WAYS for k in (1, 40)]
    tasks = [(name, k, SHAPE, PARAMETERS, 3) for name in script.WAYS for k in (1, 40)]
    assert measured == tasks
    numbers = {
        variant: {quantity: by_seed[3] for quantity, by_seed in row.items()}
        for variant, row in values.items()
    }
    newton = numbers["closed form, Newton, k = 40"]
    for variant, row in numbers.items():
        assert row["peak, MiB"] == int(variant.split()[-1])
        total = row["forward + backward, ms"]
        assert row["forward, ms"] > 0 and total > 0
        assert row["difference, ms"] == pytest.approx(total - row["forward, ms"], abs=1e-4)
        ratio = total / newton["forward + backward, ms"]
        assert row["both, times Newton's"] == pytest.approx(ratio, rel=1e-4)
    for quantity in ("error of weights", "error of gradient"):
        for name in script.WAYS:
            assert numbers[f"{name}, k = 40"][quantity] < 1e-5
        assert numbers["automatic differentiation, k = 1"][quantity] > 1e-3

    with Image.open(tmp_path / "backward_cost.png") as file:
        file.load()
        assert min(file.size) > 600
