"""State dicts in PyTorch's two file formats, read without PyTorch.

Since version 1.6, `torch.save` writes a zip archive of a pickle and one record per storage. Before,
it wrote five pickles, followed by the storages. No code in a file is run, and nothing is
decompressed. Compressed records are refused, and so are records that together claim more bytes than
the file has. Tensors are read one at a time.
"""

import io
import math
import zipfile
from pathlib import Path

import numpy as np

from gsp_tf.backbones._torch_pickle import MAX_PICKLE, read_tensors, read_value

_MAX_RECORDS = 2**16
_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001


class TorchFile:
    """The tensors and shapes of a `.pth` file in either format."""

    def __init__(self, path: Path):
        self.path = path
        self._records = None
        try:
            self._records = (_ZipRecords if zipfile.is_zipfile(path) else _LegacyRecords)(path)
        except (ValueError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
            raise ValueError(f"{path}: {error}") from error
        self._tensors = self._records.tensors
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
            elements = self._records.elements(tensor, extent)
        except (ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
            raise ValueError(f"{self.path}: {name}: {error}") from error
        if elements.size != extent:
            raise ValueError(f"{self.path}: {name}: the file has become shorter.")
        strides = [stride * elements.itemsize for stride in tensor.strides]
        view = np.lib.stride_tricks.as_strided(elements, tensor.shape, strides, writeable=False)
        return view.astype(tensor.storage.dtype)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._records.close()


class _ZipRecords:
    """The records of a file of PyTorch 1.6 and later."""

    def __init__(self, path):
        self._archive = zipfile.ZipFile(path)
        try:
            self._root = self._checked_root(path)
            self._order = self._byte_order()
            data = self._archive.read(f"{self._root}data.pkl")
            self.tensors, _ = read_tensors(io.BytesIO(data))
        except BaseException:
            self.close()
            raise

    def elements(self, tensor, count):
        """Elements of a storage from the tensor's offset on."""
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

    def close(self):
        """Closes the file."""
        self._archive.close()

    def _checked_root(self, path):
        """The archive's folder of records; raises if the archive could unpack to more bytes."""
        records = self._archive.infolist()
        if len(records) > _MAX_RECORDS:
            raise ValueError(f"it has {len(records):,} records, at most {_MAX_RECORDS:,} are read")
        if any(record.compress_type != zipfile.ZIP_STORED for record in records):
            raise ValueError("it has compressed records, which PyTorch does not write")
        if any(record.flag_bits & 1 for record in records):
            raise ValueError("it has encrypted records, which PyTorch does not write")
        if sum(record.file_size for record in records) > path.stat().st_size:
            raise ValueError("its records claim more bytes than the file has")
        pickles = [record for record in records if record.filename.endswith("/data.pkl")]
        if len(pickles) != 1 or pickles[0].filename.count("/") != 1:
            raise ValueError("it does not have the record data.pkl, which PyTorch writes")
        if pickles[0].file_size > MAX_PICKLE:
            raise ValueError(
                f"its pickle has {pickles[0].file_size:,} bytes, at most {MAX_PICKLE:,} are read"
            )
        return pickles[0].filename.removesuffix("data.pkl")

    def _byte_order(self):
        name = f"{self._root}byteorder"
        if name not in self._archive.namelist():
            return "<"
        with self._archive.open(name) as file:
            return ">" if file.read(3) == b"big" else "<"


class _LegacyRecords:
    """The storages of a file of earlier PyTorch: little-endian on every machine."""

    def __init__(self, path):
        self._file = open(path, "rb")  # noqa: SIM115  (tensors are read later)
        try:
            self._check_header()
            self.tensors, storages = self._pickled(read_tensors)
            self._places = self._checked_places(storages, path.stat().st_size)
        except BaseException:
            self.close()
            raise

    def elements(self, tensor, count):
        """Elements of a storage from the tensor's offset on."""
        dtype = np.dtype("<" + tensor.storage.dtype)
        self._file.seek(self._places[tensor.storage.record] + tensor.offset * dtype.itemsize)
        return np.frombuffer(self._file.read(count * dtype.itemsize), dtype)

    def close(self):
        """Closes the file."""
        self._file.close()

    def _check_header(self):
        """Raises if the file does not begin like one of PyTorch."""
        try:
            is_known = self._pickled(read_value) == _MAGIC
        except ValueError:
            is_known = False
        if not is_known:
            raise ValueError("it is in neither of PyTorch's formats, the zip format or the older")
        version = self._pickled(read_value)
        if version != _VERSION:
            # The text of nested lists could fill the memory.
            found = version if isinstance(version, int) else f"a {type(version).__name__}"
            raise ValueError(f"its version of PyTorch's format is {found}, not {_VERSION}")
        self._pickled(read_value)  # byte order and sizes of C types on the machine that wrote it

    def _pickled(self, read):
        """What `read` finds in the next pickle; the file is then at its end."""
        start = self._file.tell()
        stream = io.BytesIO(self._file.read(MAX_PICKLE))
        try:
            value = read(stream)
        except ValueError as error:
            if len(stream.getbuffer()) == MAX_PICKLE == stream.tell():
                raise ValueError(
                    f"a pickle has more than {MAX_PICKLE:,} bytes, which are read at most"
                ) from error
            raise
        self._file.seek(start + stream.tell())
        return value

    def _checked_places(self, storages, file_size):
        """The first byte of each storage; raises if the storages are not those of the pickle."""
        records = self._pickled(read_value)
        are_names = isinstance(records, list) and all(isinstance(name, str) for name in records)
        if not are_names or len(records) != len(storages) or set(records) != set(storages):
            raise ValueError("its list of storages differs from those that it describes")
        places = {}
        for record in records:
            storage = storages[record]
            size = int.from_bytes(self._file.read(8), "little")
            if size != storage.size:
                raise ValueError(
                    f"its storage {record} has {size:,} elements and claims {storage.size:,}"
                )
            places[record] = self._file.tell()
            end = places[record] + size * np.dtype(storage.dtype).itemsize
            if end > file_size:
                raise ValueError("its storages claim more bytes than the file has")
            self._file.seek(end)
        return places
