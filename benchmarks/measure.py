"""Time and memory of a function, as the benchmarks take them."""

import multiprocessing
import re
import statistics
import time
from concurrent.futures import ProcessPoolExecutor

WARM_UP = 3


def medians(functions, arguments, rounds):
    """Milliseconds of each function, all of them in turn in every round.

    A function returns an array or a nest of arrays, of which the first is waited for.
    """
    times = {name: [] for name in functions}
    for round_number in range(WARM_UP + rounds):
        for name, function in functions.items():
            started = time.perf_counter()
            _first(function(*arguments)).numpy()
            if round_number >= WARM_UP:
                times[name].append(time.perf_counter() - started)
    return {name: 1e3 * statistics.median(taken) for name, taken in times.items()}


def peak_bytes(function):
    """Peak memory of one call beyond what the process holds before it (Linux)."""
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


def _first(value):
    while isinstance(value, (list, tuple)):
        value = value[0]
    return value


def _status(field):
    """Bytes of a field of this process' status, such as VmRSS."""
    with open("/proc/self/status") as file:
        return 1024 * int(re.search(rf"{field}:\s+(\d+) kB", file.read())[1])
