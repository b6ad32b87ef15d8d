"""Folders with a model, its recipe, results and model card, to publish and to load again."""

import dataclasses
from pathlib import Path
from tempfile import TemporaryDirectory

import jinja2
import keras
import yaml

from gsp_tf._console import one_line, to_install
from gsp_tf._files import file_sha256, new_folder, refuse_existing, replace_text
from gsp_tf._keras import first_output
from gsp_tf._metadata import versions
from gsp_tf._typing import PathLike
from gsp_tf.export.metadata import (
    CARD,
    ExportMetadata,
    check_files,
    describe,
    public_recipe,
    without_place,
)
from gsp_tf.export.runs import KERAS_NAME, ServedEmbedder, compare, outputs_of, train_classes
from gsp_tf.runs import (
    RunFolder,
    baselines,
    best_epoch_note,
    recipe_facts,
    stop_note,
    untrained_note,
)
from gsp_tf.search import RunModel, find_thresholds
from gsp_tf.visual import display_name

_SCHEME = "hf://"
_MODEL, _METADATA = "model.keras", "metadata.json"
_FILES = (_MODEL, CARD, _METADATA, "thresholds.json", "recipe.yaml", "metrics.json")


def save_pretrained(
    model: keras.Model | RunModel | PathLike,
    folder: PathLike,
    license: str | None = None,
) -> Path | str:
    """Write a model to a folder to publish, or upload it to Hugging Face, with a model card.

    The folder holds `model.keras` (without the optimizer), `metadata.json` (with checksums) and
    `README.md` (the card, which you may edit). For a run it also holds `recipe.yaml`,
    `metrics.json` and, if the run was calibrated, `thresholds.json`: such a folder is itself a run
    folder for `gsp-tf embed`, `index` and `search`. Folders are cut from the paths in the recipe,
    and trackers are left out. The saved model is loaded and compared with the original before the
    folder appears.

    Args:
        model: a run folder, its `RunModel`, or a functional or sequential Keras model from images
            `(B, H, W, channels)` to embeddings `(B, D)`. For a `MetricLearner`, its embedder is
            saved.
        folder: folder to create, or "hf://USER/NAME", a repository on Hugging Face, which is
            created unless it exists; its files of these names are replaced. The last part is the
            name of the model in the card.
        license: licence of the model, an identifier of Hugging Face such as "apache-2.0".

    Returns:
        The folder, or the address on Hugging Face.

    Raises:
        FileExistsError: if the folder exists.
        OSError: if nobody is logged in at Hugging Face, or the upload fails.
        ValueError: if the model is of another kind, the run is an ensemble, its files do not
            match, or the saved model deviates by more than 1e-5.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> embedder = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten()])
        >>> with TemporaryDirectory() as folder:
        ...     saved = save_pretrained(embedder, f"{folder}/flat", license="apache-2.0")
        ...     from_pretrained(saved).output_shape
        (None, 192)
    """
    if not _is_on_hub(folder):
        return _save(model, folder, license)
    repository = _checked_repository(folder)
    with TemporaryDirectory() as place:
        saved = Path(place, Path(repository).name)
        _upload(_save(model, saved, license, repository), folder)
    return str(folder)


def from_pretrained(source: PathLike, revision: str | None = None) -> keras.Model:
    """Load the embedder of a published model, an exported one or a run.

    Args:
        source: folder of `save_pretrained` or of `export_run` with the format "keras", run folder,
            or "hf://USER/NAME", a model on Hugging Face that huggingface_hub downloads.
        revision: branch, tag or commit of a model on Hugging Face; `None` is its main branch.

    Returns:
        Keras model from images, float `(B, S, S, channels)` with pixels in [0, 255], to embeddings.

    Raises:
        OSError: if the folder holds no model, or the download fails.
        ValueError: if a file is damaged, or is not the one that `metadata.json` lists.

    Example:
        >>> from_pretrained("no/such/folder")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/folder holds no model: it has no model.keras or embedder.keras.
    """
    folder = _folder_of(source, revision)
    if (folder / _METADATA).is_file():
        metadata = ExportMetadata.read(folder)
        check_files(folder, metadata, may_have_more=True)
        if _model_path(folder).name not in metadata.sha256:
            raise ValueError(
                f"{folder / _METADATA} does not list {_model_path(folder).name}, so the model may "
                "be another one. gsp-tf publish writes the folder again."
            )
    return _load(folder)


def _save(model, folder, license, repository=None):
    """Write a model to a folder; `repository` is where it will be on Hugging Face, if known."""
    refuse_existing(folder)
    if isinstance(model, keras.Model):
        embedder, run = getattr(model, "embedder", model), None
        if not getattr(embedder, "outputs", None):
            raise ValueError(
                "The model must be functional or sequential, with known inputs and outputs; "
                f"received a {type(embedder).__name__}."
            )
        whole = embedder
    else:
        run = model if isinstance(model, RunModel) else RunModel(model)
        whole = run.learner()  # the file of the run holds its optimizer too
        embedder = whole.embedder
    with new_folder(folder) as temporary:
        whole.save(temporary / _MODEL)
        shape = embedder.inputs[0].shape
        compare(outputs_of(embedder), outputs_of(_load(temporary)), shape)
        name = Path(folder).name
        if run is None:
            metadata, recipe = _of_model(embedder, name), None
        else:
            recipe = public_recipe(run.recipe)
            metadata = _of_run(run, recipe, embedder, name, temporary)
        metadata.with_checksums(temporary).write(temporary)
        card = _model_card(metadata, recipe, license, repository or f"USER/{name}")
        replace_text(temporary / CARD, card)  # to be edited
    return Path(folder)


def _folder_of(source, revision):
    """The folder of a source, downloaded if it is on Hugging Face."""
    if _is_on_hub(source):
        hub, name = _hub_for(source)
        try:
            return Path(hub.snapshot_download(name, revision=revision, allow_patterns=[*_FILES]))
        except Exception as error:  # connections and the hub raise all kinds
            raise OSError(f"{source} cannot be downloaded: {one_line(error)}") from error
    if revision is not None:
        raise ValueError(f"A revision is of a model on Hugging Face; {source} is a folder.")
    return Path(source)


def _load(folder):
    model = RunFolder.load(_model_path(folder))
    return getattr(model, "embedder", model)


def _model_path(folder):
    path = next((folder / n for n in (_MODEL, KERAS_NAME) if (folder / n).is_file()), None)
    if path is None:
        raise FileNotFoundError(f"{folder} holds no model: it has no {_MODEL} or {KERAS_NAME}.")
    return path


def _of_run(run, public, embedder, name, folder):
    """The metadata of a run; writes its recipe, results and thresholds."""
    metrics = run.folder.metrics()
    dim = first_output(embedder.output).shape[-1]
    thresholds = find_thresholds(None, run.info, run.folder.path, None, None, dim)
    published = RunFolder(folder)
    published.write_recipe(public)
    published.update_metrics(**metrics)
    if thresholds is not None:
        info = {"sha256": file_sha256(folder / _MODEL), "run": name}
        ours = dataclasses.replace(run.info, **info)  # the same model in a file of its own
        without_place(dataclasses.replace(thresholds, model=ours)).write(folder / "thresholds.json")
    served, classes = ServedEmbedder(embedder), train_classes(run)
    described = describe(folder, "keras", served, run.recipe, metrics, classes, thresholds, ())
    return dataclasses.replace(described, name=name)


def _of_model(embedder, name):
    shape = embedder.inputs[0].shape
    output = first_output(embedder(keras.Input(batch_shape=shape)))
    inputs = {"dtype": "float32", "shape": list(shape), "minimum": 0, "maximum": 255}
    return ExportMetadata(
        format="keras",
        name=name,
        inputs={"images": inputs},
        outputs={"embedding": list(output.shape)},
        preprocessing={},
        train_classes=None,
        metrics={},
        recipe={},
        thresholds=None,
        versions=versions("keras", keras.backend.backend()),
        sha256={},
    )


def _is_on_hub(place):
    """Whether a place is an address such as hf://USER/NAME, not a folder."""
    return str(place).startswith(_SCHEME)


def _checked_repository(target):
    """USER/NAME of an address that a model can be uploaded to by the one who is logged in."""
    hub, name = _hub_for(target)
    try:
        hub.utils.validate_repo_id(name)
        is_valid = name.count("/") == 1
    except hub.utils.HFValidationError:
        is_valid = False
    if not is_valid:
        raise ValueError(f"A model on Hugging Face is named {_SCHEME}USER/NAME; received {target}.")
    if hub.get_token() is None:
        raise PermissionError(
            f"{target} needs a login at Hugging Face: run hf auth login, or set HF_TOKEN."
        )
    return name


def _upload(folder, target):
    """Create the repository of an address unless it exists, and make its files those of a model."""
    hub, name = _hub_for(target)
    try:  # as keras-hub's upload_preset, which takes a folder of save_to_preset alone
        hub.create_repo(name, exist_ok=True)
        hub.upload_folder(
            repo_id=name,
            folder_path=folder,
            commit_message="Upload model",
            allow_patterns=[*_FILES],
            delete_patterns=[*_FILES],  # those of an earlier model
        )
    except Exception as error:
        raise OSError(f"{target} cannot be uploaded: {one_line(error)}") from error


def _hub_for(place):
    """The package of Hugging Face, and the name in an address."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError(f"{place} needs huggingface_hub: {to_install('hub')}.") from error
    return huggingface_hub, str(place).removeprefix(_SCHEME)


_TAGS = ["gsp_tf", "keras", "metric-learning", "image-retrieval"]
_TASK = "image-feature-extraction"
_COUNTS = ("num_queries", "num_skipped")
_CHOSEN_BY_TEST = ("conventional", "tuning")


def _model_card(metadata, recipe, license, repository):
    """The text of a card; `recipe` is `None` for a model without a run."""
    metrics, untrained = metadata.metrics.get("test", {}), untrained_note(metadata.metrics)
    header = {
        **({} if license is None else {"license": license}),
        "library_name": "gsp_tf",
        "pipeline_tag": _TASK,
        "tags": _TAGS,
    }
    if metrics:
        header["model-index"] = [{"name": metadata.name, "results": [_results(recipe, metrics)]}]
    (inputs,) = metadata.inputs.values()
    values = {
        "header": yaml.safe_dump(header, sort_keys=False, allow_unicode=True),
        "dim": metadata.outputs["embedding"][-1],
        "shape": inputs["shape"][1:],
        "classes": metadata.metrics.get("num_classes", {}),
    }
    if recipe is not None:
        values |= {"used": _used(metadata), "facts": _facts(metadata, recipe)}
        values["place"] = f" ({Path(recipe.data.path).name})" if recipe.data.path else ""
    if metrics:
        values |= _evaluation(metadata, recipe)
    template = jinja2.Environment(
        loader=jinja2.PackageLoader("gsp_tf", "export"),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    ).get_template("card.md")
    given = {"metadata": metadata, "recipe": recipe, "license": license, "repository": repository}
    return template.render(**given, metrics=metrics, untrained=untrained, **values)


def _results(recipe, metrics):
    """The results in the form of Hugging Face's model index."""
    return {
        "task": {"type": _TASK, "name": "Image retrieval"},
        "dataset": {"name": recipe.data.name, "type": recipe.data.name},
        "metrics": [
            {"type": name, "name": display_name(name), "value": round(value, 6)}
            for name, value in metrics.items()
            if name not in _COUNTS
        ],
    }


def _used(metadata):
    """What the training images were for; an empty text if it is unknown."""
    images, classes = metadata.metrics.get("num_train_images"), metadata.metrics.get("num_classes")
    if images is None or not classes:
        return ""
    of_training = f"{images:,} images of {classes['train']:,} classes"
    if untrained_note(metadata.metrics) is None:
        return f"{of_training} trained the model, images"
    if metadata.metrics.get("epochs"):
        return f"{of_training} were trained on, but the model is the untrained one. Images"
    return "No images trained the model. Images"


def _evaluation(metadata, recipe):
    metrics, intervals = metadata.metrics["test"], metadata.metrics.get("test_intervals", {})
    rows = []
    for name, value in metrics.items():
        if name not in _COUNTS:
            ends = intervals.get(name)
            shown = "" if ends is None else f"{100 * ends[0]:.2f} to {100 * ends[1]:.2f}"
            rows.append((display_name(name), f"{100 * value:.2f}", shown))
    note = (
        "The test classes are those of the training, with other images."
        if recipe.trainer == "classification"
        else "The test classes were not seen in training."
    )
    if recipe.protocol.name in _CHOSEN_BY_TEST:
        note += " They also chose the model, so the numbers are too high for new classes."
    untrained = untrained_note(metadata.metrics)
    best = None if untrained else best_epoch_note(recipe, metadata.metrics)
    compared = baselines(recipe, metadata.metrics)
    gains = []
    for name in metrics if compared else ():
        cells = [cell for baseline in compared.values() for cell in _gain(baseline, name)]
        if any(cells):
            gains.append((display_name(name), *cells))
    return {
        "rows": rows,
        "note": " ".join(filter(None, (note, stop_note(metadata.metrics), best))),
        "single": "this is one training" if untrained is None else "this is one seed",
        "compared": list(compared or ()),
        "gains": gains,
        "added": "what training added"
        if untrained is None
        else "how far this untrained model is from it",
        "column": "gain" if untrained is None else "difference",
    }


def _gain(baseline, name):
    """Cells of a metric before training and of what training added to it."""
    if name not in baseline.metrics:
        return "", ""
    ends = baseline.gain_intervals.get(name)
    interval = "" if ends is None else f" [{100 * ends[0]:+z.2f}, {100 * ends[1]:+z.2f}]"
    return f"{100 * baseline.metrics[name]:.2f}", f"{100 * baseline.gain[name]:+z.2f}{interval}"


def _facts(metadata, recipe):
    facts = {**recipe_facts(recipe), "seed": recipe.seed}
    facts["made with"] = ", ".join(f"{name} {number}" for name, number in metadata.versions.items())
    return {n: str(fact).replace("|", r"\|").replace("\n", " ") for n, fact in facts.items()}
