"""Commands that are stopped at a place, processes killed while they write, and full disks."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import processes
import pytest

# Runs a command, which gets a signal or finds the disk full the N-th time that it arrives at a
# place: a step of training, `np.savez`, or a renaming to a name with an ending.
STOPPED = """
import errno, os, signal, sys
import numpy as np
from gsp_tf import _files as files
from gsp_tf.cli import main

place, left, by, *arguments = sys.argv[1:]
left = int(left)

def arrive(is_there):
    global left
    left -= is_there
    if is_there and not left and by:
        os.kill(os.getpid(), getattr(signal, by))
    elif is_there and not left:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

def replace(source, target, original=os.replace):
    arrive(str(target).endswith(place))
    original(source, target)

def savez(path, original=np.savez, **arrays):
    arrive(place == "savez")
    original(path, **arrays)

files.os.replace, np.savez = replace, savez
if place == "step":
    from gsp_tf.training import StopOnNaN

    def on_train_batch_end(self, batch, logs=None, original=StopOnNaN.on_train_batch_end):
        arrive(True)
        original(self, batch, logs)

    StopOnNaN.on_train_batch_end = on_train_batch_end
main(arguments)
"""


def run_stopped(*command, at="", count=1, by="SIGKILL", code=""):
    """Run a command in a process of its own until it is stopped; `code` runs first. Its output.

    It ends when it arrives for the N-th time at "step", "savez", or a renaming to a name with an
    ending, by "SIGKILL", "SIGTERM", or, if that is empty, by a full disk.
    """
    done = processes.run(code + STOPPED, at, count, by, *command)
    expected = {"SIGKILL": -signal.SIGKILL, "SIGTERM": 128 + signal.SIGTERM, "": 1}[by]
    assert done.returncode == expected, done.output
    return done.output


# Writes files or makes folders, each in a fork that kills itself at the rename.
KILLED = """
import os, signal, sys
from gsp_tf import _files as files

def stop(*_):
    os.kill(os.getpid(), signal.SIGKILL)

files.os.replace = files.os.rename = stop
write, *paths = sys.argv[1:]
for path in paths:
    if not os.fork():
        with getattr(files, write)(path) as temporary:
            (temporary / "part" if temporary.is_dir() else temporary).write_text("half")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL
"""


def kill_while_writing(write, *paths):
    """Write `paths` by "replacing" or "new_folder" in processes that are killed at the rename."""
    subprocess.run([sys.executable, "-c", KILLED, write, *paths], check=True)


class _Killed(BaseException):
    """As if the process had been killed."""


@contextlib.contextmanager
def stopped_at(name, renamed=False):
    """What runs here ends in place of the renaming of a file to a name, or after it."""

    def replace(source, target, original=os.replace):
        if Path(target).name != name or renamed:
            original(source, target)
        if Path(target).name == name:
            raise _Killed

    with mock.patch("gsp_tf._files.os.replace", replace), pytest.raises(_Killed):
        yield


@contextlib.contextmanager
def largest_file(size):
    """Limit the files of this process to a size in bytes."""
    before, writes = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    sys.dont_write_bytecode = True  # Python would keep the first bytes of a module as all of it
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = writes
