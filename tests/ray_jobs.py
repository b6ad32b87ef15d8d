"""Jobs that embed a collection, on a local cluster of Ray or without it."""

import contextlib
import time
from pathlib import Path
from types import SimpleNamespace

import processes

# Runs a command whose processes, the driver and those of Ray, have a variable that marks them; a
# folder with a long name is that for temporary files. The first worker is killed with its shard.
DRIVER = """
import os, signal, sys, tempfile
from gsp_tf.cli import main
from gsp_tf.search import collection as workers

os.environ["GSP_TF_TEST"], tempfile.tempdir = sys.argv[1:3]
os.environ.pop("RAY_ADDRESS", None)

class Worker:
    def __init__(self, *arguments):
        self.killed = os.path.join(os.environ["GSP_TF_TEST"], "killed")
        if os.path.exists(self.killed):
            from gsp_tf.search.collection import _ShardEmbedder
            self.write = _ShardEmbedder(*arguments)

    def __call__(self, batch):
        if not os.path.exists(self.killed):
            open(self.killed, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.write(batch)

workers._ShardEmbedder = Worker
main(sys.argv[3:])
"""

# Runs before a command whose workers are to be calls in its own process.
WITHOUT_RAY = """
from gsp_tf.search import collection as workers
from ray_jobs import ray_without_processes
workers._ray_session = ray_without_processes
"""


def command_of(run, collection, out):
    """The arguments of a job with one worker."""
    command = "embed-collection", run, collection, "--out", out
    return [*command, "--shard-size", 8, "--workers", 1]


def start_driver(run, collection, out, folder):
    """Start a job on Ray whose temporary files and output are in a folder, which marks it."""
    temporary = folder / ("long" * 20)
    temporary.mkdir()
    with (folder / "output.txt").open("w") as output:
        command = command_of(run, collection, out)
        return processes.start(DRIVER, folder, temporary, *command, output=output)


def processes_of(folder):
    """The processes of Ray of a job."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"GSP_TF_TEST={folder}\0".encode() in (process / "environ").read_bytes():
                found.append(process)
    return found


def wait_until(condition):
    """Wait for what happens soon, or never if the test is to fail."""
    deadline = time.monotonic() + 1200
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def written(out):
    """Shards that are written, and when."""
    return {path.name: path.stat().st_mtime_ns for path in out.glob("embeddings-*.parquet")}


class _Dataset(list):
    """As much of a data set of Ray as is used, without processes."""

    context = SimpleNamespace()

    def map_batches(self, function, fn_constructor_args, **options):
        mapped = function(*fn_constructor_args[:-1], threads=None)
        batches = (mapped({key: [row[key]] for key in row}) for row in self)
        rows = ({key: batch[key][0] for key in batch} for batch in batches)
        return SimpleNamespace(iter_rows=lambda: rows)


@contextlib.contextmanager
def ray_without_processes():
    """Instead of `_ray_session`."""
    data = SimpleNamespace(
        from_items=lambda items, override_num_blocks: _Dataset(items),
        ActorPoolStrategy=lambda size, max_tasks_in_flight_per_actor: size,
    )
    yield SimpleNamespace(data=data, cluster_resources=lambda: {"CPU": 2.0})
