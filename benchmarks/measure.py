"""Measures the time and memory of functions for the benchmarks."""

import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import tensorflow as tf

WARM_UP = 3


def rounds(quick):
    """Number of rounds of a benchmark without the warm-up."""
    return 2 if quick else 20


def medians(functions, arguments, rounds, warm_up=WARM_UP):
    """Milliseconds of each function; every round runs all of them in turn.

    A function returns an array or a nest of arrays; the timer waits for the first array.
    `arguments` may be a function of the number of the round.
    """
    times = {name: [] for name in functions}
    for round_number in range(warm_up + rounds):
        given = arguments(round_number) if callable(arguments) else arguments
        for name, function in functions.items():
            started = time.perf_counter()
            np.asarray(tf.nest.flatten(function(*given))[0])
            if round_number >= warm_up:
                times[name].append(time.perf_counter() - started)
    return {name: 1e3 * statistics.median(taken) for name, taken in times.items()}


def peak_bytes(function):
    """Peak memory of one call beyond the memory held before it.

    It is GPU memory if TensorFlow uses a GPU, else memory of the process (Linux).
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
    """`function(*task)` for every task, each in a new process without earlier allocations."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gsp_tf.layers"])
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        return list(pool.map(function, *zip(*tasks, strict=True)))


def on_backend(backend, program, *arguments, **environment):
    """What a program prints last, which is JSON, in a process with a backend of Keras.

    The program is Python code that imports files of this folder.
    """
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "KERAS_BACKEND": backend, **environment},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{program} {arguments} failed on {backend}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _status(field):
    """Bytes in a field of this process' status, such as VmRSS."""
    with open("/proc/self/status") as file:
        return 1024 * int(re.search(rf"{field}:\s+(\d+) kB", file.read())[1])
