"""The cluster that Ray works on."""

import contextlib
import logging
import os
import tempfile

from gsp_tf._console import to_install

_LONGEST = 40  # of the 107 characters of the path of a socket, to which Ray adds up to 62
_OBJECT_STORE = 100_000_000  # bytes; what workers read and write does not pass through it


@contextlib.contextmanager
def ray_session(cpus=None):
    """Ray, connected: as it is, to the cluster that RAY_ADDRESS names, or to one of its own.

    One that is started here has no dashboard, sends no statistics of use, and ends with the block.

    Args:
        cpus: cores of a cluster that is started here; `None` for all of the machine.

    Returns:
        context manager that gives the module `ray`, with `ray.data`.

    Raises:
        ImportError: if Ray is not installed.
    """
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError(
            f"Collections are embedded by Ray Data, which is not installed: {to_install('ray')}."
        ) from error
    if ray.is_initialized():
        yield ray
        return
    quiet = {"log_to_driver": False, "logging_level": logging.WARNING}
    if os.environ.get("RAY_ADDRESS"):
        ray.init(**quiet)
    else:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            "local",
            num_cpus=cpus,
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE,
            _temp_dir=_temporary_folder(),
            **quiet,
        )
    try:
        yield ray
    finally:
        ray.shutdown()


def _temporary_folder():
    """Where Ray keeps its sockets, whose paths must be short."""
    folder = os.path.join(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir(), "ray")
    return folder if len(folder) <= _LONGEST else "/tmp/ray"
