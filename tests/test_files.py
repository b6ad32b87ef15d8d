import pytest

from gsp_tf.files import new_folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_folder_appears_when_it_is_whole(tmp_path):
    with new_folder(tmp_path / "deep" / "new") as temporary:
        (temporary / "part").mkdir()
        (temporary / "part" / "file").write_text("whole")
        assert temporary.parent == tmp_path / "deep" and names(temporary.parent) != ["new"]
    assert names(tmp_path / "deep") == ["new"]
    assert (tmp_path / "deep" / "new" / "part" / "file").read_text() == "whole"


def test_an_error_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), new_folder(tmp_path / "new") as temporary:
        (temporary / "file").touch()
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
