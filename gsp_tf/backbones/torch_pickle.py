"""The pickle inside a PyTorch file, read without running any of it."""

import pickletools
from dataclasses import dataclass

_DTYPES = {
    "torch DoubleStorage": "f8",
    "torch FloatStorage": "f4",
    "torch HalfStorage": "f2",
    "torch LongStorage": "i8",
    "torch IntStorage": "i4",
}
_DICT = "collections OrderedDict"
_TENSOR = "torch._utils _rebuild_tensor_v2"
_PARAMETER = "torch._utils _rebuild_parameter"
_GLOBALS = {*_DTYPES, _DICT, _TENSOR, _PARAMETER}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_MAX_RANK = 8
_MAX_NAME = 1000
_VALUES = {"BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1"}


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies in a PyTorch file.

    Args:
        record: name of its storage in the file.
        dtype: numpy type code of the storage, such as "f4".
        storage_size: number of elements of the storage.
        offset: index of the first element of the tensor in it.
        shape: shape of the tensor.
        strides: steps from element to element in each dimension, in elements.
    """

    record: str
    dtype: str
    storage_size: int
    offset: int
    shape: tuple
    strides: tuple


@dataclass(frozen=True)
class _Global:
    name: str


@dataclass(frozen=True)
class _Storage:
    record: str
    dtype: str
    size: int


_MARK = object()


def read_torch_pickle(data):
    """Tensors by name in the pickle of a PyTorch state dict.

    The bytes are instructions for a small machine that builds objects. This machine knows those
    that `torch.save` writes for a dict of tensors: nothing is imported or called, whatever the
    bytes say, and anything else is refused.

    Args:
        data: bytes of the record `data.pkl`.

    Returns:
        dict of str to `StoredTensor`.

    Raises:
        ValueError: if the pickle is damaged, or holds anything but tensors in a dict.

    Example:
        >>> import pickle
        >>> read_torch_pickle(pickle.dumps({}, protocol=2))
        {}
        >>> read_torch_pickle(pickle.dumps(len, protocol=2))
        Traceback (most recent call last):
            ...
        ValueError: it names '__builtin__ len', which is no part of a state dict
    """
    try:
        result = _Machine().run(data)
    except (IndexError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"its pickle is damaged ({error})") from error
    if not isinstance(result, dict):
        raise ValueError(f"it holds a {type(result).__name__}, not a dict of tensors")
    for name, value in result.items():
        if not isinstance(value, StoredTensor):
            raise ValueError(f"its entry {name!r} is no tensor but a {type(value).__name__}")
    return result


class _Machine:
    """A stack, and a memo of what was on it."""

    def __init__(self):
        self.stack = []
        self.memo = {}

    def run(self, data):
        for opcode, argument, _ in pickletools.genops(data):
            name = opcode.name
            if name == "STOP":
                return self.stack.pop()
            if name in _VALUES:
                self.stack.append(argument)
            elif name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name])
            elif name in ("BINPUT", "LONG_BINPUT"):
                self.memo[argument] = self.stack[-1]
            elif name in ("BINGET", "LONG_BINGET"):
                self.stack.append(self.memo[argument])
            elif name != "PROTO":
                self._step(name, argument)
        raise ValueError("its pickle is damaged (it has no end)")

    def _step(self, name, argument):
        push, pop = self.stack.append, self.stack.pop
        if name == "GLOBAL":
            push(_known(argument))
        elif name == "BINPERSID":
            push(_storage(pop()))
        elif name == "REDUCE":
            arguments, function = pop(), pop()
            push(_call(function, arguments))
        elif name == "EMPTY_DICT":
            push({})
        elif name == "MARK":
            push(_MARK)
        elif name == "EMPTY_TUPLE":
            push(())
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            items = [pop() for _ in range(int(name[-1]))]
            push(tuple(reversed(items)))
        elif name == "TUPLE":
            push(tuple(self._since_mark()))
        elif name == "SETITEM":
            value, key = pop(), pop()
            self._set([key, value])
        elif name == "SETITEMS":
            self._set(self._since_mark())
        elif name == "BUILD":
            pop()  # attributes of the dict, which PyTorch keeps versions in
            if not isinstance(self.stack[-1], dict):
                raise ValueError("it sets attributes of something that is no dict")
        else:
            raise ValueError(f"its pickle has the instruction {name}, no part of a state dict")

    def _since_mark(self):
        items = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _set(self, items):
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise ValueError("it sets items of something that is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):
                raise ValueError(f"it has a key that is no name but a {type(key).__name__}")
            if len(key) > _MAX_NAME:
                raise ValueError(f"it has a name of {len(key):,} characters")
            target[key] = value


def _known(name):
    if name not in _GLOBALS:
        raise ValueError(f"it names {name[:80]!r}, which is no part of a state dict")
    return _Global(name)


def _storage(description):
    """What PyTorch's persistent id ("storage", type, record, device, size) describes."""
    kind, storage_type, record, _, size = description
    dtype = isinstance(storage_type, _Global) and _DTYPES.get(storage_type.name)
    if kind != "storage" or not dtype or not isinstance(record, str) or not _is_count(size):
        raise ValueError("it has a storage of an unknown kind")
    return _Storage(record, dtype, size)


def _call(function, arguments):
    name = function.name
    if name == _DICT and arguments == ():
        return {}
    if name == _PARAMETER and isinstance(arguments[0], StoredTensor):
        return arguments[0]
    if name == _TENSOR and len(arguments) >= 4:
        storage, offset, shape, strides = arguments[:4]
        is_sound = isinstance(storage, _Storage) and len(shape) == len(strides) <= _MAX_RANK
        if is_sound and all(_is_count(number) for number in (offset, *shape, *strides)):
            return StoredTensor(
                storage.record, storage.dtype, storage.size, offset, tuple(shape), tuple(strides)
            )
    raise ValueError(f"it calls {name} with arguments that are no part of a state dict")


def _is_count(value):
    return type(value) is int and 0 <= value < 2**63
