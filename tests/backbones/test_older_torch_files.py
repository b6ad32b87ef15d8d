"""State dicts in PyTorch's format before version 1.6."""

import importlib
import io
import pickle

import numpy as np
import pytest

from gsp_tf.backbones._torch_file import TorchFile

MAGIC = 0x1950A86A20F9469CFC6C


@pytest.fixture(scope="module")
def torch():
    """PyTorch, which only the process imports that runs these tests."""
    return importlib.import_module("torch")


def written(torch, in_zip):
    """The bytes of a file as PyTorch writes it; two of its tensors share a storage."""
    shared = torch.arange(6, dtype=torch.float32)
    stream = io.BytesIO()
    state = {
        "a.weight": shared[:4].reshape(2, 2),
        "b.weight": shared[4:],
        "c": torch.nn.Parameter(torch.tensor([[1.5, 2.5]], dtype=torch.float64)),
        "d": torch.tensor(7),
        "e": torch.ones(2, 3).to(memory_format=torch.contiguous_format).T,
    }
    torch.save(state, stream, _use_new_zipfile_serialization=in_zip)
    return stream.getvalue()


@pytest.fixture
def content(torch):
    return written(torch, in_zip=False)


def opened(tmp_path, content):
    path = tmp_path / "a.pth"
    path.write_bytes(content)
    return TorchFile(path)


@pytest.mark.parametrize("in_zip", [False, True])
def test_every_tensor_is_read(torch, tmp_path, in_zip):
    content = written(torch, in_zip)
    expected = torch.load(io.BytesIO(content), weights_only=True)
    with opened(tmp_path, content) as file:
        assert set(file.shapes) == set(expected)
        for name, tensor in expected.items():
            value = file.read(name)
            assert value.shape == file.shapes[name] == tuple(tensor.shape)
            np.testing.assert_array_equal(value, tensor.detach().numpy(), strict=True)


def python_2(value):
    """The instructions by which Python 2 pickles names, numbers, and lists of them."""
    if isinstance(value, str):
        return b"U" + bytes([len(value)]) + value.encode()
    if isinstance(value, int):
        return b"K" + bytes([value])
    if isinstance(value, bytes):
        return value
    return b"](" + b"".join(map(python_2, value)) + b"e"


def test_a_file_of_python_2_and_pytorch_0_3(torch, tmp_path):
    """Names are byte strings, the dict comes from a list of pairs, tensors have no version."""
    storage = b"(" + python_2("storage") + b"ctorch\nFloatStorage\n"
    storage += python_2("94") + python_2("cpu") + python_2(3) + b"NtQ"
    call = b"ctorch._utils\n_rebuild_tensor\n"
    tensor = call + b"(" + storage + python_2(0) + b"K\x03\x85" + b"K\x01\x85" + b"tR"
    state = b"ccollections\nOrderedDict\n" + python_2([[b"U\x01w", tensor]]) + b"\x85R"
    header = b"".join(pickle.dumps(value, 2) for value in (MAGIC, 1001, {"little_endian": True}))
    values = np.array([0.5, -1.0, 2.0], "<f4")
    content = header + b"\x80\x02" + state + b"." + pickle.dumps(["94"], 2)
    content += len(values).to_bytes(8, "little") + values.tobytes()
    assert list(torch.load(io.BytesIO(content), weights_only=False)) == ["w"]
    with opened(tmp_path, content) as file:
        np.testing.assert_array_equal(file.read("w"), values)


class Bomb:
    """Deletes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return exec, (f"import os; os.remove({str(self.path)!r})",)


@pytest.mark.parametrize("place", range(5))
def test_no_pickle_is_run(tmp_path, place):
    witness = tmp_path / "witness"
    witness.touch()
    values = [MAGIC, 1001, {"little_endian": True}, {}, []]
    values[place] = Bomb(witness)
    content = b"".join(pickle.dumps(value, 2) for value in values)
    with pytest.raises(ValueError, match="exec', which no state dict has|neither of PyTorch's"):
        opened(tmp_path, content)
    assert witness.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c[:-1], "its storages claim more bytes than the file has"),
        (lambda c: c[: len(c) // 2], "pickle is damaged|storages|PyTorch"),
        (lambda c: c.replace(b"M\xe9\x03", b"M\xea\x03", 1), "version of PyTorch's format is 1002"),
        (lambda c: c.replace(b"FloatStorage", b"QuatStorage\n", 1), "torch QuatStorage', which no"),
        (lambda c: c.replace(b"_rebuild_tensor_v2", b"_rebuild_tensor_v9"), "_v9', which no state"),
    ],
    ids=["end", "half", "version", "storage", "function"],
)
def test_damaged_files(tmp_path, content, change, message):
    with pytest.raises(ValueError, match=message) as caught:
        opened(tmp_path, change(content))
    assert str(caught.value).startswith(str(tmp_path / "a.pth"))


def test_storages_are_those_of_the_pickle(tmp_path, content):
    start = content.index(b"\x80\x02]")
    stream = io.BytesIO(content)
    stream.seek(start)
    records, end = pickle.load(stream), stream.tell()
    for changed in (records[1:], [*records, "7"], records[:-1] + [7], {}, records * 2):
        with pytest.raises(ValueError, match="list of storages differs from"):
            opened(tmp_path, content[:start] + pickle.dumps(changed, 2) + content[end:])
    longer = content[:end] + (2**40).to_bytes(8, "little") + content[end + 8 :]
    with pytest.raises(ValueError, match="has 1,099,511,627,776 elements and claims"):
        opened(tmp_path, longer)


def test_nested_lists_take_no_time(tmp_path):
    """Each of 30 lists holds the one before it twice: as text they would fill the memory."""
    doubled = [b"](h%ch%ceq%c" % (level, level, level + 1) for level in range(29)]
    nested = b"\x80\x02](]q\x00" + b"".join(doubled) + b"e."
    with pytest.raises(ValueError, match="version of PyTorch's format is a list, not 1001"):
        opened(tmp_path, pickle.dumps(MAGIC, 2) + nested)


def test_a_large_pickle_is_not_read(tmp_path):
    header = b"".join(pickle.dumps(value, 2) for value in (MAGIC, 1001, {}))
    with pytest.raises(ValueError, match="a pickle has more than 1,048,576 bytes"):
        opened(tmp_path, header + b"\x80\x02X\x80\x84\x1e\x00" + b"a" * 2_000_000 + b".")
