"""The server of the page, whose connections are bounded."""

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
import threading
import warnings
from collections.abc import Sequence
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from gsp_tf._arguments import check_positive, check_sizes
from gsp_tf._typing import PathLike
from gsp_tf.search import Index, RunModel, Thresholds
from gsp_tf.search.explore._model_view import ModelView
from gsp_tf.search.explore._page import MAX_UPLOAD_MB, Exploration, page_app
from gsp_tf.search.explore._searched import open_images

CONNECTIONS = 100
# Seconds that each phase of a request may keep the page waiting for the client: until its headers
# and its body have arrived, until it has taken the answer, and, once it has the answer, until the
# rest of a body has arrived that nobody asked for. The work of the page itself has no limit.
SECONDS = {"headers": 10.0, "body": 90.0, "answer": 60.0, "rest": 10.0}


class _BoundedConnection(H11Protocol):
    """A connection that is cut off when its client keeps the page waiting, in any phase.

    uvicorn limits only the time between two requests. If all places are taken, a new connection
    gets the place of the one whose client has kept the page waiting longest, a client without
    complete headers first. Only where the page works for all of them is the new one refused.
    """

    _phase: str | None = None
    _began = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Takes a place, and starts the clock of the headers."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # writing is paused until all of it is taken
        waiting = [one for one in self.connections if one._phase is not None]
        if len(self.connections) > CONNECTIONS and waiting:
            min(waiting, key=lambda one: (one._phase != "headers", one._began))._cut_off()
        self._clock()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._clock()

    def on_response_complete(self) -> None:
        """Answers the next request of the connection."""
        super().on_response_complete()
        self._clock()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._clock()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._clock()

    def send_400_response(self, msg: str) -> None:
        """Refuses a malformed request, or ends the connection if an answer is under way."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _waits_for(self):
        """The phase in which the page waits for the client; `None` while the page works."""
        if self.flow.write_paused:
            return "answer"
        is_answered = self.cycle is None or self.cycle.response_complete
        if self.conn.their_state is h11.SEND_BODY:
            return "rest" if is_answered else "body"
        return "headers" if is_answered else None

    def _clock(self):
        """Starts the clock of the phase if it has just begun."""
        phase = self._waits_for()
        if phase == self._phase:
            return
        self._stop()
        self._phase, self._began = phase, self.loop.time()
        if phase is not None:
            self._timer = self.loop.call_later(SECONDS[phase], self._cut_off)

    def _stop(self):
        if self._timer is not None:
            self._timer.cancel()

    def _cut_off(self):
        """Ends the connection at once, whatever is still to be sent, and gives back its place."""
        self.connections.discard(self)
        self.transport.abort()


_PORT = 7860
_SECONDS_TO_END = 1  # for requests that are under way


def explore_app(
    run: PathLike,
    index: Index | PathLike | None = None,
    k: int = 10,
    max_upload_mb: float = MAX_UPLOAD_MB,
    allowed_hosts: Sequence[str] = (),
    thresholds: Thresholds | PathLike | None = None,
) -> ASGIApp:
    """The page of `explore_run` as an ASGI app, to mount in another server.

    The model is loaded before the function returns. Without an index, the page searches the run's
    test images with the embeddings kept by the evaluation. If there are none, they are computed
    first.

    Args:
        run: run folder.
        index: `Index` or its folder; `None` means the folder `index` in the run, which is built of
            its folder `embeddings` if it does not exist, or without both the run's test images.
        k: number of neighbours to show; all images if there are fewer.
        max_upload_mb: largest file that the page takes, in MB of 10^6 bytes.
        allowed_hosts: further host names of the page. It always answers to loopback names and to
            the address on which a connection arrived.
        thresholds: as for `search`.

    Example:
        >>> explore_app("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    check_sizes(k=k)
    check_positive(max_upload_mb=max_upload_mb)
    model = RunModel(run)
    exploration = Exploration(ModelView(model), open_images(model, index, thresholds), k)
    return page_app(exploration, max_upload_mb, allowed_hosts)


def explore_run(
    run: PathLike,
    index: Index | PathLike | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    k: int = 10,
    max_upload_mb: float = MAX_UPLOAD_MB,
    allowed_hosts: Sequence[str] = (),
    thresholds: Thresholds | PathLike | None = None,
) -> None:
    """Serves a page to explore the model of a run, until it is interrupted.

    The page shows a dropped image with its nearest neighbours, the weights of its places and their
    prototypes. Another tab shows the strongest patches of every prototype. The address is printed
    once the page answers. The page requests nothing from other servers. Uploads are never written
    to disk.

    Args:
        run, index, k, max_upload_mb, thresholds: as in `explore_app`.
        host: address to listen on; by default, only programs on this machine can reach the page.
        port: port to listen on; `None` means 7860, or a free port if that is taken.
        allowed_hosts: further host names of the page, which also answers to `host` and the name of
            the machine.

    Raises:
        OSError: if the server cannot listen on the address.

    Example:
        >>> explore_run("runs/gsp", port=70_000)
        Traceback (most recent call last):
            ...
        ValueError: port must be between 1 and 65535; received 70000.
    """
    if port is not None and not 1 <= port <= 65535:
        raise ValueError(f"port must be between 1 and 65535; received {port}.")
    with _listening(host, port) as listener:
        if not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
            warnings.warn(
                f"Everybody who reaches {host} can use the page, and upload files to it.",
                stacklevel=2,
            )
        hosts = (host, socket.gethostname(), *allowed_hosts)
        server = _server(explore_app(run, index, k, max_upload_mb, hosts, thresholds))
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


def _server(app):
    """A server that logs failures of the app, but nothing that a client sent."""
    logging.getLogger("uvicorn.error").addFilter(_is_failure)
    return _Server(
        uvicorn.Config(
            app,
            http=_BoundedConnection,
            ws="none",
            log_config=None,  # its own would close handlers set up by others
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=CONNECTIONS + 1,  # one more, which takes the place of another
            timeout_graceful_shutdown=_SECONDS_TO_END,
        )
    )


def _is_failure(record):
    """Whether a record holds an exception other than the one that ends requests."""
    error = (record.exc_info or (None, None))[1]
    return error is not None and not isinstance(error, asyncio.CancelledError)


class _Server(uvicorn.Server):
    """A server that prints its address once it answers, and treats a hangup like Ctrl-C."""

    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(f"Page: {_url(sockets[0])} (Ctrl-C ends it)", flush=True)

    @contextlib.contextmanager
    def capture_signals(self):
        with super().capture_signals(), contextlib.ExitStack() as stack:
            if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
                before = signal.signal(signal.SIGHUP, self.handle_exit)
                stack.callback(signal.signal, signal.SIGHUP, before)
            yield


def _listening(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if port is None:
        with contextlib.suppress(OSError):
            return socket.create_server((host, _PORT), family=family)
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
