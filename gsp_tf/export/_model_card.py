"""The model card of a published model: a README.md whose header Hugging Face reads."""

from pathlib import Path

import yaml

from gsp_tf.runs import (
    baselines,
    best_epoch_note,
    recipe_facts,
    stop_note,
    untrained_note,
)
from gsp_tf.visual import display_name

_LIBRARY = "gsp_tf"
_TAGS = [_LIBRARY, "keras", "metric-learning", "image-retrieval"]
_TASK = "image-feature-extraction"
_COUNTS = ("num_queries", "num_skipped")
_CHOSEN_BY_TEST = ("conventional", "tuning")


def model_card(metadata, recipe, license, repository):
    """The text of a card; `recipe` is `None` for a model without a run."""
    metrics, untrained = metadata.metrics.get("test", {}), untrained_note(metadata.metrics)
    header = {
        **({} if license is None else {"license": license}),
        "library_name": _LIBRARY,
        "pipeline_tag": _TASK,
        "tags": _TAGS,
    }
    if metrics:
        header["model-index"] = [{"name": metadata.name, "results": [_results(recipe, metrics)]}]
    dim = metadata.outputs["embedding"][-1]
    parts = [
        f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---",
        f"# {metadata.name}",
        f"This model maps an image to an embedding of {dim} numbers. Images of one class have "
        "embeddings that are close to each other, also for classes that it was not trained on.",
        _use(metadata, recipe, repository),
        *([] if untrained is None else [f"**{untrained}** Its weights are those before training."]),
        *([] if recipe is None else [_input(metadata), _data(metadata, recipe)]),
        *([_evaluation(metadata, recipe)] if metrics else []),
        *([] if recipe is None else [_training(metadata, recipe)]),
        _license(license),
    ]
    return "\n\n".join(parts) + "\n"


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


def _use(metadata, recipe, repository):
    (inputs,) = metadata.inputs.values()
    side, _, channels = inputs["shape"][1:]
    shape = f"(B, {side or 'H'}, {side or 'W'}, {channels})"
    lines = [
        "## How to use it",
        "",
        "```python",
        "import gsp_tf",
        "",
        f'embedder = gsp_tf.from_pretrained("hf://{repository}")  # or a folder',
        f"embeddings = embedder.predict(images)  # {shape}, pixels in [0, 255]",
        "```",
    ]
    if recipe is not None:
        lines += [
            "",
            "A folder with these files is also a run of the command line, which prepares image "
            "files itself:",
            "",
            "```sh",
            f"hf download {repository} --local-dir model",
            "gsp-tf embed model photos",
            "gsp-tf index model/embeddings",
            "gsp-tf search model photo.jpg",
            "```",
        ]
    return "\n".join(lines)


def _input(metadata):
    steps = [f"{number}. {step}" for number, step in enumerate(metadata.preprocessing["steps"], 1)]
    return "\n".join(["## From a file to the input", "", *steps])


def _data(metadata, recipe):
    data, classes = recipe.data, metadata.metrics.get("num_classes", {})
    place = f" ({Path(data.path).name})" if data.path is not None else ""
    lines = [
        "## Data",
        "",
        f"Data set `{data.name}`{place}, protocol `{recipe.protocol.name}`, images of "
        f"{data.image_size} x {data.image_size} pixels.",
    ]
    images = metadata.metrics.get("num_train_images")
    if images is not None and classes:
        of_training = f"{images:,} images of {classes['train']:,} classes"
        if untrained_note(metadata.metrics) is None:
            used = f"{of_training} trained the model, images"
        elif metadata.metrics.get("epochs"):
            used = f"{of_training} were trained on, but the model is the untrained one. Images"
        else:
            used = "No images trained the model. Images"
        lines.append(
            f"{used} of {classes['validation']:,} classes chose it, images of {classes['test']:,} "
            "classes tested it."
        )
    return "\n".join(lines)


def _evaluation(metadata, recipe):
    metrics, intervals = metadata.metrics["test"], metadata.metrics.get("test_intervals", {})
    rows = []
    for name, value in metrics.items():
        if name not in _COUNTS:
            ends = intervals.get(name)
            shown = "" if ends is None else f"{100 * ends[0]:.2f} to {100 * ends[1]:.2f}"
            rows.append(f"| {display_name(name)} | {100 * value:.2f} | {shown} |")
    note = (
        "The test classes are those of the training, with other images."
        if recipe.trainer == "classification"
        else "The test classes were not seen in training."
    )
    if recipe.protocol.name in _CHOSEN_BY_TEST:
        note += " They also chose the model, so the numbers are too high for new classes."
    untrained = untrained_note(metadata.metrics)
    best = None if untrained else best_epoch_note(recipe, metadata.metrics)
    note = " ".join(filter(None, (note, stop_note(metadata.metrics), best)))
    single = "this is one training" if untrained is None else "this is one seed"
    return "\n".join(
        [
            "## Evaluation",
            "",
            f"Retrieval of {metrics['num_queries']:,} test images. {note} The intervals hold 95 % "
            "of the means over resampled test classes. They do not hold the spread between seeds: "
            f"{single}.",
            "",
            "| metric | % | 95 % interval |",
            "| --- | --- | --- |",
            *rows,
            *_gains(metadata, recipe),
        ]
    )


def _gains(metadata, recipe):
    """The lines about the network before training, if the run was compared with it."""
    compared = baselines(recipe, metadata.metrics)
    if not compared:
        return []
    added, column = "what training added", "gain"
    if untrained_note(metadata.metrics) is not None:
        added, column = "how far this untrained model is from it", "difference"
    rows = []
    for name in metadata.metrics["test"]:
        cells = [cell for baseline in compared.values() for cell in _gain(baseline, name)]
        if any(cells):
            rows.append(" | ".join([f"| {display_name(name)}", *cells]) + " |")
    return [
        "",
        f"The same queries by the network before training, and {added}, in percentage points with "
        "95 % intervals:",
        "",
        f"| metric | {' | '.join(f'{name} | {column}' for name in compared)} |",
        "| --- |" + " --- | --- |" * len(compared),
        *rows,
    ]


def _gain(baseline, name):
    """Cells of a metric before training and of what training added to it."""
    if name not in baseline.metrics:
        return "", ""
    ends = baseline.gain_intervals.get(name)
    interval = "" if ends is None else f" [{100 * ends[0]:+z.2f}, {100 * ends[1]:+z.2f}]"
    return f"{100 * baseline.metrics[name]:.2f}", f"{100 * baseline.gain[name]:+z.2f}{interval}"


def _training(metadata, recipe):
    facts = {**recipe_facts(recipe), "seed": recipe.seed}
    facts["made with"] = ", ".join(f"{name} {number}" for name, number in metadata.versions.items())
    return "\n".join(
        [
            "## Training",
            "",
            "| | |",
            "| --- | --- |",
            *(f"| {name} | {_cell(fact)} |" for name, fact in facts.items()),
            "",
            "`recipe.yaml` holds all fields; `gsp-tf train recipe.yaml` trains the model again "
            "where the data are.",
        ]
    )


def _cell(text):
    return str(text).replace("|", r"\|").replace("\n", " ")


def _license(license):
    stated = "No licence was stated." if license is None else f"Licence: {license}."
    return f"## Licence\n\n{stated} Ask the publisher about the rights in the training images."
