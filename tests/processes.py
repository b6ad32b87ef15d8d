"""Processes of their own, without the seconds in which a new interpreter imports TensorFlow.

A server imports libraries of others and nothing of gsp_tf; every process is its fork.
"""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from types import SimpleNamespace

_IMPORTED = """
    tensorflow keras sklearn.cluster sklearn.manifold scipy.io matplotlib.pyplot faiss filelock
    jinja2 jsonargparse docstring_parser PIL.ImageFile pillow_heif pyarrow.parquet safetensors yaml
    IPython.core.interactiveshell
"""
_FILE = """
import os, runpy, sys
sys.argv.pop(0)
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
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


def run_file(path, *arguments, folder=None):
    """Run a file as a program to its good end."""
    done = run(_FILE, path, *arguments, folder=folder)
    assert done.returncode == 0, done.output


def run_fresh(*command, folder=None, **environment):
    """Run a new interpreter, with environment variables, to its good end; what it printed."""
    paths = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": paths, **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command = [sys.executable, *map(str, command)]
    done = subprocess.run(command, env=environment, cwd=folder, check=False, **pipes)
    assert done.returncode == 0, done.stdout
    return done.stdout


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
