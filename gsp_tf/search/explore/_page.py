"""The answers and routes of the page, and its protection against other sites."""

import asyncio
import contextlib
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import tensorflow as tf
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gsp_tf._files import reason
from gsp_tf.data import EncodedImages, UnreadableImageError, check_image
from gsp_tf.runs import evaluation_batches
from gsp_tf.search.explore._model_view import ModelView, PrototypeBrowser
from gsp_tf.search.explore._searched import Searched, shown_reason
from gsp_tf.search.index._where import ConditionError
from gsp_tf.visual import (
    array_tile,
    attribute_histograms,
    color_scale,
    dominant_prototypes,
    enlarged,
    inline_svg,
    overlay_weights,
    page_template,
    png_uri,
    prototype_colors,
    thumbnail,
    transparent_figure,
)

MAX_UPLOAD_MB = 10.0
_EXAMPLES = 8
_EXPLAINED = 4  # neighbours
_UPLOADS = 4  # of the largest size, in memory at a time
_SECONDS = 60.0  # that an upload may keep the page waiting
_SECONDS_IF_FULL = 2.0  # the same while other uploads wait for memory
_POLL = 0.02  # seconds
_PATIENCE = 1.0  # seconds to wait for the prototypes before reporting progress
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PIXELS = 320
_LARGEST = 6
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


class Exploration:
    """The answers of the page as HTML, with at most k neighbours, and examples to click."""

    def __init__(self, view: ModelView, searched: Searched, k: int):
        self._view = view
        self._searched = searched
        self._k = min(k, len(searched))
        self._examples = searched.sample(_EXAMPLES)
        self.num_examples = len(self._examples.names)
        self.num_prototypes = view.num_prototypes if len(searched) else 0

    def page(self, max_bytes: int) -> str:
        """The initial page, with example images to click and the upload limit."""
        images, indices, _, names, labels = self._examples
        tiles = [array_tile(images.image(i), name) for i, name in zip(indices, names, strict=True)]
        return _rendered(
            "explore.html",
            title=self._view.model.recipe.name,
            recipe=self._view.model.recipe,
            view=self._view,
            searched=self._searched,
            examples=list(zip(tiles, labels, strict=True)),
            max_bytes=max_bytes,
            too_large=_too_large(max_bytes),
            no_prototypes=_no_prototypes(self._view.pooling_name),
        )

    def search(self, content: bytes, name: str, where: str | None = None) -> str:
        """The places and neighbours of an image, given the bytes of its file."""
        channels = self._view.model.embedder.input_shape[-1]
        check_image(content, name)
        image = EncodedImages([content], [0], [""], channels=channels)
        return self._found(image, [0], name, where, content=content)

    def search_example(self, number: int, where: str | None = None) -> str:
        images, indices, numbers, names, _ = self._examples
        own = int(numbers[number])
        return self._found(images, indices[[number]], names[number], where, own)

    def _found(self, images, indices, name, where, own=None, content=None):
        """The answer for one image of a set.

        `own` is its number among the searched ones, which leaves it out. `content` are the bytes of
        its file, by which it is recognised among them.
        """
        batches = evaluation_batches(self._view.model.recipe, images, np.asarray(indices))
        seen, found = self._view.look(batches), []
        if self._k:
            found = self._searched.nearest(seen.embedding, self._k, where, own, content)
        picture = enlarged(seen.image, _PIXELS)
        maps = [] if seen.weights is None else seen.weights.transpose(2, 0, 1)
        return _rendered(
            "found.html",
            name=name,
            image=png_uri(picture),
            overlays=[png_uri(overlay_weights(picture, weights)) for weights in maps],
            prototypes=None if seen.attributes is None else _prototypes(picture, seen.attributes),
            pooling=self._view.pooling_name,
            no_prototypes=_no_prototypes(self._view.pooling_name),
            scale=color_scale(),
            neighbours=found,
            results=[(one, self._searched.tile(one)) for one in found],
            searched=self._searched,
            pairs=self._pairs(batches, found[:_EXPLAINED]) if found else [],
            where=where,
        )

    def _pairs(self, batches, found):
        """Names and pictures of the first neighbours beside the image of a batch."""
        others, indices, _, names, _ = self._searched.images(found)
        if not names:
            return []
        others = evaluation_batches(self._view.model.recipe, others, indices)
        pictures = map(png_uri, self._view.pairs(batches, others))
        return list(zip(names, pictures, strict=False))

    def browser(self, progress: Callable[[int, int], None]) -> PrototypeBrowser:
        """Makes the prototype browser, which processes many images."""
        return PrototypeBrowser(self._view, self._searched, progress)


def page_app(
    exploration: Exploration,
    max_upload_mb: float = MAX_UPLOAD_MB,
    allowed_hosts: Sequence[str] = (),
) -> ASGIApp:
    """The app that serves an `Exploration`; other arguments are as in `explore_app`."""
    return Guard(_Page(exploration, int(max_upload_mb * 1e6)).app, allowed_hosts)


class _Page:
    """The routes; one thread does all work with the model, and uploads stay in memory."""

    def __init__(self, exploration, max_bytes):
        self._exploration = exploration
        self._max_bytes = max_bytes
        self._html = exploration.page(max_bytes)
        self._worker = ThreadPoolExecutor(1, "gsp_tf.search.explore")
        self._uploads = _Uploads(max_bytes)
        self._browser = None
        self._seen = (0, 0)
        self._ended = False
        self.app = Starlette(
            routes=[
                Route("/", self._first),
                Route("/page.js", self._script),
                Route("/search", self._search, methods=["POST"]),
                Route("/examples/{number}", self._example, methods=["POST"]),
                Route("/prototypes", self._prototypes, methods=["POST"]),
                Route("/prototypes/{number}", self._patches, methods=["POST"]),
            ],
            lifespan=self._lifespan,
        )

    async def _first(self, request):
        return HTMLResponse(self._html)

    async def _script(self, request):
        return FileResponse(Path(__file__).with_name("page.js"), media_type="text/javascript")

    async def _search(self, request):
        name = request.query_params.get("name") or "image"
        with self._uploads.new() as upload:
            try:
                content = await upload.read(request.stream())
            except (TimeoutError, ClientDisconnect) as error:
                raise HTTPException(408, "The file did not arrive.") from error
            return await self._work(self._exploration.search, content, name, _where(request))

    async def _example(self, request):
        number = _below(self._exploration.num_examples, request)
        return await self._work(self._exploration.search_example, number, _where(request))

    async def _prototypes(self, request):
        return await self._from_browser(prototypes_html)

    async def _patches(self, request):
        number = _below(self._exploration.num_prototypes, request)
        return await self._from_browser(lambda browser: patches_html(browser, number))

    async def _from_browser(self, answer):
        """The answer of the prototype browser, or its progress with status 202."""
        if not self._exploration.num_prototypes:
            raise HTTPException(404)
        if self._browser is None:
            self._browser = self._worker.submit(self._exploration.browser, self._looked_at)
        await asyncio.to_thread(wait, [self._browser], _PATIENCE)
        if not self._browser.done():
            done, total = self._seen  # in images; 0 of 0 before the first
            return HTMLResponse(_rendered("progress.html", done=done, total=total), 202)
        return await self._work(lambda: answer(self._browser.result()))

    def _looked_at(self, done, total):
        """Notes the progress of the browser, and stops it once the page is closed."""
        if self._ended:
            raise RuntimeError("The page was closed.")
        self._seen = done, total

    async def _work(self, function, *arguments):
        """Runs a function in the worker thread, in turn, and returns its answer."""
        loop = asyncio.get_running_loop()
        try:
            return HTMLResponse(await loop.run_in_executor(self._worker, function, *arguments))
        except ConditionError as error:
            raise HTTPException(422, str(error)) from error
        except UnreadableImageError as error:
            raise HTTPException(422, shown_reason(error)) from error
        except (ValueError, OSError, tf.errors.OpError) as error:
            print(f"A request failed: {reason(error)}", file=sys.stderr)
            raise HTTPException(500, shown_reason(error)) from error

    @contextlib.asynccontextmanager
    async def _lifespan(self, app):
        yield
        self._ended = True
        self._worker.shutdown(wait=False, cancel_futures=True)


class _Uploads:
    """The uploads in memory, together about as large as four of the largest size."""

    # No upload waits for a place, so one that stalls keeps nobody waiting. Where memory is short,
    # the upload that has kept the page waiting longest is cut off after a short patience. Until
    # then the first of those that arrive continues and the others wait, so that one always ends.

    def __init__(self, max_bytes: int):
        self.max_bytes = max_bytes
        self._all: list[_Upload] = []

    @contextlib.contextmanager
    def new(self) -> Iterator["_Upload"]:
        """An upload, which has its memory until the block ends."""
        upload = _Upload(self)
        self._all.append(upload)
        try:
            yield upload
        finally:
            self._all.remove(upload)

    def has_room(self, upload: "_Upload") -> bool:
        """Whether an upload that is arriving may take more memory now."""
        if sum(len(one.content) for one in self._all) <= (_UPLOADS - 1) * self.max_bytes:
            return True
        arriving = [one for one in self._all if one.is_arriving]
        slowest = max(arriving, key=_Upload.waited)
        if slowest.waited() > _SECONDS_IF_FULL:
            slowest.cut_off()
        return upload is arriving[0]


class _Upload:
    """A body, and for how long it has kept the page waiting."""

    def __init__(self, uploads: _Uploads):
        self._uploads = uploads
        self._limit = asyncio.timeout(None)
        self._waited = 0.0
        self._since: float | None = None
        self.content: bytearray | bytes = bytearray()
        self.is_arriving = True

    async def read(self, stream: AsyncIterator[bytes]) -> bytes:
        """The body; status 413 as soon as it is too long, `TimeoutError` if it is too slow."""
        async with self._limit:
            while True:
                self._since = asyncio.get_running_loop().time()
                self._limit.reschedule(self._since + _SECONDS - self._waited)
                part = await anext(stream, None)
                self._limit.reschedule(None)
                self._waited, self._since = self.waited(), None
                if part is None:
                    break
                self.content += part
                if len(self.content) > self._uploads.max_bytes:
                    raise HTTPException(413, _too_large(self._uploads.max_bytes))
                while not self._uploads.has_room(self):
                    await asyncio.sleep(_POLL)
        self.is_arriving = False
        self.content = bytes(self.content)
        return self.content

    def waited(self) -> float:
        """Seconds for which it has kept the page waiting; pauses of the page do not count."""
        if self._since is None:
            return self._waited
        return self._waited + asyncio.get_running_loop().time() - self._since

    def cut_off(self) -> None:
        if not self._limit.expired():
            self._limit.reschedule(0)


def _where(request):
    """The condition on the images to find, `None` without one."""
    return request.query_params.get("where", "").strip() or None


def _below(count, request):
    """The number in the path of a request; raises status 404 unless it is below `count`."""
    number = request.path_params["number"]
    if number not in map(str, range(count)):
        raise HTTPException(404)
    return int(number)


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


def _too_large(max_bytes):
    return f"The file is too large; the page takes files of at most {max_bytes / 1e6:g} MB."


def _no_prototypes(pooling_name):
    return (
        f"{pooling_name}, the pooling of this run, has no attributes of prototypes; those of "
        "generalized sum pooling have them, such as pooling.name=gsp."
    )


def prototypes_html(browser: PrototypeBrowser) -> str:
    """The choice of prototypes, and the patches of the one with the largest share."""
    order = (-browser.means).argsort(kind="stable").tolist()
    choices = [(number, 100 * browser.means[number]) for number in order]
    first = Markup(patches_html(browser, order[0]))
    return _rendered("prototypes.html", choices=choices, first=first)


def patches_html(browser: PrototypeBrowser, prototype: int) -> str:
    shown = [
        {
            "crop": png_uri(enlarged(_cut(patch.image, patch.window), _PIXELS)),
            "whole": png_uri(thumbnail(patch.image, _PIXELS)),
            "inner": _within(patch.cell, patch.window),
            "patch": patch,
        }
        for patch in browser.patches(prototype)
    ]
    return _rendered(
        "patches.html", prototype=prototype, patches=shown, num_images=browser.num_images
    )


def _prototypes(picture, attributes):
    """The prototypes of an image: map, histogram, and those with the largest shares."""
    histogram = attributes.sum(axis=(0, 1))
    figure = transparent_figure(4.6, 1.4)
    figure.set_layout_engine("constrained")
    attribute_histograms(histogram[None], [0], [""], figure=figure)
    colors = prototype_colors(range(len(histogram))).tolist()
    largest = (-histogram).argsort(kind="stable")[:_LARGEST].tolist()
    return {
        "map": png_uri(dominant_prototypes(picture[None], attributes[None])[0]),
        "histogram": Markup(inline_svg(figure)),
        "largest": [(number, float(histogram[number]), colors[number]) for number in largest],
        "count": len(histogram),
    }


def _cut(image, window):
    """The part of a square image in a window, in whole pixels."""
    size = image.shape[0]
    top, left = (round(size * start) for start in window[:2])
    side = max(1, round(size * window[2]))
    return image[top : top + side, left : left + side]


def _within(cell, window):
    """A cell in fractions of the window around it."""
    (corner, size), (origin, side) = np.reshape(cell, (2, 2)), np.reshape(window, (2, 2))
    return (*((corner - origin) / side), *(size / side))


def _rendered(template, **values):
    page = page_template(template, "search/explore").render(**values)
    return page.encode("utf-8", "replace").decode()  # names of files may be no Unicode
