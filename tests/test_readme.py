import re
from pathlib import Path

import numpy as np
from PIL import Image

README = Path(__file__).parent.parent / "README.md"


def test_the_example_runs(tmp_path, monkeypatch):
    """The Python example of the README, on images of its own and with fewer steps."""
    rng = np.random.default_rng(0)
    for name in range(12):
        folder = tmp_path / "my_images" / f"class {name}"
        folder.mkdir(parents=True)
        color = rng.integers(0, 255, 3)
        for i in range(4):
            pixels = np.clip(color + rng.normal(0, 20, (60, 50, 3)), 0, 255).astype("uint8")
            Image.fromarray(pixels).save(folder / f"{i}.jpg")
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len(code.strip().splitlines()) <= 16
    code = code.replace("classes_per_batch=16", "classes_per_batch=4")
    code = code.replace("steps_per_epoch=100, epochs=10", "steps_per_epoch=2, epochs=1")
    monkeypatch.chdir(tmp_path)
    namespace = {}
    exec(compile(code, str(README), "exec"), namespace)
    assert namespace["model"].output_shape[0] is None
