"""The page as an app of Gradio."""

import html
from pathlib import Path

import gradio

from gsp_tf.data import UnreadableImageError, check_image
from gsp_tf.explore import fragments
from gsp_tf.explore.collection import NoImages, open_collection
from gsp_tf.explore.patches import PrototypeBrowser
from gsp_tf.explore.upload import uploaded_file
from gsp_tf.explore.view import ModelView
from gsp_tf.serving.run_model import RunModel

SECONDS_KEPT = 600
# What is chosen while an answer is under way is answered after it; by default Gradio drops it.
LATEST = "always_last"


def explore_app(run, index=None, k=10):
    """The page of `explore_run` as an app of Gradio, to be mounted in a server of one's own.

    The model is loaded, and without an index the test images of the run are embedded, before it
    returns. Uploads are deleted after ten minutes, and when the server stops.

    Args:
        run: run folder.
        index: `Index` or its folder; `None` is the folder `index` in the run, or the test images of
            the run if there is none.
        k: number of neighbours to show, or all images if they are fewer.

    Returns:
        `gradio.Blocks`.

    Raises:
        FileNotFoundError: if the run or the index that is named is not there.
        ValueError: if one of them is damaged, they do not belong together, or `k` is below 1.

    Example:
        >>> explore_app("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more; received {k}.")
    model = RunModel(run)
    return _page(_Exploration(ModelView(model), open_collection(model, index), k))


class _Exploration:
    """What the page answers."""

    def __init__(self, view, collection, k):
        self.view = view
        self.collection = collection
        self._k = min(k, len(collection))
        self._browser = None

    def search(self, uploaded):
        """HTML about the places of an image, and about its neighbours."""
        if uploaded is None:
            return "", ""
        try:
            check_image(uploaded.path)
        except UnreadableImageError as error:
            return fragments.notice(f"{uploaded.name}: {error.reason}"), ""
        seen = self.view.look(uploaded.path)
        places = fragments.image_places(uploaded.name, seen, self.view.pooling_name)
        if isinstance(self.collection, NoImages):
            return places, fragments.notice(self.collection.summary)
        found = self.collection.nearest(seen.embedding, self._k)
        return places, fragments.neighbours(found, self.collection)

    def choices(self, chosen, progress):
        """The prototypes by their share of all embeddings, and which is chosen."""
        browser = self._opened(progress)
        order = (-browser.means).argsort(kind="stable").tolist()
        labels = [f"{i} ({100 * browser.means[i]:.1f} % of all embeddings)" for i in order]
        return list(zip(labels, order, strict=True)), order[0] if chosen is None else chosen

    def patches(self, prototype, progress):
        """HTML about a prototype."""
        browser = self._opened(progress)
        patches = browser.patches(prototype)
        return fragments.strongest_patches(prototype, patches, browser.num_images)

    def _opened(self, progress):
        """The browser of prototypes, which looks at the images when it is first asked for."""
        if self._browser is None:
            self._browser = PrototypeBrowser(self.view, self.collection, progress)
        return self._browser


def _page(exploration):
    """The components, and what they do."""
    view, collection = exploration.view, exploration.collection
    name = view.model.recipe.name
    once = {"concurrency_limit": 1, "concurrency_id": "model", "api_visibility": "private"}
    with gradio.Blocks(
        title=f"{name} – gsp_tf",
        analytics_enabled=False,
        delete_cache=(SECONDS_KEPT, SECONDS_KEPT),
    ) as page:
        gradio.HTML(f"<h2>{html.escape(name)}</h2>")
        with gradio.Tab("Search"):
            with gradio.Row():
                with gradio.Column(scale=1, min_width=280):
                    upload = gradio.Image(
                        label="Image", sources=["upload", "clipboard"], buttons=[], height=280
                    )
                with gradio.Column(scale=3, min_width=320):
                    places = _html(elem_id="places")
            neighbours = _html(elem_id="neighbours")

            def search(payload):
                return exploration.search(uploaded_file(payload, upload.GRADIO_CACHE))

            # Not read by Gradio: gsp_tf.data limits the pixels and the formats.
            upload.input(
                search, upload, [places, neighbours], preprocess=False, trigger_mode=LATEST, **once
            )
        with gradio.Tab("Prototypes") as tab:
            if not view.num_prototypes:
                _html(fragments.notice(fragments.no_prototypes(view.pooling_name)))
            elif isinstance(collection, NoImages):
                _html(fragments.notice(collection.summary))
            else:
                _browser(exploration, tab, once)
    # Gradio takes paths of a request that were never uploaded until it is told that an app runs,
    # which mounting one does not do.
    page.has_launched = True
    return page


def _browser(exploration, tab, once):
    """The components that browse prototypes, filled when their tab is first opened."""
    prototype = gradio.Dropdown(label="Prototype", choices=[], elem_id="prototype")
    patches = _html(elem_id="patches")

    def open_tab(chosen, progress=gradio.Progress()):  # noqa: B008
        choices, chosen = exploration.choices(chosen, _reporter(progress))
        shown = exploration.patches(chosen, _reporter(progress))
        return gradio.Dropdown(choices=choices, value=chosen), shown

    def choose(chosen, progress=gradio.Progress()):  # noqa: B008
        return exploration.patches(chosen, _reporter(progress))

    tab.select(open_tab, prototype, [prototype, patches], show_progress_on=patches, **once)
    prototype.input(choose, prototype, patches, trigger_mode=LATEST, **once)


def _reporter(progress):
    """What tells Gradio's progress bar how many images were looked at."""
    return lambda done, total: progress((done, total), desc="Looking at images", unit="images")


def _html(value="", **options):
    style = Path(__file__).with_name("style.css").read_text("utf-8")
    return gradio.HTML(
        value, css_template=style, apply_default_css=False, js_on_load=None, **options
    )
