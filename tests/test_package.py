"""The wheel and the sdist: what is in them, and what they say about the library."""

import re
import shutil
import tarfile
import tomllib
import zipfile
from pathlib import Path

import processes
import pytest
import yaml

import gsp_tf

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
BUILD = """
import sys
from hatchling import build
getattr(build, f"build_{sys.argv[1]}")(sys.argv[2])
"""


def build(kind, source, out):
    """The file that the build backend of pyproject.toml makes."""
    out.mkdir(exist_ok=True)
    processes.run_fresh("-c", BUILD, kind, out, folder=source)
    return next(out.glob("*.whl" if kind == "wheel" else "*.tar.gz"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    generated = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "gsp_tf", folder / "source/gsp_tf", ignore=generated)
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, folder / "source")
    return build("sdist", folder / "source", folder / "dist")


@pytest.fixture(scope="module")
def wheel(sdist):
    """The wheel that is built from the sdist, as by pip where there is no wheel."""
    with tarfile.open(sdist) as archive:
        archive.extractall(sdist.parent, filter="data")
    source = sdist.parent / sdist.name.removesuffix(".tar.gz")
    with zipfile.ZipFile(build("wheel", source, sdist.parent)) as archive:
        yield archive


def test_the_wheel_holds_the_library_and_nothing_else(wheel):
    ours = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "gsp_tf").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = set(wheel.namelist())
    assert {name for name in names if ".dist-info/" not in name} == ours
    assert {"gsp_tf/visual/tuning.html", "gsp_tf/recipes/demo.yaml"} <= ours
    assert any(name.endswith("LICENSE") for name in names)
    (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
    assert b"gsp-tf = gsp_tf.cli:main" in wheel.read(entry_points)


def test_the_sdist_holds_what_a_reader_wants(sdist):
    with tarfile.open(sdist) as archive:
        names = {Path(name).name for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md"} <= names


def test_one_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest, date = re.search(r"^## (\S+) \((\S+)\)$", changes, re.M).groups()
    assert citation["version"] == newest == gsp_tf.__version__
    assert str(citation["date-released"]) == date


def test_the_demo_installs_what_the_library_needs_and_no_more():
    def names(lines):
        found = {re.match(r"[\w-]+", line)[0] for line in lines if line[0] not in "#-"}
        return found - {"tensorflow-cpu"}

    files = [ROOT / f"requirements{end}.txt" for end in ("", "-demo")]
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    assert names(lines) == names(PROJECT["project"]["dependencies"])


def test_the_page_of_dependencies_has_the_licence_of_each():
    page = (ROOT / "docs/dependencies.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ([\w.-]+) \| .* \| (.+) \|$", page, re.M))
    extras = PROJECT["project"]["optional-dependencies"].values()
    lines = [*PROJECT["project"]["dependencies"], *(line for extra in extras for line in extra)]
    assert {re.match(r"[\w.-]+", line)[0] for line in lines} == set(rows) - {"package", "---"}
