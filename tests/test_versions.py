"""The versions that files note, whichever distribution brought a package."""

from importlib import metadata

import tensorflow

from gsp_tf import __version__, _metadata


def test_a_package_of_another_distribution_has_its_version(monkeypatch):
    expected = _metadata.versions("tensorflow", "numpy")
    assert expected["gsp_tf"] == __version__ and expected["numpy"] == metadata.version("numpy")

    def version(name):  # as where tensorflow-cpu is installed
        if name == "tensorflow":
            raise metadata.PackageNotFoundError(name)
        return metadata.version(name)

    monkeypatch.setattr(_metadata, "version", version)
    found = _metadata.versions("tensorflow", "numpy")
    assert found == expected | {"tensorflow": tensorflow.__version__}
