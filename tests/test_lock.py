import threading

import pytest

from gsp_tf._lock import locked


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
        with locked("run"):  # the thread that has it
            pass
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert refused == [True]
    write()
    assert refused == [True]


def test_an_error_leaves_no_empty_folders(tmp_path):
    with pytest.raises(RuntimeError), locked(tmp_path / "runs" / "mine"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_what_was_there(tmp_path):
    with pytest.raises(RuntimeError), locked(tmp_path):
        raise RuntimeError
    with pytest.raises(RuntimeError), locked(tmp_path / "run"):
        (tmp_path / "run" / "file").touch()
        raise RuntimeError
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".lock", ".lock", "file", "run"]


def test_an_error_is_told_though_another_process_has_made_something_beside(tmp_path):
    with pytest.raises(RuntimeError), locked(tmp_path / "runs" / "mine"):
        (tmp_path / "runs" / "other").mkdir()
        raise RuntimeError
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["other"]
