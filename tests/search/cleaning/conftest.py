import numpy as np
import pytest
from embedded import save_run
from PIL import Image, ImageOps


@pytest.fixture(scope="session")
def colours(tmp_path_factory):
    """Blurred fields of colours: 24 images of 6 classes as PNG files, none like another."""
    folder = tmp_path_factory.mktemp("data") / "Farben é"
    rng = np.random.default_rng(0)
    for number in range(24):
        path = folder / f"class {number % 6}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        field = Image.fromarray(rng.integers(0, 256, (3, 3, 3)).astype("uint8"))
        field.resize((64, 64), Image.Resampling.BICUBIC).save(path)
    return folder


@pytest.fixture(scope="session")
def colours_run(colours):
    return save_run(colours.parent / "run", colours, channels=3)


@pytest.fixture
def photos(colours, tmp_path):
    """The images, and a folder of copies: identical, as JPEG, of half the size, mirrored twice."""
    names = sorted(colours.rglob("*.png"))
    copies = tmp_path / "copies"
    copies.mkdir()
    image = Image.open(names[0])
    (copies / "identical.png").write_bytes(names[0].read_bytes())
    image.save(copies / "quality.jpg", quality=50)
    Image.open(names[1]).resize((32, 32)).save(copies / "half.png")
    mirrored = ImageOps.mirror(Image.open(names[2]))
    mirrored.save(copies / "mirrored.png")
    mirrored.resize((96, 96)).save(copies / "mirrored and larger.png")
    (copies / "broken.png").write_bytes(b"no image")
    return colours, copies
