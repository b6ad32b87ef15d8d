"""Draws the photographs of readers who have none yet: products on shelves, and spotted newts."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

_SIDE = 160
_SHAPES = ((90, 160, 4), (70, 160, 24), (130, 130, 60), (110, 150, 12))
_WORDS = ("ALMA", "BERG", "CITA", "DUNE", "ELFE", "FARO", "GUTA", "HALO", "IRIS", "JOTA", "KIWI")


def draw_products(folder, products=16, photographs=6, seed=0):
    """Draw `folder/PRODUCT/NUMBER.jpg`: packages among others, turned, and in different light.

    Args:
        folder: where the photographs go.
        products: number of products; two neighbours share a shape or a name.
        photographs: number of photographs of each.
        seed: what the random generator starts from.
    """
    rng = np.random.default_rng(seed)
    packages = [_package(rng, number) for number in range(products)]
    for number, (name, package) in enumerate(packages):
        path = Path(folder) / f"{name} {number:02}"
        path.mkdir(parents=True)
        for photograph in range(photographs):
            scene = _shelf(rng, [other for _, other in packages])
            height = int(rng.uniform(0.55, 0.85) * _SIDE)
            _paste(rng, scene, package, height, rng.uniform(0.35, 0.65, 2), turn=20)
            _lit(rng, scene).save(path / f"{photograph:02}.jpg", quality=90)


def draw_newts(folder, newts=20, cameras=3, photographs=3, seed=0):
    """Draw `folder/NEWT/cameraC_NUMBER.jpg`: each newt has its spots, each camera its pond.

    Args:
        folder: where the photographs go.
        newts: number of individuals.
        cameras: number of cameras, which differ in ground and light.
        photographs: number of photographs of each newt by each camera.
        seed: what the random generator starts from.
    """
    rng = np.random.default_rng(seed)
    grounds = rng.uniform(90, 170, (cameras, 1)) + rng.uniform(-45, 45, (cameras, 3))
    for newt in range(newts):
        belly = _belly(rng)
        path = Path(folder) / f"newt {newt:02}"
        path.mkdir(parents=True)
        for camera in range(cameras):
            for photograph in range(photographs):
                scene = _noise(rng, grounds[camera], 25)
                height = int(rng.uniform(0.75, 0.95) * _SIDE)
                _paste(rng, scene, belly, height, rng.uniform(0.42, 0.58, 2), turn=25)
                lit = _lit(rng, scene, 0.85 + 0.15 * camera)
                lit.save(path / f"camera{camera}_{photograph:02}.jpg", quality=90)


def _package(rng, number):
    """Name and picture, with transparency, of a package."""
    width, height, corner = _SHAPES[number // 2 % 4]
    name = _WORDS[number * 5 // 2 % len(_WORDS)]
    ground, accent, ink = rng.integers(30, 256, (3, 3))
    picture = Image.new("RGBA", (width, height))
    draw = ImageDraw.Draw(picture)
    draw.rounded_rectangle((0, 0, width - 1, height - 1), corner, (*ground,))
    kind, step = number % 3, int(rng.integers(14, 26))
    for place in range(height // 2, height - 12, step):
        if kind == 0:
            draw.rectangle((8, place, width - 9, place + step // 2), (*accent,))
        elif kind == 1:
            for left in range(12, width - 20, step):
                draw.ellipse((left, place, left + step // 2, place + step // 2), (*accent,))
        else:
            draw.polygon(((10, place), (width - 10, place), (width // 2, place + step)), (*accent,))
    draw.rectangle((6, height // 6, width - 7, height // 6 + 36), "white")
    font = ImageFont.load_default(26)
    draw.text((width / 2, height // 6 + 18), name, (*(ink // 2),), font, anchor="mm")
    return name.lower(), picture


def _belly(rng):
    """The picture of a newt's belly, whose spots are its own."""
    picture = Image.new("RGBA", (70, 160))
    draw = ImageDraw.Draw(picture)
    draw.ellipse((8, 20, 62, 140), (236, 140, 40))
    draw.ellipse((18, 0, 52, 40), (120, 90, 50))
    draw.polygon(((28, 130), (42, 130), (35, 159)), (170, 100, 40))
    for _ in range(rng.integers(6, 14)):
        x, y, size = rng.uniform(16, 54), rng.uniform(40, 125), rng.uniform(3, 9)
        draw.ellipse((x - size, y - size, x + size, y + rng.uniform(0.6, 1.4) * size), (30, 25, 25))
    return picture


def _shelf(rng, packages):
    """A picture of a shelf with other packages at its sides."""
    scene = _noise(rng, rng.uniform(110, 200) + rng.uniform(-20, 20, 3), 10)
    for left in (0.05, 0.95):
        other = packages[rng.integers(len(packages))]
        place = (left, rng.uniform(0.2, 0.8))
        _paste(rng, scene, other, int(rng.uniform(0.2, 0.45) * _SIDE), place)
    return scene


def _noise(rng, colour, spread):
    rough = rng.normal(colour, spread, (12, 12, 3)).clip(0, 255).astype("uint8")
    return Image.fromarray(rough).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)


def _paste(rng, scene, picture, height, place, turn=8):
    """Put a picture on a scene, scaled to a height and turned by up to some degrees."""
    width = int(picture.width * height / picture.height * rng.uniform(0.85, 1))
    small = picture.resize((width, height)).rotate(
        rng.uniform(-turn, turn), Image.Resampling.BICUBIC, expand=True
    )
    corner = [int(_SIDE * share - side / 2) for share, side in zip(place, small.size, strict=True)]
    scene.paste(small, tuple(corner), small)


def _lit(rng, scene, brightness=1.0):
    pixels = np.asarray(scene, "float32") * brightness * rng.uniform(0.85, 1.1, 3)
    noisy = (pixels + rng.normal(0, 6, pixels.shape)).clip(0, 255).astype("uint8")
    return Image.fromarray(noisy).filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.8)))
