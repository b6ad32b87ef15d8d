import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import tensorflow as tf

measure = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/measure.py"))
)


def test_sides_take_turns_and_the_warm_up_does_not_count():
    calls = []

    def side(name):
        def run(value):
            calls.append(name)
            return [tf.constant(value)]

        return run

    times = measure.medians({"a": side("a"), "b": side("b")}, [1.0], rounds=2)
    assert calls == ["a", "b"] * (measure.WARM_UP + 2)
    assert list(times) == ["a", "b"] and min(times.values()) > 0


def test_peak_is_that_of_what_the_call_held():
    assert 60 * 2**20 < measure.peak_bytes(lambda: np.ones(2**23)) < 100 * 2**20
