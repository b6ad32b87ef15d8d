import shutil

import pytest
from embedded import KINDS, random_embeddings, write_embeddings

from gsp_tf.search import build_index


@pytest.fixture(scope="package")
def embeddings():
    return random_embeddings(300)


@pytest.fixture(scope="package")
def folder(embeddings, tmp_path_factory):
    """Folder of 300 embeddings, with a label for every second one."""
    path = tmp_path_factory.mktemp("embedded") / "out"
    labels = [None if i % 2 else f"class {i // 10}" for i in range(300)]
    return write_embeddings(path, embeddings, labels=labels)


@pytest.fixture(scope="package")
def indexes(folder, tmp_path_factory):
    """An index of each kind, to be copied."""
    path = tmp_path_factory.mktemp("indexes")
    return {kind: build_index(folder, path / kind, kind).path for kind in KINDS}


@pytest.fixture
def run(prepared_run, tmp_path):
    """A run of one's own with embeddings and an index."""
    return shutil.copytree(prepared_run, tmp_path / "run")


@pytest.fixture
def built(indexes, tmp_path):
    """Function from a kind to the folder of an index of one's own."""
    return lambda kind: shutil.copytree(indexes[kind], tmp_path / "index")
