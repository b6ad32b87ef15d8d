"""The model card of a published model: a README.md whose header Hugging Face reads."""

from pathlib import Path

import jinja2
import yaml

from gsp_tf.runs import baselines, best_epoch_note, recipe_facts, stop_note, untrained_note
from gsp_tf.visual import display_name

_TAGS = ["gsp_tf", "keras", "metric-learning", "image-retrieval"]
_TASK = "image-feature-extraction"
_COUNTS = ("num_queries", "num_skipped")
_CHOSEN_BY_TEST = ("conventional", "tuning")


def model_card(metadata, recipe, license, repository):
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
