import contextlib
import http.client
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from embedded import save_run

from gsp_tf.search import RunModel, build_index, embed_images
from gsp_tf.search.explore import server
from gsp_tf.search.explore._model_view import ModelView
from gsp_tf.search.explore._page import Exploration, page_app
from gsp_tf.search.explore._searched import open_images


@pytest.fixture(scope="package", autouse=True)
def servers_end_at_once():
    """Servers of this process do not wait for requests that are under way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "_SECONDS_TO_END", 0.05)
        yield


@pytest.fixture(scope="package", autouse=True)
def pairs_are_blank():
    """Pictures of pairs of images cost nothing; those of a search page are not blank."""
    blank = np.zeros((8, 17, 3), np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "gsp_tf.search.explore._model_view.pair_pictures",
            lambda tokens, images: [blank] * (len(images) - 1),
        )
        yield


@pytest.fixture(scope="session")
def run(tmp_path_factory, images):
    """Run folder of an untrained model with GSP of four prototypes, without an index."""
    path, pooling = tmp_path_factory.mktemp("runs") / "run", "{name: gsp, num_prototypes: 4}"
    return save_run(path, images, pooling)


@pytest.fixture(scope="session")
def model(run):
    return RunModel(run)


@pytest.fixture(scope="session")
def view(model):
    return ModelView(model)


@pytest.fixture(scope="session")
def test_images(model):
    """The images that are searched without an index."""
    return open_images(model)


@pytest.fixture(scope="session")
def index(run, images, tmp_path_factory):
    """Folder of an index of all images, which is not in the run."""
    folder = tmp_path_factory.mktemp("index")
    return build_index(embed_images(run, [images], folder / "embeddings"), folder / "index").path


@pytest.fixture(scope="session")
def exploration(view, test_images):
    """The answers of the page of the test images, with three neighbours."""
    return Exploration(view, test_images, 3)


class Asked:
    """Instead of an `Exploration`: counts questions, and how many are answered at a time."""

    num_examples = num_prototypes = 2

    def __init__(self):
        self.count = self.active = self.most = 0
        self.started, self.release = threading.Event(), threading.Event()
        self.release.set()

    def work(self, *_):
        self.count += 1
        self.active += 1
        self.most = max(self.most, self.active)
        self.started.set()
        time.sleep(0.005)
        self.release.wait()
        self.active -= 1
        return "answered"

    search = search_example = work

    def page(self, max_bytes):
        return "page"

    def browser(self, progress):
        self.work()
        return SimpleNamespace(means=np.array([0.4, 0.6]), num_images=3, patches=self.patches)

    def patches(self, prototype):
        self.work()
        return []


@pytest.fixture(scope="module")
def asked():
    return Asked()


@pytest.fixture(scope="module")
def port(asked, serve):
    """Port of a page of the answers of `asked`, which is served in this process."""
    return serve(page_app(asked))


@pytest.fixture(scope="module")
def serve():
    """Function that serves an app in a thread and gives the port."""
    started = []

    def start(app, host="127.0.0.1"):
        listener = server._listening(host, None)
        running = server._server(app)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        started.append((running, thread, listener))
        return listener.getsockname()[1]

    yield start
    for running, *_ in started:
        running.should_exit = True
    for _, thread, listener in started:
        thread.join()
        listener.close()


@pytest.fixture(scope="session")
def ask():
    """Function that sends a request and gives the answer; its text is in `body`."""

    def send(port, path="/", method="POST", body=None, headers=None, host="127.0.0.1", **options):
        connection = http.client.HTTPConnection(host, port, timeout=120)
        headers = {"Host": f"localhost:{port}", **(headers or {})}
        with contextlib.closing(connection):
            connection.request(method, path, body, headers, **options)
            answer = connection.getresponse()
            answer.body = answer.read().decode()
        return answer

    return send
