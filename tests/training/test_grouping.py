import re
from pathlib import Path

import keras
import numpy as np

DOCS = Path(__file__).parents[2] / "docs" / "grouping.md"


def test_the_example_of_the_docs_trains_and_is_saved(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    namespace = {}
    exec(compile(code.replace("epochs=20", "epochs=3, verbose=0"), str(DOCS), "exec"), namespace)
    learner, images = namespace["learner"], namespace["images"]
    losses = namespace["history"].history["loss"]
    assert losses[-1] < 0.8 * losses[0]
    betas = [np.asarray(w) for w in learner.embedding_loss.trainable_weights]
    assert [w.shape for w in betas] == 3 * [(10,)] and all((w != 1.2).all() for w in betas)
    pictures = namespace["pictures"]
    assert pictures.shape == (3, 8, 8, 3) and not np.array_equal(pictures[0], pictures[1])
    assert len(namespace["figure"].axes[0].images) == 3 * 12 * 2

    learner.save(tmp_path / "learner.keras")
    loaded = keras.models.load_model(tmp_path / "learner.keras")
    for weight, original in zip(loaded.weights, learner.weights, strict=True):
        np.testing.assert_array_equal(weight, original)
    embeddings = loaded.predict(images[:9], verbose=0)
    np.testing.assert_array_equal(embeddings, learner.predict(images[:9], verbose=0))
    lengths = np.linalg.norm(embeddings.reshape(9, 3, 16), axis=-1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-5)
