"""The Ray cluster."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator
from types import ModuleType

from gsp_tf._console import to_install

_LONGEST = 40  # characters; Ray adds up to 62, and a socket path holds at most 107
_OBJECT_STORE = 100_000_000  # bytes; images and embeddings do not pass through it


@contextlib.contextmanager
def ray_session(cpus: int | None = None) -> Iterator[ModuleType]:
    """Ray as already connected, on RAY_ADDRESS, or on a local cluster that ends with the block."""
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


def _temporary_folder() -> str:
    """The folder for Ray's sockets, which need short paths."""
    folder = os.path.join(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir(), "ray")
    return folder if len(folder) <= _LONGEST else "/tmp/ray"
