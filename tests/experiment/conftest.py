import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

RECIPE = """
name: digits
data:
  name: folder
  path: {path}
  channels: 1
  image_size: 16
  split_fractions: [0.4, 0.3, 0.3]
  classes_per_batch: 4
  images_per_class: 4
backbone: {{name: conv4}}
embedding: {{dim: 8}}
pooling: {{num_prototypes: 4, adapt_batches: 1}}
zero_shot: {{weight: 0.1, embedding_dim: 8}}
training: {{epochs: 2, steps_per_epoch: 8}}
"""


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """Scikit-learn's handwritten digits as a folder of PNG files, 20 of each class."""
    folder = tmp_path_factory.mktemp("handwritten digits")
    images, labels = load_digits(return_X_y=True)
    for digit in range(10):
        (folder / f"Ziffer {digit} é").mkdir()
        for i in np.flatnonzero(labels == digit)[:20]:
            pixels = (images[i].reshape(8, 8) * 15.9).astype("uint8")
            picture = Image.fromarray(pixels).resize((20, 20))
            picture.save(folder / f"Ziffer {digit} é" / f"bild {i}.png")
    return folder


@pytest.fixture
def recipe(tmp_path, digits):
    """Path of a small recipe on the digits."""
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE.format(path=digits), encoding="utf-8")
    return path
