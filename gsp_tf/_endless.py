"""Data without an end, which is refused where all of it would be read."""

import dis
import inspect
import itertools
import math
import sys
from collections.abc import Iterator
from typing import Any

_ACCEPTED = (
    "one pass over the data, such as evaluation_dataset(...), a tf.data.Dataset without repeat(), "
    "or the first batches with dataset.take(n)"
)


def refuse_endless(data: Any, argument: str) -> None:
    """Raises `ValueError` for data that is known to be endless before its first batch.

    Known are `tf.data` by cardinality and structure, `keras.utils.PyDataset`, the samplers of
    `gsp_tf.data`, loaders of PyTorch by sampler or data set, iterators of `itertools`, and Python
    generators that never return. Other iterables are read to their end.
    """
    if _is_endless(data):
        raise ValueError(
            f"{argument} is read to its end, and the {type(data).__name__} received has none. Give "
            f"{_ACCEPTED}."
        )


def _is_endless(data):
    """Whether data is known to be endless."""
    if hasattr(data, "_inputs"):  # a tf.data.Dataset
        return _is_endless_tf_data(data)
    if hasattr(type(data), "num_batches"):  # keras.utils.PyDataset, and samplers of gsp_tf.data
        return _number_of_batches(data) in (None, math.inf)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.utils.data.DataLoader):
        if isinstance(data.dataset, torch.utils.data.IterableDataset):
            return _is_endless(data.dataset)
        return any(map(_is_endless, (data.batch_sampler, data.sampler)))
    if torch is not None and isinstance(data, torch.utils.data.BatchSampler):
        return _is_endless(data.sampler)
    method = getattr(type(data), "__iter__", None)
    if inspect.isgeneratorfunction(method):
        return _never_returns(method.__code__)
    return method is not None and not hasattr(data, "__len__") and _is_endless_iterator(iter(data))


def _number_of_batches(data):
    try:
        return data.num_batches
    except NotImplementedError:  # without it, a PyDataset is read without end
        return None


def _is_endless_tf_data(dataset):
    """Whether a `tf.data.Dataset` is endless, also behind filters whose cardinality is unknown."""
    cardinality = int(dataset.cardinality())
    if cardinality >= 0:
        return False
    kind = type(dataset).__name__
    if cardinality == -1 or "Take" in kind:  # take and take_while may end it
        return cardinality == -1
    ends = map(_is_endless_tf_data, dataset._inputs())
    return any(ends) if "Zip" not in kind else all(ends)


def _is_endless_iterator(iterator):
    """Whether an iterator is known to be endless."""
    if isinstance(iterator, (itertools.count, itertools.cycle)):
        return True
    if isinstance(iterator, itertools.repeat):
        try:
            iterator.__length_hint__()
        except TypeError:  # repeat(batch) without a number of times
            return True
    if isinstance(iterator, (map, zip, filter, enumerate)):  # as long as the shortest of theirs
        sources = [part for part in iterator.__reduce__()[1] if isinstance(part, Iterator)]
        return all(map(_is_endless_iterator, sources))
    if inspect.isgenerator(iterator):
        frame = iterator.gi_frame
        source = None if frame is None else frame.f_locals.get(".0")  # of an expression
        return _never_returns(iterator.gi_code) or _is_endless_iterator(source)
    dataset = getattr(iterator, "_dataset", None)  # of an iterator of tf.data
    return hasattr(dataset, "_inputs") and _is_endless_tf_data(dataset)


def _never_returns(code):
    """Whether a generator can end by an error alone: the compiler has found no way to its end."""
    names = {instruction.opname for instruction in dis.get_instructions(code)}
    return names.isdisjoint(("RETURN_VALUE", "RETURN_CONST"))
