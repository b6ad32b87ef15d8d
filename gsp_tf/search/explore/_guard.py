"""Protection of the page against other sites."""

import re
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Guard:
    """Protects an ASGI app: refuses requests that pages of other sites may have sent."""

    # Host reveals DNS rebinding: an attacker's name that resolves to this machine. Origin and
    # Sec-Fetch-Site reveal requests from pages of other origins, which may never read an answer.

    def __init__(self, app: ASGIApp, allowed_hosts: Sequence[str] = ()):
        self._app = app
        self._allowed = {_in_url(host) for host in (*_LOOPBACK, *allowed_hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def send_with_headers(message):
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        local = (scope.get("server") or [""])[0]
        refused = self.refusal(Headers(scope=scope), local, scope["method"])
        app = PlainTextResponse(refused[1], refused[0]) if refused else self._app
        await app(scope, receive, send_with_headers)

    def refusal(self, headers: Headers, local: str, method: str = "GET") -> tuple[int, str] | None:
        """Status and text for a refused request to the address `local`; otherwise `None`."""
        host = headers.get("host", "").lower()
        # The port is not compared: a tunnel may forward another port to this one.
        name = re.sub(r":\d*$", "", host)
        if not name or name not in self._allowed | {_in_url(local)}:
            return 421, "This page does not answer to this host name; --allowed-host adds it."
        origin = headers.get("origin")
        others = origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            # Links on other sites may open the page.
            others |= method != "GET" or headers.get("sec-fetch-dest") != "document"
        return (403, "Pages of other origins may not use this one.") if others else None


def _in_url(host):
    """A host name or address, as written in a URL."""
    return f"[{host.lower()}]" if ":" in host else host.lower()
