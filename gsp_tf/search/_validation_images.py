"""The validation images of a run as labelled embeddings."""

import dataclasses

from gsp_tf._typing import PathLike
from gsp_tf.search.vector_sources import VectorSource, block_of_file


def validation_source(path: PathLike) -> VectorSource:
    """The validation images of a run, embedded by its model."""
    from gsp_tf.runs import evaluation_batches, fingerprint, load_splits
    from gsp_tf.search.embedding import RunModel

    model = RunModel(path)
    recipe = model.recipe
    others = "Embed images of other classes with gsp-tf embed, and calibrate these."
    if recipe.trainer == "classification":
        raise ValueError(
            f"The run {path} of trainer=classification has no validation classes but its training "
            f"classes. {others}"
        )
    if recipe.protocol.name in ("conventional", "tuning"):
        raise ValueError(
            f"The run {path} of protocol {recipe.protocol.name} has no validation classes but its "
            f"test classes. {others}"
        )
    data = dataclasses.replace(recipe.data, download=False)
    splits = load_splits(dataclasses.replace(recipe, data=data))
    trained = model.folder.metrics().get("train_classes")
    if trained not in (None, fingerprint(splits.train)):
        raise ValueError(
            f"The training classes are not those that {path} was trained on: the data or the split "
            "in its recipe have changed, and the model may have been trained on the others."
        )
    images = splits.validation
    labels = [images.class_names[label] for label in images.labels]
    batches = evaluation_batches(recipe, images)
    embeddings = model.embed_batches(batches, "Embedding the validation images")
    block = block_of_file(path, getattr(images, "paths", None), labels, embeddings)
    name = f"the validation classes of {path}"
    return VectorSource(lambda: [block], *embeddings.shape, "euclidean", model.info, name)
