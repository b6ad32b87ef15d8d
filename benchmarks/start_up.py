"""Start-up time of the package.

`.venv/bin/python benchmarks/start_up.py` runs new processes in turn. It prints the time to import
TensorFlow and Keras, the time that `import gsp_tf` and all its subpackages add, the time that
`gsp-tf --help` takes, and the peak memory of a process that imports (Linux).
"""

import statistics
import subprocess
import sys
import time

from measure import rounds
from results import Ratio, Table, main

IMPORTS = """
import re, time
for line in {lines}:
    started = time.perf_counter()
    exec(line)
    seconds = time.perf_counter() - started
    with open("/proc/self/status") as file:
        print(seconds, re.search(r"VmHWM:\\s+(\\d+)", file.read())[1])
"""
LINES = (
    "import tensorflow, keras",
    "import gsp_tf",
    "import gsp_tf.layers, gsp_tf.losses",
    "import gsp_tf.training, gsp_tf.data, gsp_tf.evaluation, gsp_tf.runs",
)
COMMANDS = {"python -c pass": ["-c", "pass"], "gsp-tf --help": ["-m", "gsp_tf.cli", "--help"]}
TARGETS = {"import gsp_tf": 0.3, "gsp-tf --help": 1.0}


def imports():
    """Seconds and peak kilobytes after each of `LINES`, which run in order in a new process."""
    program = IMPORTS.format(lines=LINES)
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
    )
    return [tuple(map(float, line.split())) for line in done.stdout.splitlines()]


def command(arguments):
    """Seconds of a new process."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def run(quick=False):
    seconds = {name: [] for name in (*LINES, *COMMANDS)}
    peaks = {line: [] for line in LINES}
    warm_up, num_rounds = (0, 1) if quick else (1, rounds(quick))
    for round_number in range(warm_up + num_rounds):
        imported = imports()
        answered = [command(arguments) for arguments in COMMANDS.values()]
        if round_number < warm_up:
            continue
        for line, (taken, peak) in zip(LINES, imported, strict=True):
            seconds[line].append(taken)
            peaks[line].append(peak / 1024)
        for name, taken in zip(COMMANDS, answered, strict=True):
            seconds[name].append(taken)
    rows = []
    for name, taken in seconds.items():
        time_taken = Ratio(statistics.median(taken), TARGETS.get(name), unit=" s")
        peak = f"{statistics.median(peaks[name]):.0f}" if name in peaks else ""
        rows.append((name, time_taken, peak))
    note = "Each import comes after those above it, in one process; each command is a new process."
    return [Table("Start-up", ["what", "time", "peak MiB"], rows, note)]


if __name__ == "__main__":
    main(run)
