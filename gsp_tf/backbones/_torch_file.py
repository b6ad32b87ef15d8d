"""State dicts in PyTorch's file format, read without PyTorch.

No code in a file is run, and nothing is decompressed. Compressed records are refused, and so are
records that together claim more bytes than the file has. Tensors are read one at a time.
"""

import io
import math
import pickle
import zipfile
from dataclasses import dataclass

import numpy as np

_MAX_RECORDS = 2**16
_MAX_PICKLE = 2**20
_MAX_RANK = 8
_MAX_NAME = 1000


class TorchFile:
    """The tensors and shapes of a `.pth` file in the zip format of PyTorch 1.6 and later."""

    def __init__(self, path):
        self.path = path
        if not zipfile.is_zipfile(path):
            raise ValueError(
                f"{path}: it is not in the zip format of PyTorch 1.6 and later. PyTorch converts "
                "an older file: torch.save(torch.load('old.pth', weights_only=True), 'new.pth')."
            )
        self._archive = None
        try:
            self._archive = zipfile.ZipFile(path)
            self._root = self._checked_root()
            self._order = self._byte_order()
            self._tensors = _read_pickle(self._archive.read(f"{self._root}data.pkl"))
        except (ValueError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
            self.__exit__()
            raise ValueError(f"{path}: {error}") from error
        self.shapes = {name: tensor.shape for name, tensor in self._tensors.items()}

    def read(self, name):
        """One tensor as an array; raises if it does not fill its stretch of the storage."""
        tensor = self._tensors[name]
        size = math.prod(tensor.shape)
        steps = zip(tensor.shape, tensor.strides, strict=True)
        extent = 1 + sum((length - 1) * stride for length, stride in steps) if size else 0
        if extent != size or tensor.offset + extent > tensor.storage.size:
            raise ValueError(
                f"{self.path}: {name}: its elements do not lie side by side in its storage."
            )
        try:
            elements = self._elements(tensor, extent)
        except (ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
            raise ValueError(f"{self.path}: {name}: {error}") from error
        strides = [stride * elements.itemsize for stride in tensor.strides]
        view = np.lib.stride_tricks.as_strided(elements, tensor.shape, strides, writeable=False)
        return view.astype(tensor.storage.dtype)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._archive is not None:
            self._archive.close()

    def _elements(self, tensor, count):
        storage = tensor.storage
        dtype = np.dtype(self._order + storage.dtype)
        record = self._archive.getinfo(f"{self._root}data/{storage.record}")
        if record.file_size != storage.size * dtype.itemsize:
            raise ValueError(
                f"its storage has {record.file_size:,} bytes and claims {storage.size:,} "
                f"elements of {dtype.itemsize} bytes"
            )
        with self._archive.open(record) as file:
            file.seek(tensor.offset * dtype.itemsize)
            return np.frombuffer(file.read(count * dtype.itemsize), dtype)

    def _checked_root(self):
        """The archive's folder of records; raises if the archive could unpack to more bytes."""
        records = self._archive.infolist()
        if len(records) > _MAX_RECORDS:
            raise ValueError(f"it has {len(records):,} records, at most {_MAX_RECORDS:,} are read")
        if any(record.compress_type != zipfile.ZIP_STORED for record in records):
            raise ValueError("it has compressed records, which PyTorch does not write")
        if sum(record.file_size for record in records) > self.path.stat().st_size:
            raise ValueError("its records claim more bytes than the file has")
        pickles = [record for record in records if record.filename.endswith("/data.pkl")]
        if len(pickles) != 1 or pickles[0].filename.count("/") != 1:
            raise ValueError("it does not have the record data.pkl, which PyTorch writes")
        if pickles[0].file_size > _MAX_PICKLE:
            raise ValueError(
                f"its pickle has {pickles[0].file_size:,} bytes, at most {_MAX_PICKLE:,} are read"
            )
        return pickles[0].filename.removesuffix("data.pkl")

    def _byte_order(self):
        name = f"{self._root}byteorder"
        if name not in self._archive.namelist():
            return "<"
        with self._archive.open(name) as file:
            return ">" if file.read(3) == b"big" else "<"


@dataclass(frozen=True)
class _Storage:
    """A record of the file, with the NumPy type code and the number of its elements."""

    record: str
    dtype: str
    size: int


@dataclass(frozen=True)
class _Tensor:
    """A stretch of a storage; offset and strides count elements."""

    storage: _Storage
    offset: int
    shape: tuple
    strides: tuple


class _Dtype(str):
    """A NumPy type code, used instead of a storage class of PyTorch."""


class _Entries(dict):
    """A dict that hashes only names, so a pickle cannot make it hash nested tuples, for example."""

    def __setitem__(self, key, value):
        if not isinstance(key, str):
            raise pickle.UnpicklingError(
                f"it has a key that is not a name but a {type(key).__name__}"
            )
        if len(key) > _MAX_NAME:
            raise pickle.UnpicklingError(f"it has a name of {len(key):,} characters")
        super().__setitem__(key, value)


def _rebuild_tensor(storage, offset, shape, strides, *_):
    is_sound = isinstance(storage, _Storage) and isinstance(shape, tuple)
    is_sound = is_sound and isinstance(strides, tuple) and len(shape) == len(strides) <= _MAX_RANK
    if not is_sound or not all(map(_is_count, (offset, *shape, *strides))):
        raise pickle.UnpicklingError("it describes a tensor with arguments that no state dict has")
    return _Tensor(storage, offset, shape, strides)


def _rebuild_parameter(tensor, *_):
    return tensor


_GLOBALS = {
    "collections OrderedDict": lambda: _Entries(),
    "torch._utils _rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils _rebuild_parameter": _rebuild_parameter,
    "torch DoubleStorage": _Dtype("f8"),
    "torch FloatStorage": _Dtype("f4"),
    "torch HalfStorage": _Dtype("f2"),
    "torch LongStorage": _Dtype("i8"),
    "torch IntStorage": _Dtype("i4"),
}


class _Unpickler(pickle._Unpickler):
    """Unpickles only the instructions that `torch.save` writes for a dict of tensors."""

    # The unpickler in C allocates memory for the largest index that a pickle names, and its
    # instructions cannot be restricted.
    dispatch = {
        code[0]: pickle._Unpickler.dispatch[code[0]]
        for code in (
            *(pickle.PROTO, pickle.GLOBAL, pickle.REDUCE, pickle.BINPERSID, pickle.STOP),
            *(pickle.MARK, pickle.EMPTY_TUPLE, pickle.TUPLE),
            *(pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.SETITEM, pickle.SETITEMS),
            *(pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE),
            *(pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1, pickle.BINUNICODE),
            *(pickle.BINPUT, pickle.LONG_BINPUT, pickle.BINGET, pickle.LONG_BINGET),
        )
    }
    dispatch[pickle.EMPTY_DICT[0]] = lambda self: self.append(_Entries())
    dispatch[pickle.BUILD[0]] = lambda self: self.stack.pop()  # metadata of PyTorch: versions

    def find_class(self, module, name):
        known = f"{module} {name}"
        if known not in _GLOBALS:
            raise pickle.UnpicklingError(f"it names {known[:80]!r}, which no state dict has")
        return _GLOBALS[known]

    def persistent_load(self, pid):
        """The storage that PyTorch writes as ("storage", type, record, device, size)."""
        kind, dtype, record, _, size = pid
        is_sound = kind == "storage" and isinstance(dtype, _Dtype) and isinstance(record, str)
        if not is_sound or not _is_count(size):
            raise pickle.UnpicklingError("it has a storage of an unknown kind")
        return _Storage(record, str(dtype), size)


def _read_pickle(data):
    """The tensors of the record `data.pkl`, by name."""
    try:
        entries = _Unpickler(io.BytesIO(data)).load()
    except pickle.UnpicklingError as error:
        raise ValueError(str(error)) from error
    except KeyError as error:
        instruction = bytes([error.args[0]])
        raise ValueError(
            f"its pickle has the instruction {instruction!r}, which no state dict has"
        ) from error
    except Exception as error:  # damaged pickles raise any type
        raise ValueError(f"its pickle is damaged ({error})") from error
    if not isinstance(entries, _Entries):
        raise ValueError(f"it holds a {type(entries).__name__}, not a dict of tensors")
    for name, value in entries.items():
        if not isinstance(value, _Tensor):
            raise ValueError(f"its entry {name!r} is not a tensor but a {type(value).__name__}")
    return entries


def _is_count(value):
    return type(value) is int and 0 <= value < 2**63
