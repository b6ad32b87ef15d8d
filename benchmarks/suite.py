"""Runs benchmarks, each in its own process, and saves their tables in RESULTS.md.

`make bench` runs all benchmarks, `gsp-tf bench NAME ...` runs some.
"""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def benchmark_names():
    """The files in this folder that define a function `run`."""
    files = sorted(FOLDER.glob("*.py"))
    return [path.stem for path in files if "\ndef run(" in path.read_text(encoding="utf-8")]


def bench(names=(), quick=False, out=None):
    """Run benchmarks on the processor and, where there is one, on the GPU.

    Args:
        names: names of benchmarks; all if empty.
        quick: a trial with small sizes and few rounds.
        out: Markdown file for the results. If `None`, benchmarks/RESULTS.md, or no file for a quick
            run.

    Returns:
        Names of the benchmarks that failed.

    Raises:
        ValueError: if no benchmark has a given name.
    """
    accepted = benchmark_names()
    unknown = [name for name in names if name not in accepted]
    if unknown:
        raise ValueError(
            f"No benchmark is named {', '.join(unknown)}; there are {', '.join(accepted)}."
        )
    options = ["--quick"] * quick
    if out or not quick:
        options += ["--out", str(out or FOLDER / "RESULTS.md")]
    failed = []
    for settings in _devices():
        for name in names or accepted:
            print(f"{name}: python benchmarks/{name}.py {' '.join(options)}", flush=True)
            command = [sys.executable, str(FOLDER / f"{name}.py"), *options]
            if subprocess.run(command, env={**os.environ, **settings}).returncode:
                failed.append(name)
    return failed


def _devices():
    """Environment variables of every device to run on."""
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        print("GPU: none present, its section is not run")
        return [{}]
    # Benchmarks measure memory in separate processes, which share the GPU with them.
    return [{"CUDA_VISIBLE_DEVICES": "-1"}, {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}]
