import dataclasses
import io
import json
import pickle
import struct
import tracemalloc
import zipfile

import keras
import numpy as np
import pytest
from faults import largest_file
from safetensors.numpy import save_file

from gsp_tf import cli
from gsp_tf.backbones import conversion, convert_weights
from gsp_tf.backbones._safetensors_file import SafetensorsFile
from gsp_tf.backbones._torch_file import TorchFile
from gsp_tf.backbones._torch_pickle import read_tensors

STORAGES = {"f4": "FloatStorage", "f8": "DoubleStorage", "f2": "HalfStorage", "i8": "LongStorage"}
NAMES = {  # a convolution and its kernel, a normalisation and its prefix
    "bn_inception": (
        "conv1_7x7_s2",
        "conv1_7x7_s2.weight",
        "inception_5b_pool_proj_bn",
        "inception_5b_pool_proj_bn",
    ),
    "googlenet": (
        "conv1_conv",
        "conv1.conv.weight",
        "inception5b_branch4_1_bn",
        "inception5b.branch4.1.bn",
    ),
}


@dataclasses.dataclass
class Global:
    module: str
    name: str


@dataclasses.dataclass
class Persistent:
    description: tuple


@dataclasses.dataclass
class Call:
    function: Global
    arguments: tuple


def instructions(value):
    """The instructions by which the pickle of torch.save builds a value."""
    if isinstance(value, Global):
        return f"c{value.module}\n{value.name}\n".encode()
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        return b"\x8a\x08" + struct.pack("<q", value)
    if isinstance(value, str):
        return b"X" + struct.pack("<I", len(value.encode())) + value.encode()
    if isinstance(value, tuple):
        return b"(" + b"".join(map(instructions, value)) + b"t"
    if isinstance(value, Persistent):
        return instructions(value.description) + b"Q"
    if isinstance(value, Call):
        return instructions(value.function) + instructions(value.arguments) + b"R"
    items = b"".join(instructions(key) + instructions(item) for key, item in value.items())
    return instructions(ORDERED_DICT) + b"(" + items + b"u"


ORDERED_DICT = Call(Global("collections", "OrderedDict"), ())


def pickled(value):
    """A pickle of a state dict with the versions of its modules, as PyTorch keeps them."""
    metadata = b"}" + instructions("_metadata") + instructions({"": {"version": 1}}) + b"sb"
    return b"\x80\x02" + instructions(value) + (metadata if isinstance(value, dict) else b"") + b"."


def tensor(record, array, size=None, offset=0, shape=None, strides=None):
    """The call by which PyTorch's pickle makes a tensor."""
    kind = Global("torch", STORAGES[array.dtype.str[1:]])
    size = array.size if size is None else size
    shape = array.shape if shape is None else shape
    if strides is None:
        strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    storage = Persistent(("storage", kind, record, "cpu", size))
    arguments = (storage, offset, shape, strides, False, ORDERED_DICT)
    return Call(Global("torch._utils", "_rebuild_tensor_v2"), arguments)


def parameter(value):
    return Call(Global("torch._utils", "_rebuild_parameter"), (value, True, ORDERED_DICT))


def write_torch(path, arrays, tensors=None, data=None, compression=zipfile.ZIP_STORED):
    """A file as torch.save(state_dict, path) writes it, without PyTorch."""
    records = {str(i): array for i, array in enumerate(arrays.values())}
    if tensors is None:
        tensors = dict(zip(arrays, (tensor(*item) for item in records.items()), strict=True))
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickled(tensors) if data is None else data)
        archive.writestr("archive/byteorder", "little")
        for record, array in records.items():
            archive.writestr(f"archive/data/{record}", array.tobytes())
        archive.writestr("archive/version", "3\n")
    return path


def write_safetensors(path, arrays):
    save_file(arrays, path)
    return path


WRITERS = {".pth": write_torch, ".safetensors": write_safetensors}


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
    for name, model in (("bn_inception", stem), ("googlenet", network("googlenet"))):
        again = dataclasses.replace(
            conversion._ARCHITECTURES[name], build=lambda shape, model=model: model
        )
        monkeypatch.setitem(conversion._ARCHITECTURES, name, again)
    return {k: v for k, v in state_of("bn_inception").items() if k.startswith("conv")}


@pytest.mark.parametrize("architecture", NAMES)
def test_every_value_arrives(converted, network, state_of, architecture):
    state, file, model = state_of(architecture), converted(architecture), network(architecture)
    assert file.result.path == file.path and file.result.num_tensors == len(state)
    assert file.result.left_out == file.heads
    assert model.count_params() == sum(array.size for array in state.values())
    first, kernel, last, prefix = NAMES[architecture]
    found = model.get_layer(first).kernel
    np.testing.assert_array_equal(found, state[kernel].transpose(2, 3, 1, 0))
    last = model.get_layer(last)
    for value, suffix in (
        (last.gamma, "weight"),
        (last.beta, "bias"),
        (last.moving_mean, "running_mean"),
        (last.moving_variance, "running_var"),
    ):
        np.testing.assert_array_equal(value, state[f"{prefix}.{suffix}"])


@pytest.mark.parametrize("size", [0, 400_000])
def test_a_full_disk_is_found_before_anything_is_written(tmp_path, state, size, capfd):
    path, out = write_safetensors(tmp_path / "a.safetensors", state), tmp_path / "a.weights.h5"
    out.write_text("old")
    with pytest.raises(OSError) as caught, largest_file(size):
        convert_weights(path, "bn_inception", out)
    assert str(caught.value).startswith(f"{out} cannot be written: it would be larger than a file")
    assert out.read_text() == "old" and not list(tmp_path.glob(".*"))
    assert "Traceback" not in capfd.readouterr().err
    assert convert_weights(path, "bn_inception", out).num_tensors == len(state)
    needed = 4 * sum(array.size for array in state.values())
    assert size < needed < out.stat().st_size < needed + 4096 * len(state)


def test_other_forms_of_the_same_tensors(tmp_path, state, stem):
    """Vectors of shape (1, C), parameters, other precisions, memory orders and shared storages."""
    arrays, kernel = dict(state), state["conv2_3x3.weight"]
    arrays["conv1_7x7_s2_bn.weight"] = arrays["conv1_7x7_s2_bn.weight"][None]
    arrays["conv2_3x3.bias"] = arrays["conv2_3x3.bias"].astype("float64")
    arrays["conv2_3x3_reduce.bias"] = arrays["conv2_3x3_reduce.bias"].astype("float16")
    arrays["conv2_3x3.weight"] = np.ascontiguousarray(kernel.transpose(0, 2, 3, 1))
    shared = np.concatenate([np.zeros(3, "float32"), state["conv2_3x3_bn.bias"]])
    arrays["conv2_3x3_bn.bias"] = shared
    outputs, inputs, height, width = kernel.shape
    forms = {
        "conv2_3x3.weight": {
            "shape": kernel.shape,
            "strides": (height * width * inputs, 1, width * inputs, inputs),
        },
        "conv2_3x3_bn.bias": {"offset": 3, "shape": (outputs,)},
    }
    tensors = {
        key: tensor(str(i), arrays[key], **forms.get(key, {})) for i, key in enumerate(arrays)
    }
    tensors["conv1_7x7_s2.bias"] = parameter(tensors["conv1_7x7_s2.bias"])
    path = write_torch(tmp_path / "a.pth", arrays, tensors)
    with TorchFile(path) as file:
        for key, array in state.items():
            tolerance = 1e-3 if key == "conv2_3x3_reduce.bias" else 0
            value = file.read(key)
            np.testing.assert_allclose(value.reshape(array.shape), array, atol=tolerance)
    stem.set_weights([0 * weight for weight in stem.get_weights()])
    convert_weights(path, "bn_inception", tmp_path / "a.weights.h5")
    for key, (variable, _) in conversion._variables(stem, str).items():
        expected = state[key]
        if expected.ndim == 4:
            expected = expected.transpose(2, 3, 1, 0)
        np.testing.assert_allclose(variable, expected, atol=1e-3)


ZERO = np.zeros((2, 3), "float32")


@pytest.mark.parametrize("suffix", WRITERS)
def test_keys_and_shapes(tmp_path, state, suffix):
    path, without_bias = tmp_path / f"a{suffix}", state.copy()
    del without_bias["conv2_3x3.bias"]
    last = next(reversed(state))
    for arrays, message in (
        (without_bias, "lacks conv2_3x3.bias.$"),
        (
            {**state, "fc.weight": ZERO, "module.conv2_3x3.bias": ZERO},
            "also has fc.weight, module.conv2_3x3.bias.$",
        ),
        (
            {**state, "conv2_3x3.num_batches_tracked": ZERO},
            "also has conv2_3x3.num_batches_tracked.$",
        ),
        (
            {**state, "conv2_3x3.weight": np.zeros((192, 64, 1, 1), "float32")},
            r"conv2_3x3.weight must have shape \(192, 64, 3, 3\), received \(192, 64, 1, 1\)",
        ),
        (
            {**state, "conv2_3x3_bn.bias": np.zeros(192, "int64")},
            "conv2_3x3_bn.bias must be of floats, received int64",
        ),
        (
            {**state, "conv2_3x3_bn.bias": np.full(192, np.nan, "float32")},
            "conv2_3x3_bn.bias has values that are not finite",
        ),
        ({last: state[last]}, rf"lacks (\w+\.\w+, ){{4}}\w+\.\w+ and {len(state) - 6} more.$"),
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


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_code_in_a_pickle_is_not_run(tmp_path, protocol):
    witness = tmp_path / "witness"
    witness.touch()
    data = pickle.dumps({"conv1_7x7_s2.weight": Bomb(witness)}, protocol=protocol)
    check_refused(write_torch(tmp_path / "a.pth", {}, data=data), "which no state dict has$")
    assert witness.exists()
    pickle.loads(data)
    assert not witness.exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Call(Global("os", "system"), ("true",)), "names 'os system', which no state dict has"),
        (Call(Global("torch.storage", "_load_from_bytes"), ("",)), "_load_from_bytes'"),
        (Global("collections", "OrderedDict"), "holds a function, not a dict of tensors"),
        ({"state_dict": {"a": "b"}}, "entry 'state_dict' is not a tensor but a _Entries"),
        ({"a": 3}, "entry 'a' is not a tensor but a int"),
        ({"a": Persistent((1, 2))}, "damaged|not enough values"),
        ({"a": Persistent(("module", Global("torch", "FloatStorage"), "0", "cpu", 1))}, "storage"),
        ({"a": Call(Global("torch", "FloatStorage"), (3,))}, "damaged .*not callable"),
        ({"a": Call(Global("torch._utils", "_rebuild_tensor_v2"), ())}, "damaged .*missing 4"),
        ({"a": tensor("0", np.zeros(2), offset=-1)}, "a tensor with arguments that no s"),
        ({"a": tensor("0", np.zeros(2), shape=(-2,), strides=(1,))}, "a tensor with arguments"),
        ({"a": tensor("0", np.zeros(2), shape=(2,), strides=(1, 1))}, "a tensor with arguments"),
        ({"a": tensor("0", np.zeros(2), shape=(1,) * 9)}, "a tensor with arguments"),
        ({"a": tensor("0", np.zeros(2), size=-2)}, "has a storage of an unknown kind"),
        ({1: tensor("0", np.zeros(2))}, "has a key that is not a name but a int"),
        ({"a" * 9999: tensor("0", np.zeros(2))}, "has a name of 9,999 characters"),
    ],
)
def test_other_pickles(tmp_path, value, message):
    check_refused(write_torch(tmp_path / "a.pth", {}, data=pickled(value)), message)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x02",
        b"\x80\x02.",
        b"\x80\x02t.",
        b"\x80\x02h\x05.",
        b"\x80\x02X\xff\xff\xff\x7fa.",
    ]
    + [b"\x80\x02)R.", b"\x80\x02}}}u.", b"\x80\x02)}b.", b"\xff", b"\x80\x02}(K\x01."],
)
def test_damaged_pickles(tmp_path, data):
    check_refused(write_torch(tmp_path / "a.pth", {}, data=data), "its pickle|holds a|Memo")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        # Places in the memo up to the largest one would take 32 GiB.
        (b"}r\xff\xff\xff\xff.", None),
        # Tuples of two times the last one: the hash of a key would take 2 ** 5000 steps.
        (b"}(K\x01K\x02\x86" + b"q\x00h\x00\x86" * 5000 + b"K\x00u.", "not a name but a tuple"),
        (b"}" + b")\x85" + b"\x85" * 100_000 + b"K\x00s.", "not a name but a tuple"),
        # The same where the type of a storage is looked up.
        (
            b"(X\x07\x00\x00\x00storageK\x01" + b"q\x00h\x00\x86" * 5000 + b"h\x00h\x00K\x01tQ.",
            "a storage of an unknown kind",
        ),
        # An allocation of 16 EiB, a protocol that this Python does not have.
        (b"\x96" + b"\xff" * 7 + b"\x7f.", "has the instruction b'\\\\x96'"),
        (b"\x80\xff}.", "unsupported pickle protocol"),
    ],
    ids=["memo", "hash", "depth", "storage", "bytearray", "protocol"],
)
def test_hostile_pickles_take_neither_time_nor_memory(data, message):
    tracemalloc.start()
    try:
        if message is None:
            assert read_tensors(io.BytesIO(b"\x80\x02" + data)) == ({}, {})
        else:
            with pytest.raises(ValueError, match=message):
                read_tensors(io.BytesIO(b"\x80\x02" + data))
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()


def test_large_pickles_are_not_read(tmp_path):
    """Two million dicts would take 200 MB; the state dicts of all backbones have 100 kB."""
    data = b"\x80\x02" + b"}" * 2_000_000 + b"."
    check_refused(
        write_torch(tmp_path / "a.pth", {}, data=data),
        "its pickle has 2,000,003 bytes, at most 1,048,576 are read",
    )


def test_types_that_numpy_does_not_have(tmp_path):
    """Eight bits a float, as safetensors can hold them."""
    entry = {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}
    header = json.dumps({"conv1": entry}).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with SafetensorsFile(path) as file, pytest.raises(ValueError) as caught:
        file.read("conv1")
    message = f"{path}: conv1 is of type F8_E4M3, which NumPy does not have. Save it as F32."
    assert str(caught.value) == message


def test_tensors_beyond_their_storage(tmp_path, state):
    path, key = tmp_path / "a.pth", "conv2_3x3_bn.bias"
    index = str(list(state).index(key))
    good = {name: tensor(str(i), array) for i, (name, array) in enumerate(state.items())}
    for changes, message in (
        ({"offset": 1}, "do not lie side by side"),
        ({"size": 10}, "do not lie side by side"),
        ({"size": 2**62}, "has 768 bytes and claims 4,611,686,018,427,387,904 elements"),
        ({"offset": 2**62, "size": 2**63 - 1}, "has 768 bytes and claims"),
        ({"strides": (0,)}, "do not lie side by side"),
        ({"strides": (2**62,)}, "do not lie side by side"),
        ({"shape": (2**40,), "size": 2**40}, r"must have shape \(192,\)"),
    ):
        write_torch(path, state, {**good, key: tensor(index, state[key], **changes)})
        check_refused(path, message)
    write_torch(path, state, {**good, key: tensor("9999", state[key])})
    check_refused(path, f"{key}: .*no item named 'archive/data/9999'")


def test_zip_bombs(tmp_path):
    arrays = {"a": np.zeros(2**12)}
    path = write_torch(tmp_path / "a.pth", arrays, compression=zipfile.ZIP_DEFLATED)
    check_refused(path, "has compressed records")
    content = bytearray(write_torch(path, arrays).read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # the flags of the directory's first entry
    path.write_bytes(content)
    check_refused(path, "has encrypted records")
    # Two entries of the directory that are the same bytes of the file.
    write_torch(path, arrays)
    with zipfile.ZipFile(path, "a") as archive:
        for i in range(9):
            info = zipfile.ZipInfo(f"archive/data/{i + 1}")
            source = archive.getinfo("archive/data/0")
            info.header_offset, info.CRC = source.header_offset, source.CRC
            info.file_size = info.compress_size = source.file_size
            archive.filelist.append(info)
            archive.NameToInfo[info.filename] = info
            archive._didModify = True
    check_refused(path, "claim more bytes than the file has")


def test_files_of_other_formats(tmp_path):
    path = tmp_path / "a.pth"
    for content in (b"", b"PK\x03\x04 and no more", pickle.dumps(7, protocol=2)):
        path.write_bytes(content)
        check_refused(path, "it is in neither of PyTorch's formats")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")
    check_refused(path, "does not have the record data.pkl")
    other = tmp_path / "a.safetensors"
    for content in (b"", b"\xff" * 100, struct.pack("<Q", 2**40) + b"{}"):
        other.write_bytes(content)
        check_refused(other, "[Hh]eader|HeaderTooLarge|Invalid|Overflow|invalid|mismatch|size")
    header = b'{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4]}}'
    other.write_bytes(struct.pack("<Q", len(header)) + header + b"0000")
    check_refused(other, "[Hh]eader|HeaderTooLarge|Invalid|Overflow|invalid|mismatch|size")


def test_arguments(tmp_path):
    out = tmp_path / "a.weights.h5"
    with pytest.raises(ValueError, match="'vgg', known are bn_inception, googlenet, effi"):
        convert_weights("a.pth", "vgg", out)
    with pytest.raises(ValueError, match="must end in .weights.h5, received a.h5"):
        convert_weights("a.pth", "googlenet", "a.h5")
    with pytest.raises(FileNotFoundError, match="There is no file .*missing.pth"):
        convert_weights(tmp_path / "missing.pth", "googlenet", out)
    assert not list(tmp_path.iterdir())


def test_command(tmp_path, state, capsys):
    arrays = {**state, "last_linear.bias": np.zeros(7, "float32")}
    path, out = write_torch(tmp_path / "a.pth", arrays), tmp_path / "b.weights.h5"
    arguments = ["convert-weights", str(path), "--architecture", "bn_inception", "--out", str(out)]
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 0 and out.is_file()
    printed = capsys.readouterr().out
    assert f"{out}: {len(state)} tensors of bn_inception\n" in printed
    assert "Left out, because the backbone lacks them: last_linear.bias\n" in printed
    before = out.read_bytes()
    path.write_bytes(b"nothing")
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 1 and "neither of PyTorch's formats" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.pth", "b.weights.h5"]
