"""Describes the machine that runs a benchmark."""

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

import tensorflow as tf

PACKAGES = {"TensorFlow": "tensorflow", "Keras": "keras", "faiss": "faiss-cpu"}


def machine():
    """Processor, memory, GPU, system and versions in one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = [f"{name} {version(package)}" for name, package in PACKAGES.items()]
    return ", ".join(
        [
            _processor(),
            f"{cores} core{'s' if cores > 1 else ''}",
            f"{memory:.0f} GiB of memory",
            _gpus(),
            f"{platform.system()} {platform.release().split('-')[0]}",
            f"Python {platform.python_version()}",
            *versions,
        ]
    )


def _processor():
    path = Path("/proc/cpuinfo")
    found = (
        re.search(r"^model name\s*: (.+)$", path.read_text(), re.MULTILINE)
        if path.exists()
        else None
    )
    return found[1].strip() if found else platform.processor() or platform.machine()


def _gpus():
    names = [
        tf.config.experimental.get_device_details(gpu).get("device_name", "GPU")
        for gpu in tf.config.list_physical_devices("GPU")
    ]
    return "GPU: " + (" and ".join(names) or "none in use")
