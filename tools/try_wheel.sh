#!/bin/sh
# Uses a wheel as someone does who has no checkout: tools/try_wheel.sh PYTHON WHEEL VENV. Installs it
# alone, runs the demo, and trains, embeds, indexes and searches a folder of letters.
set -e
wheel=$(realpath "$2")
"$1" -m venv --clear "$3"
"$3/bin/python" -m pip install --quiet "$wheel"
cd "$3"
PATH=$PWD/bin:$PATH
gsp-tf --version
gsp-tf demo --epochs 1
python - <<'LETTERS'
from pathlib import Path

from PIL import Image

from gsp_tf.data import load_glyphs

letters = load_glyphs(images_per_class=10)
for number, label in enumerate(letters.labels):
    if label < 12:
        folder = Path("letters", str(label))
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(letters.image(number).squeeze()).save(folder / f"{number}.png")
LETTERS
gsp-tf train letters --training.epochs 1 --training.steps_per_epoch 5 --run trained
gsp-tf embed trained letters
gsp-tf index trained/embeddings
gsp-tf search trained letters/0/0.png
