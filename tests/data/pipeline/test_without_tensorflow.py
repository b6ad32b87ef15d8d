"""PyTorch without TensorFlow: a loader of PyTorch takes a sampler, and feeds `fit`."""

import processes

SCRIPT = """
import importlib, sys
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
assert "tensorflow" not in sys.modules

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
layers = [keras.layers.Rescaling(1 / 255), keras.layers.Conv2D(4, 3), GeneralizedSumPooling(4)]
embedder = keras.Sequential([keras.Input((16, 16, 3)), *layers])
learner = MetricLearner(embedder, ContrastiveLoss())
learner.compile("sgd")
evaluation = RetrievalEvaluation((pixels, labels), recall_at=(1,))
history = learner.fit(loader, steps_per_epoch=2, epochs=2, callbacks=[evaluation], verbose=0)
embeddings, found = embed(embedder, (pixels, labels))

batches = np.reshape(drawn, (-1, 8))
assert len(batches) >= 4
for number, batch in enumerate(batches):
    np.testing.assert_array_equal(batch, sampler.batch(number))
assert {"loss", "val_map_at_r", "val_recall_at_1"} <= set(history.history)
assert np.isfinite([*history.history.values()]).all()
assert np.isfinite(embeddings).all() and found.tolist() == labels.tolist()

runs = importlib.import_module("gsp_tf.runs")
for name, needs_tensorflow in {
    "This function": lambda: training_dataset(ArrayImages(pixels, labels, "abc"), 16, 2, 2, 0),
    "gsp_tf.runs.check_recipe": lambda: runs.check_recipe,
}.items():
    try:
        needs_tensorflow()
    except ImportError as error:
        assert str(error).startswith(name) and " needs TensorFlow" in str(error)
    else:
        raise AssertionError(name)
"""


def test_a_loader_of_our_sampler_trains_where_tensorflow_is_not_installed():
    processes.run_fresh("-c", SCRIPT, KERAS_BACKEND="torch")
