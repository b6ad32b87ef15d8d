"""Requests as pages of other sites send them, over real connections."""

import socket

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from gsp_tf.search.explore._page import HEADERS, page_app

ROADS = ["/search?name=a.png", "/examples/0", "/prototypes", "/prototypes/1"]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "localhost.evil.example:{port}",
        "127.0.0.2:{port}",
        "[::2]:{port}",
        "::1",
        "localhost:80:80",
        "",
    ],
)
def test_other_host_names_are_refused(host, port, ask, asked):
    before = asked.count
    for path in ("/", "/page.js", *ROADS, "/no/such/path"):
        method = "GET" if path in ("/", "/page.js") else "POST"
        answer = ask(port, path, method, headers={"Host": host.format(port=port)})
        assert answer.status == 421 and "--allowed-host" in answer.body
    assert asked.count == before


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:1"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"},
        {"Origin": "http://localhost:{port}", "Sec-Fetch-Site": "cross-site"},
    ],
)
def test_requests_of_other_origins_are_refused(headers, port, ask, asked):
    before = asked.count
    sent = {name: value.format(port=port) for name, value in headers.items()}
    for path in ROADS:
        for kind in ("text/plain", "multipart/form-data; boundary=a", "application/json"):
            answer = ask(port, path, body=b"{}", headers={**sent, "Content-Type": kind})
            assert answer.status == 403
            assert answer.getheader("Access-Control-Allow-Origin") is None
    assert asked.count == before


def test_what_the_page_itself_sends_is_answered(port, ask):
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "LocalHost:9000"):
        own = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        for path in ROADS:
            answer = ask(port, path, body=b"image", headers=own)
            assert answer.status == 200, (path, host, answer.body)
        assert ask(port, "/page.js", "GET", headers=own).status == 200
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}
    assert ask(port, "/", "GET", headers=followed).body == "page"
    for destination in ("iframe", "script", "image", "empty"):
        embedded = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Dest": destination}
        assert ask(port, "/", "GET", headers=embedded).status == 403


def test_every_answer_says_what_browsers_may_do(port, ask):
    for method, path, host, status in (
        ("GET", "/", "localhost", 200),
        ("GET", "/page.js", "localhost", 200),
        ("POST", "/search", "localhost", 200),
        ("GET", "/search", "localhost", 405),
        ("OPTIONS", "/search", "localhost", 405),
        ("POST", "/examples/2", "localhost", 404),
        ("POST", "/examples/-1", "localhost", 404),
        ("POST", f"/examples/{'9' * 5000}", "localhost", 404),
        ("GET", "/openapi.json", "localhost", 404),
        ("GET", "/", "evil.example", 421),
    ):
        answer = ask(port, path, method, body=b"image", headers={"Host": host})
        assert answer.status == status
        assert {name: answer.getheader(name) for name in HEADERS} == HEADERS
        assert "script-src 'self'" in answer.getheader("Content-Security-Policy")
        assert not [name for name, _ in answer.getheaders() if name.lower().startswith("access-")]
        assert answer.getheader("Server") is None


def test_ipv6_is_guarded_as_ipv4(asked, serve, ask):
    try:
        port = serve(page_app(asked), "::1")
    except OSError as error:
        pytest.skip(f"This machine has no ::1: {error}")
    for host in (f"[::1]:{port}", f"localhost:{port}"):
        own = {"Host": host, "Origin": f"http://{host}"}
        assert ask(port, ROADS[0], headers=own, host="::1").status == 200
        foreign = {"Host": host, "Origin": "http://evil.example"}
        refused = ask(port, ROADS[0], headers=foreign, host="::1")
        assert refused.status == 403 and refused.getheader("Access-Control-Allow-Origin") is None
    for host in (f"evil.example:{port}", f"[::2]:{port}", f"[::ffff:127.0.0.1]:{port}"):
        assert ask(port, "/", "GET", headers={"Host": host}, host="::1").status == 421


def test_an_address_is_answered_on_connections_to_it(asked, serve, ask):
    port = serve(page_app(asked), "0.0.0.0")
    for address in ("127.0.0.1", "127.0.0.2", socket.gethostbyname(socket.gethostname())):
        assert ask(port, headers={"Host": address}, method="GET", host=address).status == 200
    assert ask(port, headers={"Host": "127.0.0.2"}, method="GET", host="127.0.0.3").status == 421


def test_names_can_be_added(asked, serve, ask):
    port = serve(page_app(asked, allowed_hosts=("Photos.example", "2001:DB8::1")))
    for host in ("photos.example", "PHOTOS.example:8443", "[2001:db8::1]"):
        assert ask(port, "/", "GET", headers={"Host": host}).status == 200
    own = {"Host": "photos.example", "Origin": "https://photos.example"}
    assert ask(port, ROADS[0], headers=own).status == 200


def test_mounted_in_another_app_it_is_guarded_too(asked, serve, ask):
    async def mine(request):
        return PlainTextResponse("mine")

    app = Starlette(routes=[Route("/", mine), Mount("/explore", page_app(asked))])
    port = serve(app)
    assert ask(port, "/", "GET", headers={"Host": "evil.example"}).body == "mine"
    assert ask(port, "/explore/", "GET").body == "page"
    assert ask(port, "/explore/search", body=b"image").body == "answered"
    assert ask(port, "/explore/", "GET", headers={"Host": "evil.example"}).status == 421
