"""Why the model finds two images similar: what transport matches between them."""

from collections.abc import Sequence

import numpy as np

from gsp_tf._typing import PathLike, Tensor
from gsp_tf.data import UnreadableImageError
from gsp_tf.evaluation import match_tokens
from gsp_tf.runs import TokenModel, evaluation_batches
from gsp_tf.search.embedder import CheckedImages, RunModel
from gsp_tf.visual import draw_matches

_TOKENS = 32


def pair_pictures(tokens: TokenModel, images: Tensor, lines: int = 12) -> list[np.ndarray]:
    """Draws what the first image has in common with each of the others.

    The 32 local features of each image that weigh most are matched by partial transport
    (`match_tokens`), and the strongest pairs are joined by lines.

    Args:
        tokens: model of the tokens, on a map of local features.
        images: prepared images `(B, S, S, channels)`, pixels in [0, 255].
        lines: largest number of lines in a picture.

    Returns:
        B - 1 pictures, uint8 `(h, w, 3)`; none for tokens without a place in a map.

    Example:
        >>> from gsp_tf.runs import build_embedder
        >>> from gsp_tf.recipe import Recipe
        >>> tokens = TokenModel(build_embedder(Recipe(), channels=1), k=16)
        >>> pictures = pair_pictures(tokens, np.zeros((3, 48, 48, 1), "float32"))
        >>> len(pictures)
        2
    """
    images = np.asarray(images)
    count = len(images) - 1
    if count < 1 or tokens.grid is None:
        return []
    sets = tokens(images)
    query, others = sets.take([0]), sets.take(range(1, count + 1))
    _, plans = match_tokens(sets.take([0] * count), others)
    pixels = np.clip(np.rint(images), 0, 255).astype(np.uint8)
    return [
        draw_matches(pixels[0], other, plan, query.places[0], places, tokens.grid, lines)
        for other, plan, places in zip(pixels[1:], plans, others.places, strict=True)
    ]


def explain_neighbours(
    run: RunModel | PathLike, image: PathLike, others: Sequence[PathLike]
) -> list[np.ndarray | None]:
    """Draws what an image file has in common with other files, for the model of a run.

    Args:
        run: run folder, or its `RunModel`.
        image: image file.
        others: image files to compare it with.

    Returns:
        a picture for each of the others, uint8 `(h, w, 3)`, as `pair_pictures` makes it; None for a
        file that cannot be read.

    Raises:
        ValueError: if the first image cannot be read, or the pooling of the model has no weights.

    Example:
        >>> explain_neighbours("no/such/run", "query.jpg", ["other.jpg"])
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    model = run if isinstance(run, RunModel) else RunModel(run)
    tokens = TokenModel(model.embedder, _TOKENS)
    files = [str(file) for file in (image, *others)]
    checked = CheckedImages(files, model.embedder.input_shape[-1])
    batches = [np.asarray(images) for images, _ in evaluation_batches(model.recipe, checked)]
    readable = [not problem for problem in checked.problems]
    if not readable[0]:
        raise UnreadableImageError(files[0], checked.problems[0])
    pictures = iter(pair_pictures(tokens, np.concatenate(batches)[readable]))
    return [next(pictures, None) if found else None for found in readable[1:]]
