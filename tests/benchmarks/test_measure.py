import numpy as np
import tensorflow as tf


def test_sides_take_turns_and_the_warm_up_does_not_count(module):
    measure = module("measure")
    calls = []

    def side(name):
        def run(value):
            calls.append(name)
            return [tf.constant(value)]

        return run

    times = measure.medians({"a": side("a"), "b": side("b")}, [1.0], rounds=2)
    assert calls == ["a", "b"] * (measure.WARM_UP + 2)
    assert list(times) == ["a", "b"] and min(times.values()) > 0


def test_every_round_may_have_arguments_of_its_own(module):
    measure, received = module("measure"), []
    sides = {"a": received.append, "b": received.append}
    measure.medians({k: lambda x, f=f: [f(x), x] for k, f in sides.items()}, lambda n: [n], 1)
    assert received == [n for n in range(measure.WARM_UP + 1) for _ in sides]


def test_peak_is_that_of_what_the_call_held(module):
    peak_bytes = module("measure").peak_bytes
    assert 60 * 2**20 < peak_bytes(lambda: np.ones(2**23)) < 100 * 2**20
