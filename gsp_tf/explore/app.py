"""The page as an app of Starlette."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import tensorflow as tf
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, HTMLResponse
from starlette.routing import Route

from gsp_tf.data import EncodedImages, UnreadableImageError, check_image
from gsp_tf.experiment import evaluation_batches, reason
from gsp_tf.explore import fragments
from gsp_tf.explore.collection import open_collection
from gsp_tf.explore.guard import Guard
from gsp_tf.explore.patches import PrototypeBrowser
from gsp_tf.explore.view import ModelView
from gsp_tf.serving import RunModel
from gsp_tf.visual import array_tile

MAX_UPLOAD_MB = 10.0
_EXAMPLES = 8
_UPLOADS = 4  # that are in memory at a time
_SECONDS = 60  # in which an upload has to arrive
_PATIENCE = 1.0  # seconds until a browser is told how far the prototypes are


def explore_app(run, index=None, k=10, max_upload_mb=MAX_UPLOAD_MB, allowed_hosts=()):
    """The page of `explore_run` as an ASGI app, to be mounted in a server of one's own.

    The model is loaded, and without an index the test images of the run are embedded, before it
    returns.

    Args:
        run: run folder.
        index: `Index` or its folder; `None` is the folder `index` in the run, or the test images of
            the run if there is none.
        k: number of neighbours to show, or all images if they are fewer.
        max_upload_mb: largest file that is taken, in MB of 10^6 bytes.
        allowed_hosts: host names that the page is reached by, besides those of this machine's
            loopback and the address that a connection came in on.

    Returns:
        an ASGI app.

    Raises:
        FileNotFoundError: if the run or the index that is named is not there.
        ValueError: if one of them is damaged, they do not belong together, or a number is out of
            range.

    Example:
        >>> explore_app("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more; received {k}.")
    if not 0 < max_upload_mb < float("inf"):
        raise ValueError(f"max_upload_mb must be positive; received {max_upload_mb}.")
    model = RunModel(run)
    exploration = Exploration(ModelView(model), open_collection(model, index), k)
    return page_app(exploration, max_upload_mb, allowed_hosts)


def page_app(exploration, max_upload_mb=MAX_UPLOAD_MB, allowed_hosts=()):
    """The app that serves an `Exploration`; the other arguments are those of `explore_app`."""
    return Guard(_Page(exploration, int(max_upload_mb * 1e6)).app, allowed_hosts)


class Exploration:
    """What the page answers, as HTML.

    Args:
        view: `ModelView`.
        collection: what `open_collection` gives.
        k: number of neighbours to show, or all images if they are fewer.
    """

    def __init__(self, view, collection, k):
        self._view = view
        self._collection = collection
        self._k = min(k, len(collection))
        self._examples = collection.sample(_EXAMPLES)
        self.num_prototypes = view.num_prototypes if len(collection) else 0

    def page(self, max_bytes):
        """The page itself."""
        images, indices, names, labels = self._examples
        tiles = [array_tile(images.image(i), name) for i, name in zip(indices, names, strict=True)]
        examples = list(zip(tiles, labels, strict=True))
        return fragments.page(self._view, self._collection, examples, max_bytes)

    def search(self, content, name):
        """The places of an image, the bytes of a file, and its neighbours."""
        channels = self._view.model.embedder.input_shape[-1]
        check_image(content, name)
        return self._found(EncodedImages([content], [0], [""], channels=channels), [0], name)

    def search_example(self, number):
        """The places of one of the examples, and its neighbours."""
        images, indices, names, _ = self._examples
        return self._found(images, indices[[number]], names[number])

    @property
    def num_examples(self):
        """How many examples there are."""
        return len(self._examples.names)

    def _found(self, images, indices, name):
        batches = evaluation_batches(self._view.model.recipe, images, np.asarray(indices))
        seen = self._view.look(batches)
        found = self._collection.nearest(seen.embedding, self._k) if self._k else []
        return fragments.found(name, seen, self._view.pooling_name, found, self._collection)

    def browser(self, progress):
        """The browser of prototypes; it looks at many images."""
        return PrototypeBrowser(self._view, self._collection, progress)


class _Page:
    """The routes.

    One thread does all work with the model, so that one search is under way at a time, whatever was
    asked for. An upload is only ever in memory.
    """

    def __init__(self, exploration, max_bytes):
        self._exploration = exploration
        self._max_bytes = max_bytes
        self._html = exploration.page(max_bytes)
        self._worker = ThreadPoolExecutor(1, "gsp_tf.explore")
        self._uploads = asyncio.Semaphore(_UPLOADS)
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
        async with self._uploads:
            try:
                content = await asyncio.wait_for(self._body(request), _SECONDS)
            except (TimeoutError, ClientDisconnect) as error:
                raise HTTPException(408, "The file did not arrive.") from error
            return await self._work(self._exploration.search, content, name)

    async def _body(self, request):
        """The body of a request, which is refused as soon as it is too long."""
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > self._max_bytes:
                raise HTTPException(413, fragments.too_large(self._max_bytes))
        return bytes(body)

    async def _example(self, request):
        number = _below(self._exploration.num_examples, request)
        return await self._work(self._exploration.search_example, number)

    async def _prototypes(self, request):
        return await self._of_browser(fragments.prototypes)

    async def _patches(self, request):
        number = _below(self._exploration.num_prototypes, request)
        return await self._of_browser(lambda browser: fragments.patches(browser, number))

    async def _of_browser(self, answer):
        """What the browser of prototypes gives, or with code 202 how far it is."""
        if not self._exploration.num_prototypes:
            raise HTTPException(404)
        if self._browser is None:
            self._browser = self._worker.submit(self._exploration.browser, self._looked_at)
        await asyncio.to_thread(wait, [self._browser], _PATIENCE)
        if not self._browser.done():
            return HTMLResponse(fragments.progress(*self._seen), 202)
        return await self._work(lambda: answer(self._browser.result()))

    def _looked_at(self, done, total):
        if self._ended:
            raise RuntimeError("The page was closed.")
        self._seen = done, total

    async def _work(self, function, *arguments):
        """What a function gives, called when it is its turn."""
        loop = asyncio.get_running_loop()
        try:
            return HTMLResponse(await loop.run_in_executor(self._worker, function, *arguments))
        except UnreadableImageError as error:
            raise HTTPException(422, str(error)) from error
        except (ValueError, OSError, tf.errors.OpError) as error:
            raise HTTPException(500, reason(error)) from error

    @contextlib.asynccontextmanager
    async def _lifespan(self, app):
        yield
        self._ended = True
        self._worker.shutdown(wait=False, cancel_futures=True)


def _below(count, request):
    """The number in the path of a request, which has to be below a count."""
    number = request.path_params["number"]
    if number not in map(str, range(count)):
        raise HTTPException(404)
    return int(number)
