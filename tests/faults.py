"""Processes that are killed while they write, and files that may not grow."""

import contextlib
import resource
import signal
import subprocess
import sys

# Writes a file or makes a folder, and kills itself at the rename.
KILLED = """
import os, signal, sys
from gsp_tf import _files as files

def stop(*_):
    os.kill(os.getpid(), signal.SIGKILL)

files.os.replace = files.os.rename = stop
write, path = sys.argv[1:]
with getattr(files, write)(path) as temporary:
    (temporary / "part" if temporary.is_dir() else temporary).write_text("half")
"""


def kill_while_writing(write, path):
    """Write `path` by "replacing" or "new_folder" in a process that is killed at the rename."""
    process = subprocess.run([sys.executable, "-c", KILLED, write, path])
    assert process.returncode == -signal.SIGKILL


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
