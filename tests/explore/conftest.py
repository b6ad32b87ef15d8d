import pytest
from embedded import save_digits, save_run

from gsp_tf.explore.collection import open_collection
from gsp_tf.explore.view import ModelView
from gsp_tf.serving import build_index, embed_images
from gsp_tf.serving.run_model import RunModel


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """Handwritten digits as a folder of PNG files, 8 of each of 10 classes."""
    return save_digits(tmp_path_factory.mktemp("images") / "Ziffern é")


@pytest.fixture(scope="session")
def run(tmp_path_factory, images):
    """Run folder of an untrained model with GSP of four prototypes, without an index."""
    return save_run(tmp_path_factory.mktemp("runs") / "run", images, pooling="gsp")


@pytest.fixture(scope="session")
def model(run):
    return RunModel(run)


@pytest.fixture(scope="session")
def view(model):
    return ModelView(model)


@pytest.fixture(scope="session")
def test_images(model):
    """What is searched without an index."""
    return open_collection(model)


@pytest.fixture(scope="session")
def index(run, images, tmp_path_factory):
    """Folder of an index of all images, which is not in the run."""
    folder = tmp_path_factory.mktemp("index")
    return build_index(embed_images(run, [images], folder / "embeddings"), folder / "index").path
