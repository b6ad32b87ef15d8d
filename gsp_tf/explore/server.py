"""The server of the page."""

import contextlib
import ipaddress
import os
import socket
import tempfile
import warnings

import fastapi
import gradio
import uvicorn

from gsp_tf.explore.app import explore_app

PORT = 7860
MAX_UPLOAD_MB = 10.0
_FONTS = ("system-ui", "sans-serif")


def explore_run(run, index=None, host="127.0.0.1", port=None, k=10, max_upload_mb=MAX_UPLOAD_MB):
    """Serve a page to explore the model of a run, until it is interrupted.

    An image that is dropped on it is shown with its nearest neighbours, the weights of its places
    and their prototypes; another tab shows the strongest patches of every prototype. The page is
    printed when it answers; it requests nothing from elsewhere. Uploads are kept in a temporary
    folder, for ten minutes at most, which is removed in the end.

    Args:
        run: run folder.
        index: as for `explore_app`.
        host: address to listen on; by default only programs on the same machine reach it.
        port: port to listen on; `None` is 7860, or a free one if that is taken.
        k: number of neighbours to show.
        max_upload_mb: largest file that is taken, in MB of 10^6 bytes.

    Raises:
        FileNotFoundError: as `explore_app`.
        OSError: if the address cannot be listened on.
        ValueError: as `explore_app`, and if the port or the limit is out of range.

    Example:
        >>> explore_run("runs/gsp", port=70_000)
        Traceback (most recent call last):
            ...
        ValueError: port must be between 1 and 65535; received 70000.
    """
    if port is not None and not 1 <= port <= 65535:
        raise ValueError(f"port must be between 1 and 65535; received {port}.")
    if not 0 < max_upload_mb < float("inf"):
        raise ValueError(f"max_upload_mb must be positive; received {max_upload_mb}.")
    with _listening(host, port) as listener, _temporary_uploads():
        address = listener.getsockname()[0]
        if not ipaddress.ip_address(address).is_loopback:
            warnings.warn(
                f"Everybody who reaches {host} can use the page, and upload files to it.",
                stacklevel=2,
            )
        app = gradio.mount_gradio_app(
            fastapi.FastAPI(openapi_url=None),
            explore_app(run, index, k),
            path="/",
            max_file_size=int(max_upload_mb * 1e6),
            theme=gradio.themes.Default(font=_FONTS, font_mono=("monospace",)),
            footer_links=[],
            run_history=False,
            enable_monitoring=False,
            mcp_server=False,
            pwa=False,
            ssr_mode=False,
        )
        # Its own configuration of logging would close the handlers that others have set up.
        config = uvicorn.Config(
            app, log_config=None, log_level="error", timeout_graceful_shutdown=1
        )
        with contextlib.suppress(KeyboardInterrupt):
            _Server(config).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that says where it is once it answers."""

    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(f"Page: {_url(sockets[0])} (Ctrl-C ends it)", flush=True)


def _listening(host, port):
    """A socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if port is None:
        with contextlib.suppress(OSError):
            return socket.create_server((host, PORT), family=family)
    try:
        return socket.create_server((host, port or 0), family=family)
    except OSError as error:
        where = host if port is None else f"{host}, port {port}"
        raise OSError(f"Cannot listen on {where}: {error.strerror}.") from error


def _url(listener):
    address, port = listener.getsockname()[:2]
    if ipaddress.ip_address(address).is_unspecified:
        address = "localhost"
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


@contextlib.contextmanager
def _temporary_uploads():
    """A folder for what Gradio keeps, removed in the end."""
    name, before = "GRADIO_TEMP_DIR", os.environ.get("GRADIO_TEMP_DIR")
    with tempfile.TemporaryDirectory(prefix="gsp-tf-explore-") as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            os.environ.pop(name)
            if before is not None:
                os.environ[name] = before
