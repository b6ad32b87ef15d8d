"""PyTorch without TensorFlow: a loader of PyTorch takes a sampler, and feeds `fit`."""

import json
import os
import subprocess
import sys

import numpy as np

from gsp_tf.data import ClassBalancedSampler

SCRIPT = """
import importlib, json, sys
from importlib.machinery import PathFinder

# Keras imports them where they are installed, and needs none.
for name in ("jax", "orbax", "pandas"):
    sys.modules[name] = None

import keras
import numpy as np

for package in ("backbones", "data", "evaluation", "layers", "losses", "ops", "training"):
    package = importlib.import_module(f"gsp_tf.{package}")
    for name in package.__all__:
        getattr(package, name)
imports_tensorflow = "tensorflow" in sys.modules

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name == "tensorflow" else find(name, *rest)

from torch.utils.data import DataLoader, Dataset

from gsp_tf.data import ArrayImages, ClassBalancedSampler, training_dataset
from gsp_tf.layers import GeneralizedSumPooling
from gsp_tf.losses import ContrastiveLoss
from gsp_tf.training import MetricLearner, RetrievalEvaluation, embed

labels = np.arange(12) % 3
pixels = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3), np.uint8)
drawn = []


class Photographs(Dataset):
    def __getitem__(self, index):
        drawn.append(int(index))
        return pixels[index].astype("float32"), labels[index]


sampler = ClassBalancedSampler(labels, classes_per_batch=2, images_per_class=4, seed=3)
loader = DataLoader(Photographs(), batch_sampler=sampler)
embedder = keras.Sequential(
    [
        keras.Input((16, 16, 3)),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(4, 3),
        GeneralizedSumPooling(4),
    ]
)
learner = MetricLearner(embedder, ContrastiveLoss())
learner.compile("sgd")
evaluation = RetrievalEvaluation((pixels, labels), recall_at=(1,))
history = learner.fit(loader, steps_per_epoch=2, epochs=2, callbacks=[evaluation], verbose=0)
embeddings, found = embed(embedder, (pixels, labels))
messages = []
experiments = importlib.import_module("gsp_tf.runs")
for needs_tensorflow in (
    lambda: training_dataset(ArrayImages(pixels, labels, list("abc")), 16, 2, 2, 0),
    lambda: experiments.check_recipe,
):
    try:
        needs_tensorflow()
    except ImportError as error:
        messages.append(str(error))
facts = {
    "imports_tensorflow": imports_tensorflow,
    "drawn": drawn,
    "history": history.history,
    "embeddings": embeddings.tolist(),
    "labels": found.tolist(),
    "messages": messages,
}
print(json.dumps(facts))
"""


def test_a_loader_of_our_sampler_trains_where_tensorflow_is_not_installed():
    paths = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "KERAS_BACKEND": "torch", "PYTHONPATH": paths}
    pipes = {"stdout": subprocess.PIPE, "env": environment, "check": True, "text": True}
    printed = subprocess.run([sys.executable, "-c", SCRIPT], **pipes).stdout
    facts = json.loads(printed.splitlines()[-1])
    assert not facts["imports_tensorflow"]
    labels = np.arange(12) % 3
    sampler = ClassBalancedSampler(labels, classes_per_batch=2, images_per_class=4, seed=3)
    batches = np.reshape(facts["drawn"], (-1, 8))
    assert len(batches) >= 4
    for number, batch in enumerate(batches):
        np.testing.assert_array_equal(batch, sampler.batch(number))
    assert {"loss", "val_map_at_r", "val_recall_at_1"} <= set(facts["history"])
    assert np.isfinite([*facts["history"].values()]).all()
    assert np.isfinite(facts["embeddings"]).all() and facts["labels"] == labels.tolist()
    assert [message.split(" needs TensorFlow")[0] for message in facts["messages"]] == [
        "This function of gsp_tf",
        "gsp_tf.runs.check_recipe",
    ]
