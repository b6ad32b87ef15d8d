"""Processes of their own, without the seconds in which a new interpreter imports TensorFlow.

A server imports libraries of others and nothing of gsp_tf; every process is its fork.
"""

import gc
import multiprocessing
import os
import signal
import sys
import tempfile
from types import SimpleNamespace

_IMPORTED = """
    tensorflow keras sklearn.cluster sklearn.manifold scipy.io matplotlib.pyplot faiss filelock
    jinja2 jsonargparse docstring_parser PIL.ImageFile pillow_heif pyarrow.parquet safetensors yaml
    IPython.core.interactiveshell
"""
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(_IMPORTED.split())


def run(code, *arguments, folder=None, timeout=900):
    """Run Python code to its end; `returncode` (minus a signal's number) and printed `output`."""
    with tempfile.TemporaryFile() as output:
        process = start(code, *arguments, folder=folder, output=output)
        process.join(timeout)
        assert process.exitcode is not None, f"The process did not end in {timeout} seconds."
        output.seek(0)
        return SimpleNamespace(returncode=process.exitcode, output=output.read().decode())


def start(code, *arguments, folder=None, output=None):
    """A `multiprocessing.Process` that runs Python code; `output` is a file for what it prints.

    The code finds its arguments in `sys.argv[1:]`.
    """
    descriptor = None if output is None else multiprocessing.reduction.DupFd(output.fileno())
    given = (code, list(map(str, arguments)), folder, descriptor)
    process = _FORKS.Process(target=_execute, args=given)
    process.start()
    return process


def _execute(code, arguments, folder, descriptor):
    gc.freeze()  # what the server imported is not garbage
    if descriptor is not None:
        for stream in (1, 2):
            os.dup2(descriptor.detach() if stream == 1 else 1, stream)
    # A test suite that runs in the background may have been told to ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if folder is not None:
        os.chdir(folder)
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<process>", "exec"), {"__name__": "__main__"})
