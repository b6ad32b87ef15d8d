import io
import os
import tarfile
import zipfile
from hashlib import md5

import keras
import pytest

from gsp_tf.data.datasets import _official as download
from gsp_tf.data.datasets._official import Remote, download_file

FILES = {"birds/list.txt": b"gull\nwren\n", "birds/deep/a.bin": bytes(range(256)) * 400}


def write_tar(path, files=FILES):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def write_zip(path, files=FILES):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


@pytest.fixture(params=[("birds.tgz", write_tar), ("birds.zip", write_zip)], ids=["tar", "zip"])
def served(request, tmp_path):
    """Function that publishes an archive and returns its `Remote`."""
    name, write = request.param

    def serve(files=FILES, shorten=0):
        path = tmp_path / "server" / name
        path.parent.mkdir()
        write(path, files)
        content = path.read_bytes()
        path.write_bytes(content[: len(content) - shorten])
        return Remote(path.as_uri(), md5(path.read_bytes()).hexdigest(), folder="birds")

    return serve


def contents(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_file_of_another_checksum_is_kept_and_named(served, tmp_path):
    remote = served()
    (tmp_path / remote.name).write_bytes(b"mine")
    with pytest.raises(ValueError, match=f"its MD5 is {md5(b'mine').hexdigest()}, expected"):
        download_file(remote, tmp_path)
    assert (tmp_path / remote.name).read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda remote: {"md5": "0" * 32}, "could not be downloaded.*hash does not match"),
        (lambda remote: {"url": f"{remote.url}x"}, r"could not be downloaded.*birds\.\w+ by hand"),
    ],
)
def test_a_download_that_fails_leaves_nothing(served, tmp_path, change, message):
    remote = served()
    with pytest.raises(OSError, match=message):
        download_file(remote._replace(**change(remote)), tmp_path / "data")
    assert contents(tmp_path / "data") == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError])
def test_a_stopped_download_is_not_taken_for_whole(served, tmp_path, monkeypatch, interruption):
    def stop(name, origin, cache_dir, **_):
        with open(os.path.join(cache_dir, name), "wb") as file:
            file.write(b"half")
        raise interruption

    remote, data = served(), tmp_path / "new" / "data"
    with monkeypatch.context() as patch, pytest.raises(interruption):
        patch.setattr(keras.utils, "get_file", stop)
        download_file(remote, data)
    assert contents(data) == []
    assert download_file(remote, data) == data / "birds"
    assert {name: (data / name).read_bytes() for name in FILES} == FILES


def test_stopped_unpacking_leaves_no_folder_and_continues_later(served, tmp_path, monkeypatch):
    remote, data = served(), tmp_path / "data"

    def stop(archive, folder):
        os.makedirs(os.path.join(folder, "birds"))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(download, "_extract", stop)
        download_file(remote, data)
    assert contents(data) == [remote.name]
    download_file(remote._replace(url=f"https://example.invalid/{remote.name}"), data)
    assert contents(data) == sorted(["birds", remote.name])


def test_a_truncated_archive(served, tmp_path):
    remote, data = served(shorten=60), tmp_path / "data"
    with pytest.raises(ValueError, match=r"birds\.\w+ is broken.*Remove it and download it again"):
        download_file(remote, data)
    assert contents(data) == [remote.name]


def test_absolute_names_backslashes_and_links_in_archives(tmp_path):
    def unpack(name):
        checksum = md5((tmp_path / name).read_bytes()).hexdigest()
        return download_file(Remote(name, checksum, folder="birds"), tmp_path)

    for name in (str(tmp_path / "evil.txt"), "..\\evil.txt"):
        write_zip(tmp_path / "birds.zip", {**FILES, name: b"evil"})
        with pytest.raises(ValueError, match="outside of the folder"):
            unpack("birds.zip")
    with tarfile.open(tmp_path / "birds.tgz", "w:gz") as archive:
        link = tarfile.TarInfo("birds/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
    with pytest.raises(ValueError, match="broken or unsafe"):
        unpack("birds.tgz")
    assert contents(tmp_path) == ["birds.tgz", "birds.zip"]


def test_another_process_unpacks_first(served, tmp_path, monkeypatch):
    remote, data = served(), tmp_path / "data"
    extract = download._extract

    def overtaken(archive, folder):
        extract(archive, folder)
        (data / "birds").mkdir()
        (data / "birds" / "theirs.txt").touch()

    monkeypatch.setattr(download, "_extract", overtaken)
    assert download_file(remote, data) == data / "birds"
    assert contents(data) == sorted(["birds", remote.name])
    assert contents(data / "birds") == ["theirs.txt"]
