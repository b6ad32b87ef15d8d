import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits


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
