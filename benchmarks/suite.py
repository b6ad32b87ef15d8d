"""Runs benchmarks, each in a process of its own, and keeps what they print in RESULTS.md.

`make bench` runs all of them, `gsp-tf bench NAME ...` some.
"""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def benchmark_names():
    """The files of this folder that have a function `run`."""
    files = sorted(FOLDER.glob("*.py"))
    return [path.stem for path in files if "\ndef run(" in path.read_text(encoding="utf-8")]


def bench(names=(), quick=False, out=None):
    """Run benchmarks on the processor and, where there is one, on the GPU.

    Args:
        names: which ones; all of them if empty.
        quick: small sizes and few rounds: a trial.
        out: Markdown file for the results, benchmarks/RESULTS.md if `None`; a quick run writes none
            then.

    Returns:
        names of those that failed.

    Raises:
        ValueError: if a name is not that of a benchmark.
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
    # Benchmarks measure memory in processes of their own, which share the GPU with them.
    return [{"CUDA_VISIBLE_DEVICES": "-1"}, {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}]
