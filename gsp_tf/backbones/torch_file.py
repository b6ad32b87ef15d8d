"""State dicts in PyTorch's file format, read without PyTorch."""

import math
import zipfile
from pathlib import Path

import numpy as np

from gsp_tf.backbones.torch_pickle import read_torch_pickle

_MAX_RECORDS = 2**16
_MAX_PICKLE = 2**20


class TorchFile:
    """The tensors of a `.pth` file in the zip format of PyTorch 1.6 and later.

    Nothing in the file is run, and nothing is unpacked: a compressed record, or records that
    together claim more bytes than the file has, are refused. Tensors are read one by one. To be
    closed, or used in `with`. `shapes` has their shapes by name.

    Args:
        path: file.

    Raises:
        ValueError: naming the file, if it is in the format before 1.6 or holds anything but a state
            dict.

    Example:
        >>> TorchFile(__file__)
        Traceback (most recent call last):
            ...
        ValueError: ...torch_file.py: it is not in the zip format of PyTorch 1.6 and later...
    """

    def __init__(self, path):
        self.path = Path(path)
        if not zipfile.is_zipfile(self.path):
            raise ValueError(
                f"{path}: it is not in the zip format of PyTorch 1.6 and later. PyTorch converts "
                "an older file: torch.save(torch.load('old.pth', weights_only=True), 'new.pth')."
            )
        self._archive = None
        try:
            self._archive = zipfile.ZipFile(self.path)
            self._root = self._checked_root()
            self._order = self._byte_order()
            self._tensors = read_torch_pickle(self._archive.read(f"{self._root}data.pkl"))
            self.shapes = {name: tensor.shape for name, tensor in self._tensors.items()}
        except (ValueError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
            self.close()
            raise ValueError(f"{path}: {error}") from error

    def read(self, name):
        """One tensor.

        Args:
            name: one of `shapes`.

        Returns:
            numpy array.

        Raises:
            ValueError: naming the file and the tensor, if it reaches beyond its storage, or is a
                view of some of the elements of its storage.
        """
        tensor = self._tensors[name]
        size = math.prod(tensor.shape)
        steps = zip(tensor.shape, tensor.strides, strict=True)
        extent = 1 + sum((length - 1) * stride for length, stride in steps) if size else 0
        if extent != size or tensor.offset + extent > tensor.storage_size:
            raise ValueError(
                f"{self.path}: {name}: its elements do not lie side by side in its storage."
            )
        try:
            elements = self._elements(tensor, extent)
        except (ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
            raise ValueError(f"{self.path}: {name}: {error}") from error
        strides = [stride * elements.itemsize for stride in tensor.strides]
        view = np.lib.stride_tricks.as_strided(elements, tensor.shape, strides, writeable=False)
        return view.astype(tensor.dtype)

    def close(self):
        """Close the file."""
        if self._archive is not None:
            self._archive.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _elements(self, tensor, count):
        dtype = np.dtype(self._order + tensor.dtype)
        record = self._archive.getinfo(f"{self._root}data/{tensor.record}")
        if record.file_size != tensor.storage_size * dtype.itemsize:
            raise ValueError(
                f"its storage has {record.file_size:,} bytes and claims {tensor.storage_size:,} "
                f"elements of {dtype.itemsize} bytes"
            )
        with self._archive.open(record) as file:
            file.seek(tensor.offset * dtype.itemsize)
            return np.frombuffer(file.read(count * dtype.itemsize), dtype)

    def _checked_root(self):
        """The folder of the records in the archive; refuses archives that could unpack to more."""
        records = self._archive.infolist()
        if len(records) > _MAX_RECORDS:
            raise ValueError(f"it has {len(records):,} records, at most {_MAX_RECORDS:,} are read")
        if any(record.compress_type != zipfile.ZIP_STORED for record in records):
            raise ValueError("it has compressed records, which PyTorch does not write")
        if sum(record.file_size for record in records) > self.path.stat().st_size:
            raise ValueError("its records claim more bytes than the file has")
        pickles = [record for record in records if record.filename.endswith("/data.pkl")]
        if len(pickles) != 1 or pickles[0].filename.count("/") != 1:
            raise ValueError("it has no record data.pkl, which PyTorch writes")
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
