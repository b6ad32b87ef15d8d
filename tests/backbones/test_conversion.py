import dataclasses
import pickle
import sys
import zipfile

import keras
import numpy as np
import pytest
from digit_runs import run_command
from safetensors.numpy import save_file

from gsp_tf.backbones import conversion, convert_weights


def write_torch(path, arrays, in_zip=True):
    """A file as PyTorch writes it, which only the process imports that runs these tests."""
    import torch

    tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
    torch.save(tensors, path, _use_new_zipfile_serialization=in_zip)
    return path


def write_pickle(path, data, compression=zipfile.ZIP_STORED):
    """A zip archive of PyTorch with any pickle."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/version", "3\n")
    return path


WRITERS = {".pth": write_torch, ".safetensors": lambda path, arrays: save_file(arrays, path)}


def check_refused(path, message, architecture="bn_inception"):
    out = path.with_name("out.weights.h5")
    with pytest.raises(ValueError, match=message) as caught:
        convert_weights(path, architecture, out)
    assert str(caught.value).startswith(str(path))
    assert not out.exists() and not list(path.parent.glob(".*"))


@pytest.fixture(scope="module")
def stem(network):
    """The layers of BN-Inception before its modules, which are soon filled and written."""
    whole = network("bn_inception")
    part = keras.Model(whole.input, whole.get_layer("pool2_3x3_s2").output)
    return keras.models.clone_model(part)


@pytest.fixture
def state(stem, state_of, network, monkeypatch):
    """State dict of the stem, which takes the place of BN-Inception in conversions."""
    known = conversion._ARCHITECTURES
    for name, model in (("bn_inception", stem), ("googlenet", network("googlenet"))):
        again = dataclasses.replace(known[name], build=lambda shape, model=model: model)
        monkeypatch.setitem(known, name, again)
    return {k: v for k, v in state_of("bn_inception").items() if k.startswith("conv")}


@pytest.mark.parametrize("architecture", ["bn_inception", "googlenet"])
def test_heads_alone_are_left_out(converted, network, state_of, architecture):
    state, file = state_of(architecture), converted(architecture)
    assert file.result.path == file.path and file.result.num_tensors == len(state)
    assert file.result.left_out == file.heads
    count = network(architecture).count_params()
    assert count == sum(array.size for array in state.values())


@pytest.mark.parametrize("in_zip", [False, True])
def test_other_forms_of_the_same_tensors(tmp_path, state, stem, in_zip):
    """Vectors of shape (1, C), parameters, other precisions, memory orders and shared storages."""
    import torch

    tensors = {key: torch.from_numpy(array) for key, array in state.items()}
    tensors["conv1_7x7_s2_bn.weight"] = tensors["conv1_7x7_s2_bn.weight"][None]
    tensors["conv2_3x3.bias"] = torch.nn.Parameter(tensors["conv2_3x3.bias"].double())
    tensors["conv2_3x3_reduce.bias"] = tensors["conv2_3x3_reduce.bias"].half()
    tensors["conv1_7x7_s2.bias"] = tensors["conv1_7x7_s2.bias"].bfloat16()
    kernel = tensors["conv2_3x3.weight"].to(memory_format=torch.channels_last)
    tensors["conv2_3x3.weight"] = kernel
    tensors["conv2_3x3_bn.bias"] = torch.cat([torch.zeros(3), tensors["conv2_3x3_bn.bias"]])[3:]
    path = tmp_path / "a.pth"
    torch.save(tensors, path, _use_new_zipfile_serialization=in_zip)
    stem.set_weights([0 * weight for weight in stem.get_weights()])
    convert_weights(path, "bn_inception", tmp_path / "a.weights.h5")
    tolerances = {"conv2_3x3_reduce.bias": 1e-3, "conv1_7x7_s2.bias": 1e-2}
    for key, (variable, _) in conversion._variables(stem, str).items():
        expected = state[key].transpose(2, 3, 1, 0) if state[key].ndim == 4 else state[key]
        np.testing.assert_allclose(variable, expected, atol=tolerances.get(key, 0))


ZERO = np.zeros((2, 3), "float32")


@pytest.mark.parametrize("suffix", WRITERS)
def test_keys_and_shapes(tmp_path, state, suffix):
    path, without_bias = tmp_path / f"a{suffix}", state.copy()
    del without_bias["conv2_3x3.bias"]
    last, bias, nan = next(reversed(state)), "conv2_3x3_bn.bias", np.full(192, np.nan, "float32")
    flat = np.zeros((192, 64, 1, 1), "float32")
    for arrays, message in (
        (without_bias, "lacks conv2_3x3.bias.$"),
        (state | {"fc.bias": ZERO, "module.a.bias": ZERO}, "also has fc.bias, module.a.bias.$"),
        (state | {"conv2_3x3.num_batches_tracked": ZERO}, "also has conv2_3x3.num_batches_track"),
        (state | {"conv2_3x3.weight": flat}, r"shape \(192, 64, 3, 3\), received \(192, 64, 1,"),
        (state | {bias: np.zeros(192, "int64")}, f"{bias} must be of"),
        (state | {bias: nan}, f"{bias} has values that are not finite"),
        ({last: state[last]}, rf"lacks (\w+\.\w+, ){{5}}and {len(state) - 6} more.$"),
    ):
        WRITERS[suffix](path, arrays)
        check_refused(path, message)
    check_refused(path, "lacks conv1.bn.bias", "googlenet")


class Bomb:
    """Deletes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return exec, (f"import os; os.remove({str(self.path)!r})",)


@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("in_zip", [False, True])
def test_code_in_a_pickle_is_not_run(tmp_path, protocol, in_zip):
    witness, path = tmp_path / "witness", tmp_path / "a.pth"
    witness.touch()
    data = pickle.dumps({"conv1_7x7_s2.weight": Bomb(witness)}, protocol=protocol)
    if in_zip:
        write_pickle(path, data)
    else:
        header = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {})]
        path.write_bytes(b"".join(header) + data)
    check_refused(path, r"torch.load\(path, weights_only=True\) refuses it.$")
    assert witness.exists()
    pickle.loads(data)
    assert not witness.exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "holds a list, not a dict of tensors"),
        ({"state_dict": {"a": 1}}, "entry 'state_dict' is not a tensor but a dict"),
        ({(1, 2): 3}, "has a key that is not a name but a tuple"),
    ],
)
def test_files_of_other_things_than_tensors(tmp_path, value, message):
    check_refused(write_pickle(tmp_path / "a.pth", pickle.dumps(value, protocol=2)), message)


def test_an_archive_that_unpacks_to_more_than_the_file_has(tmp_path):
    path = write_pickle(tmp_path / "a.pth", bytes(10_000), zipfile.ZIP_DEFLATED)
    check_refused(path, "its records claim more bytes than the file has")


@pytest.mark.parametrize("in_zip", [False, True])
def test_damaged_files(tmp_path, state, in_zip):
    path = tmp_path / "a.pth"
    content = write_torch(path, state, in_zip).read_bytes()
    version = content.replace(b"M\xe9\x03", b"M\xea\x03", 1)
    damages = [b"", b"PK\x03\x04 and no more", content[: len(content) // 2]]
    for damaged in damages if in_zip else [*damages, content[:-1], version]:
        path.write_bytes(damaged)
        check_refused(path, "is damaged, or not a state dict")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")
    check_refused(path, "is damaged, or not a state dict")


def test_pytorch_reads_its_own_files_alone(tmp_path, state, monkeypatch):
    path = write_torch(tmp_path / "a.pth", state)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"a.pth, and it is not installed: pip install .*torch"):
        convert_weights(path, "bn_inception", tmp_path / "a.weights.h5")
    path = tmp_path / "a.safetensors"
    save_file(state, path)
    assert convert_weights(path, "bn_inception", tmp_path / "a.weights.h5").num_tensors
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"a.safetensors, .* pip install safetensors"):
        convert_weights(path, "bn_inception", tmp_path / "b.weights.h5")


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file .*missing.pth"):
        convert_weights(tmp_path / "missing.pth", "googlenet", tmp_path / "a.weights.h5")
    assert not list(tmp_path.iterdir())


def test_command(tmp_path, state, capsys):
    arrays = {**state, "last_linear.bias": np.zeros(7, "float32")}
    path, out = write_torch(tmp_path / "a.pth", arrays), tmp_path / "b.weights.h5"
    arguments = "convert-weights", path, "--architecture", "bn_inception", "--out", out
    assert run_command(*arguments) == 0 and out.is_file()
    printed = capsys.readouterr().out
    assert f"{out}: {len(state)} tensors of bn_inception\n" in printed
    assert "Left out, because the backbone lacks them: last_linear.bias\n" in printed
    before = out.read_bytes()
    path.write_bytes(b"nothing")
    assert run_command(*arguments) == 1
    assert "is damaged, or not a state dict" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.pth", "b.weights.h5"]
