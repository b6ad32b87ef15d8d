"""Endless data is refused by name wherever all of it would be read, and finite data is read."""

import itertools
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from gsp_tf import data
from gsp_tf._endless import refuse_endless
from gsp_tf.layers import GeneralizedSumPooling, NetVLAD
from gsp_tf.training import RetrievalEvaluation, embed

BATCH = np.ones((2, 3), "float32"), np.arange(2)
IMAGES = data.ArrayImages(np.zeros((6, 8, 8, 3), "uint8"), [0, 0, 1, 1, 2, 2], list("abc"))
ROWS = TensorDataset(torch.ones(4, 3), torch.arange(4))


def sampler():
    return data.ClassBalancedSampler(IMAGES.labels, 2, 2, seed=0)


def once():
    return tf.data.Dataset.from_tensors(BATCH)


def all_of(*batch):
    return True


def with_return(count=3):
    for _ in range(count):
        yield BATCH


class Endless:
    def __iter__(self):
        while True:
            yield BATCH


class EndlessRows(IterableDataset):
    __iter__ = Endless.__iter__


class Batches(keras.utils.PyDataset):
    def __init__(self, num_batches):
        super().__init__()
        self._num_batches = num_batches

    @property
    def num_batches(self):
        return self._num_batches

    def __getitem__(self, number):
        return BATCH


ENDLESS = {
    "training_dataset": lambda: data.training_dataset(IMAGES, 8, 2, 2, seed=0),
    "sampler": sampler,
    "filter": lambda: once().repeat().filter(all_of).map(lambda *batch: batch).prefetch(1),
    "zip": lambda: tf.data.Dataset.zip((once().repeat().filter(all_of), once().repeat())),
    "iterator of tf.data": lambda: iter(once().repeat()),
    "PyDataset": lambda: Batches(None),
    "loader of our sampler": lambda: DataLoader(ROWS, batch_sampler=sampler()),
    "loader of a sampler": lambda: DataLoader(ROWS, batch_size=2, sampler=EndlessRows()),
    "loader of rows": lambda: DataLoader(EndlessRows(), batch_size=None),
    "generator": lambda: iter(Endless()),
    "expression": lambda: (batch for batch in itertools.repeat(BATCH)),
    "iterable": Endless,
    "cycle": lambda: itertools.cycle([BATCH]),
    "map": lambda: map(list, zip(itertools.count(), itertools.count(), strict=False)),
}
FINITE = {
    "take": lambda: once().repeat().filter(all_of).take(3),
    "take_while": lambda: once().repeat().take_while(all_of),
    "zip": lambda: tf.data.Dataset.zip((once().repeat().filter(all_of), once())),
    "filter": lambda: once().filter(all_of),
    "PyDataset": lambda: Batches(3),
    "loader": lambda: DataLoader(ROWS, batch_size=2, shuffle=True),
    "generator": with_return,
    "repeat": lambda: itertools.repeat(BATCH, 3),
    "list": lambda: [BATCH],
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_data_is_refused_before_its_first_batch(name):
    given = ENDLESS[name]()
    message = rf"^dataset is read to its end, and the {type(given).__name__} received has none\. "
    with pytest.raises(ValueError, match=message):
        embed(lambda images: images, given)


@pytest.mark.parametrize("name", FINITE)
def test_finite_data_is_not(name):
    refuse_endless(FINITE[name](), "dataset")


def test_every_reader_of_a_whole_data_set_names_its_argument():
    held_out = [BATCH]
    readers = [
        ("dataset", RetrievalEvaluation),
        ("references", lambda given: RetrievalEvaluation(held_out, references=given)),
        ("features", GeneralizedSumPooling(2).adapt),
        ("features", NetVLAD(2).adapt),
    ]
    for name, read in readers:
        with pytest.raises(ValueError, match=f"^{name} is read to its end"):
            read(once().repeat())


@pytest.mark.parametrize("argument", ["dataset", "references"])
def test_an_evaluation_needs_data_that_can_be_read_after_every_epoch(argument):
    given = {"dataset": [BATCH], argument: with_return()}
    message = f"{argument} is read after every epoch, and the generator received can be read only"
    with pytest.raises(ValueError, match=re.escape(message)):
        RetrievalEvaluation(**given)
