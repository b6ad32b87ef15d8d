import errno
import os
import threading

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from faults import kill_while_writing, largest_file

from gsp_tf._files import (
    DiskFullError,
    advising,
    full_disk,
    hashing,
    locked,
    new_folder,
    reason,
    remove_partial,
    replace_text,
    replacing,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_folder_appears_when_it_is_whole(tmp_path):
    with new_folder(tmp_path / "deep" / "new") as temporary:
        (temporary / "part").mkdir()
        (temporary / "part" / "file").write_text("whole")
        assert "new" not in names(tmp_path / "deep")
    assert names(tmp_path / "deep") == ["new"]
    assert (tmp_path / "deep" / "new" / "part" / "file").read_text() == "whole"


@pytest.mark.parametrize("write", [new_folder, replacing])
def test_an_error_leaves_nothing(tmp_path, write):
    with pytest.raises(RuntimeError), write(tmp_path / "new") as temporary:
        (temporary / "file" if write is new_folder else temporary).touch()
        raise RuntimeError
    assert names(tmp_path) == []


@pytest.mark.parametrize("meanwhile", [False, True])
def test_what_exists_is_kept(tmp_path, meanwhile):
    if not meanwhile:
        (tmp_path / "new").write_text("old")
    with pytest.raises(FileExistsError, match="new exists"), new_folder(tmp_path / "new"):
        (tmp_path / "new").write_text("old")
        assert meanwhile
    assert names(tmp_path) == ["new"] and (tmp_path / "new").read_text() == "old"


@pytest.mark.parametrize("write", ["new_folder", "replacing"])
def test_what_a_killed_process_wrote_goes_with_the_next_writing_or_lock(tmp_path, write):
    kill_while_writing(write, tmp_path / "out")
    assert names(tmp_path) == [".out.partial"]
    if write == "replacing":
        replace_text(tmp_path / "out", "whole")
    else:
        with new_folder(tmp_path / "another"):
            pass
    assert ".out.partial" not in names(tmp_path)
    kill_while_writing(write, tmp_path / "again")
    assert ".again.partial" in names(tmp_path)
    with locked(tmp_path):
        assert ".again.partial" not in names(tmp_path)


def test_what_another_writer_writes_is_left(tmp_path):
    path = tmp_path / "note.txt"
    with replacing(path) as first, locked(tmp_path):
        first.write_text("first")
        remove_partial(tmp_path)
        with replacing(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert names(tmp_path) == [".lock", "note.txt"]


def test_a_file_is_on_the_disk_before_its_name_is(tmp_path, monkeypatch):
    """After a crash of the machine, either the old or the new file is there."""
    done = []
    replace, fsync = os.replace, os.fsync
    monkeypatch.setattr("os.replace", lambda *paths: (done.append("rename"), replace(*paths)))

    def note(descriptor):
        done.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", note)
    replace_text(tmp_path / "note.txt", "hello")
    assert done == ["note.txt", "rename", tmp_path.name]


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; expected a file to write"):
        replace_text(tmp_path, "text")


def write_index(path):
    index = faiss.index_factory(8, "IDMap,Flat")
    index.add_with_ids(np.ones((500, 8), "float32"), np.arange(500))
    with hashing(path) as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))


def write_table(path):
    with replacing(path) as temporary:
        pq.write_table(pa.table({"id": np.arange(500)}), temporary)


def write_arrays(path):
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, a=np.arange(500), b=np.arange(500))


@pytest.mark.parametrize("write", [write_index, write_table, write_arrays])
def test_a_file_is_whole_or_an_error_wherever_the_limit_bites(tmp_path, write):
    """The limit also hits the last byte, which a library writes when it closes its file."""
    path = tmp_path / "file"
    write(path)
    whole = path.read_bytes()
    path.write_text("old")
    for size in (0, 1, len(whole) // 2, len(whole) - 100, len(whole) - 1):
        with pytest.raises(DiskFullError), largest_file(size):
            write(path)
        assert path.read_text() == "old" and names(tmp_path) == ["file"]
    with largest_file(len(whole)):
        write(path)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "the disk is full"),
        (RuntimeError("close error: Disk quota exceeded"), "the quota of the disk is used up"),
        (ValueError("Unable to write (errno = 28, 'No space left on device')"), "the disk is full"),
    ],
)
def test_a_full_disk_is_named_whichever_library_finds_it(tmp_path, error, what):
    with pytest.raises(DiskFullError) as found, replacing(tmp_path / "model.keras") as temporary:
        temporary.write_bytes(bytes(1234))
        raise error
    told = f"model.keras cannot be written: {what}. It needs more than the 1,234"
    assert told in str(found.value)
    assert names(tmp_path) == []


def test_the_reason_of_an_error_of_tensorflow_names_no_node():
    error = tf.errors.ResourceExhaustedError(None, None, "{{node while/body}} OOM [Op:Add]\nHint")
    assert reason(error) == "OOM"


def test_the_advice_after_a_full_disk_appears_once():
    with (
        pytest.raises(DiskFullError) as found,
        advising(lambda: "Continue outside."),
        advising(lambda: "Continue inside."),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "logs")
    assert str(found.value) == "logs cannot be written: the disk is full. Continue outside."
    with pytest.raises(ValueError, match="other"), advising(lambda: "Continue."):
        raise ValueError("other")
    assert full_disk(OSError(errno.EACCES, os.strerror(errno.EACCES))) is None


def test_a_checksum_covers_the_bytes_that_were_written(tmp_path):
    with hashing(tmp_path / "a") as file:
        file.write(b"hel")
        file.write(memoryview(b"lo"))
    assert (file.size, file.sha256[:8]) == (5, "2cf24dba")
    assert (tmp_path / "a").read_bytes() == b"hello"


@pytest.mark.parametrize("is_killed", [False, True])
def test_another_process_is_refused_until_this_one_has_ended(tmp_path, locked_elsewhere, is_killed):
    with locked_elsewhere(tmp_path / "run") as other:
        with (
            pytest.raises(BlockingIOError, match="Another process is writing .*run. Wait"),
            locked(tmp_path / "run"),
        ):
            pass
        if is_killed:
            other.kill()
    assert (tmp_path / "run" / ".lock").exists()
    with locked(tmp_path / "run"):
        (tmp_path / "run" / "mine").touch()


def test_other_names_of_a_folder_are_the_same_folder(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    refused = []

    def write():
        try:
            with locked("link"):
                pass
        except BlockingIOError:
            refused.append(True)

    with locked(tmp_path / "run"):
        with locked("run"):  # the thread that holds the lock
            pass
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert refused == [True]
    write()
    assert refused == [True]
