import concurrent.futures
import contextlib
import os
import signal
import socket
import threading
import time

import processes
import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from gsp_tf.search.explore import _page, explore_run, server
from gsp_tf.search.explore._page import page_app

ROADS = ["/search?name=a.png", "/examples/0", "/prototypes", "/prototypes/1"]


def head(path, port, *lines):
    """The first bytes of a POST request."""
    lines = [f"POST {path} HTTP/1.1", f"Host: localhost:{port}", *lines, "", ""]
    return "\r\n".join(lines).encode()


def test_one_request_at_a_time_is_worked_on_whatever_was_asked(asked, serve, ask):
    port = serve(page_app(asked))
    asked.most = 0
    before = asked.count
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda path: ask(port, path, body=b"image"), 8 * ROADS))
    assert {answer.status for answer in answers} == {200}
    assert asked.most == 1 and asked.count == before + 8 * len(ROADS) + 1  # and the browser


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_above_the_limit_is_refused_while_it_is_read(chunked, asked, serve, ask):
    port = serve(page_app(asked, max_upload_mb=0.5))
    before = asked.count
    parts = (bytes(100_000) for _ in range(64))
    body = iter([bytes(500_001)]) if chunked else bytes(500_001)
    answer = ask(port, ROADS[0], body=body, encode_chunked=chunked)
    assert answer.status == 413
    assert answer.body == "The file is too large; the page takes files of at most 0.5 MB."
    length = {} if chunked else {"Content-Length": str(64 * 100_000)}
    assert ask(port, ROADS[0], body=parts, headers=length, encode_chunked=chunked).status == 413
    assert asked.count == before
    assert ask(port, ROADS[0], body=bytes(500_000)).body == "answered"
    # It is refused before it has arrived.
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(head(ROADS[0], port, "Content-Length: 1000000000000") + bytes(600_000))
        assert b" 413 " in client.recv(100)


@pytest.mark.parametrize("path", ["/examples/0", "/no/such/path"])
def test_a_body_that_is_not_asked_for_is_never_kept(path, port, ask, monkeypatch):
    kept = []
    feed = H11Protocol.data_received

    def count(self, data):
        feed(self, data)
        kept.append(len(self.cycle.body))

    monkeypatch.setattr(H11Protocol, "data_received", count)
    answer = ask(port, path, body=bytes(20_000_000))
    assert answer.status in (200, 404) and max(kept) < 1_000_000


def test_memory_of_uploads_is_bounded_and_given_back(asked, serve, ask, monkeypatch):
    monkeypatch.setattr(_page, "_SECONDS_IF_FULL", 1.0)  # long for a whole upload
    port = serve(page_app(asked, max_upload_mb=1))
    with contextlib.ExitStack() as stack:
        half = head(ROADS[0], port, "Content-Length: 1000000") + bytes(900_000)
        clients = [stack.enter_context(connected(port)) for _ in range(5)]
        for client in clients:
            client.sendall(half)
        for _ in range(2):
            assert ask(port, ROADS[0], body=bytes(1_000_000)).status == 200
        assert b" 408 " in clients[0].recv(100)


def test_an_upload_that_does_not_arrive_keeps_nobody_waiting(asked, serve, ask, monkeypatch):
    port = serve(page_app(asked))
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(connected(port))
            client.sendall(head(ROADS[0], port, "Content-Length: 9") + b"half")
        assert ask(port, ROADS[0], body=b"image").status == 200
    monkeypatch.setattr(_page, "_SECONDS", 0.05)
    with connected(port) as client:
        client.sendall(head(ROADS[0], port, "Content-Length: 9") + b"half")
        assert b" 408 " in client.recv(100)


GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: loc"
SEARCH = b"POST /search HTTP/1.1\r\nHost: localhost\r\n"
NOWHERE = b"POST /no HTTP/1.1\r\nHost: localhost\r\n"
SENT = {  # its phase that takes too long, the beginning, and what comes again and again
    "nothing": ("headers", b"", b""),
    "headers": ("headers", GET + HALF, b"a"),
    "body": ("body", SEARCH + b"Content-Length: 999\r\n\r\n", b"a"),
    "rest": ("rest", NOWHERE + b"Content-Length: 999\r\n\r\n", b"a"),
    "chunks": ("rest", NOWHERE + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    "unread": ("answer", 2000 * GET, b""),
}


@pytest.mark.parametrize("kind", SENT)
def test_each_phase_of_a_request_has_a_time_limit(kind, asked, serve, monkeypatch):
    phase, sent, more = SENT[kind]
    for name in server.SECONDS:
        monkeypatch.setitem(server.SECONDS, name, 0.1 if name == phase else 60.0)
    monkeypatch.setattr(asked, "page", lambda _: "x" * 100_000)
    port = serve(page_app(asked))
    with connected(port) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.suppress(ConnectionError):
            client.sendall(sent)
            while phase == "answer" or (more and not ended(client)):
                client.sendall(more or GET)
                time.sleep(0.001)
            while not more and client.recv(10_000):
                pass


def ended(client):
    """Whether the other side has ended a connection, after what it has sent is read."""
    client.setblocking(False)
    try:
        while client.recv(100_000):
            pass
        return True
    except BlockingIOError:
        return False
    finally:
        client.settimeout(60)


@pytest.mark.parametrize("sent", [b"", HALF], ids=["none", "half"])
def test_clients_without_complete_headers_never_take_the_last_place(sent, asked, serve, ask):
    port = serve(page_app(asked))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(port)) for _ in range(server.CONNECTIONS + 40)]
        for client in clients:
            with contextlib.suppress(ConnectionError):
                client.sendall(sent)
        for _ in range(4):
            assert ask(port, ROADS[0], body=b"image").status == 200
        with contextlib.suppress(ConnectionResetError):
            assert clients[0].recv(1) == b""  # the first has given its place back
        clients[-1].sendall(GET)
        assert clients[-1].recv(12)[:9] == b"HTTP/1.1 "  # the last has not


MALFORMED = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: \xff\xfe:99999999999\r\n\r\n",
    b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /examples/%zz%00%ff%C0%80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    GET[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    GET[:-2] + b"Origin: http://[\xff\r\n\r\n",
    SEARCH + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 16 + b"\r\nabc",
    SEARCH + b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
]


def test_a_malformed_request_is_refused_without_a_word_in_the_log(port, ask, caplog):
    for sent in MALFORMED:
        with connected(port) as client, contextlib.suppress(OSError):
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: client.recv(100_000), b""))  # noqa: B023
            assert b"Traceback" not in answer and b" 500 " not in answer[:20], sent[:80]
    for query in ("where=%00", "where=%ff%fe", "name=%00%ff", "where=" + 5000 * "("):
        assert ask(port, f"/search?{query}", body=b"image").status == 200
    assert caplog.text == ""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_page_while_requests_are_under_way(name, asked, monkeypatch, capfd):
    with server._listening("127.0.0.1", None) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setattr(server, "explore_app", lambda *_: page_app(asked))
    stop = getattr(signal, name)
    asked.started.clear()
    asked.release.clear()

    def disturb():
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                client = stack.enter_context(connected(port))
                client.sendall(head(ROADS[0], port, "Content-Length: 5") + b"image")
            half = stack.enter_context(connected(port))
            half.sendall(head(ROADS[0], port, "Content-Length: 9") + b"half")
            asked.started.wait()
            os.kill(os.getpid(), stop)
            ended.wait()

    ended = threading.Event()
    thread = threading.Thread(target=disturb)
    before = signal.signal(stop, signal.default_int_handler)  # as the command does
    thread.start()
    try:
        explore_run("run", port=port)
    finally:
        signal.signal(stop, before)
        asked.release.set()
        ended.set()
        thread.join()
    printed = capfd.readouterr()
    assert printed.err == "" and printed.out == f"Page: http://127.0.0.1:{port} (Ctrl-C ends it)\n"


def connected(port):
    """A connection to a server that may not listen yet."""
    while True:
        with contextlib.suppress(OSError):
            return socket.create_connection(("127.0.0.1", port), timeout=60)
        time.sleep(0.01)


def test_a_port_that_is_taken_is_named():
    with server._listening("127.0.0.1", None) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(OSError, match=f"Cannot listen on 127.0.0.1, port {port}: Address"):
            explore_run("run", port=port)
        with server._listening("127.0.0.1", None) as other:
            assert other.getsockname()[1] != port


def test_an_address_that_others_reach_is_noted(monkeypatch):
    hosts, urls = [], []
    monkeypatch.setattr(server, "explore_app", lambda *arguments: hosts.extend(arguments[4]))
    monkeypatch.setattr(
        server._Server, "run", lambda self, sockets: urls.append(server._url(sockets[0]))
    )
    with pytest.warns(UserWarning, match="Everybody who reaches 0.0.0.0 can use the page"):
        explore_run("run", host="0.0.0.0", allowed_hosts=["photos.example"])
    assert urls[0].startswith("http://localhost:")
    assert hosts == ["0.0.0.0", socket.gethostname(), "photos.example"]


def test_without_its_packages_the_extra_is_named(run):
    hidden = "import sys; sys.modules['starlette'] = None; "
    done = processes.run(hidden + "from gsp_tf.cli import main; main(sys.argv[1:])", "explore", run)
    assert done.returncode == 1
    assert 'needs Starlette and uvicorn: pip install ".[explore]"' in done.output
