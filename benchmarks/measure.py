"""Time and memory of a function, as the benchmarks take them."""

import multiprocessing
import re
import statistics
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import tensorflow as tf

WARM_UP = 3


def rounds(quick):
    """How many rounds a benchmark takes beside those of the warm-up."""
    return 2 if quick else 20


def medians(functions, arguments, rounds, warm_up=WARM_UP):
    """Milliseconds of each function, all of them in turn in every round.

    A function returns an array or a nest of arrays, of which the first is waited for.
    """
    times = {name: [] for name in functions}
    for round_number in range(warm_up + rounds):
        for name, function in functions.items():
            started = time.perf_counter()
            np.asarray(tf.nest.flatten(function(*arguments))[0])
            if round_number >= warm_up:
                times[name].append(time.perf_counter() - started)
    return {name: 1e3 * statistics.median(taken) for name, taken in times.items()}


def peak_bytes(function):
    """Peak memory of one call beyond what the process holds before it.

    That of the GPU where TensorFlow uses one, else that of the process (Linux).
    """
    if tf.config.list_physical_devices("GPU"):
        tf.config.experimental.reset_memory_stats("GPU:0")
        before = tf.config.experimental.get_memory_info("GPU:0")["current"]
        function()
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] - before
    before = _status("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # resets VmHWM, the largest VmRSS
    function()
    return _status("VmHWM") - before


def in_fresh_processes(function, tasks):
    """`function(*task)` of every task, each in a process that has allocated nothing yet."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gsp_tf.layers"])
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        return list(pool.map(function, *zip(*tasks, strict=True)))


def _status(field):
    """Bytes of a field of this process' status, such as VmRSS."""
    with open("/proc/self/status") as file:
        return 1024 * int(re.search(rf"{field}:\s+(\d+) kB", file.read())[1])
