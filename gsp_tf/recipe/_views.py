"""Check that the losses of a recipe can learn from its embeddings and its views of images."""

from gsp_tf._names import named, names_with

_OF_LENGTHS = {"ada_face", "large_margin_softmax", "sphere_face"}
"""Losses that depend on the length of embeddings, which is 1 after every head."""


def check_views(recipe):
    """Refuse losses that have no use for the views of a recipe, or that miss the classes."""
    data, view_loss = recipe.data, recipe.view_loss
    if data.name == "unlabelled" and recipe.protocol.name != "fractions":
        recipe.protocol.refuse("name", "fractions with data.name=unlabelled, which has no classes")
    if data.views == 1:
        if view_loss is not None:
            data.refuse("views", f"2 with view_loss.name={view_loss.name}")
        return
    if recipe.trainer != "fit":
        recipe.refuse("trainer", "fit with data.views=2")
    if recipe.zero_shot.weight:
        recipe.zero_shot.refuse("weight", "0 with data.views=2, whose loss needs classes alone")
    if view_loss is not None and not _takes_views(view_loss):
        raise ValueError(
            f"view_loss.name={view_loss.name} needs classes, and views of images without a class "
            f"have none. Take a loss over pairs, such as nt_xent, or {_two_view()}."
        )
    if data.classes_per_batch:
        _check_with_classes(recipe)
    else:
        _check_without_classes(recipe)


def _check_with_classes(recipe):
    if _compares_views_alone(recipe):
        accepted = "0 with data.views=2 and a loss of views alone, which has no use for classes"
        recipe.data.refuse("classes_per_batch", accepted)
    if recipe.view_loss is None:
        raise ValueError(
            "data.views=2 needs a loss that compares views: view_loss besides "
            f"loss.name={recipe.loss.name}, or data.classes_per_batch=0 without classes."
        )


def _check_without_classes(recipe):
    loss, wrapper, view_loss = recipe.loss, recipe.loss_wrapper, recipe.view_loss
    if view_loss is not None:
        accepted = "null with data.classes_per_batch=0: loss is the loss of views"
        recipe.refuse("view_loss", accepted, view_loss.name)
    if not _takes_views(loss):
        raise ValueError(
            f"loss.name={loss.name} needs the class of each image, and data.classes_per_batch=0 "
            f"draws images without. Take a loss over pairs, such as nt_xent, or {_two_view()}."
        )
    if wrapper is not None and wrapper.name != "self_supervised":
        accepted = "null or self_supervised with data.classes_per_batch=0"
        recipe.refuse("loss_wrapper", accepted, wrapper.name)


def check_terms(recipe):
    """Refuse losses that miss the lengths of embeddings, or two views of each image."""
    rows_of_class = recipe.data.views * recipe.data.images_per_class
    for section in ("loss", "loss_wrapper", "view_loss"):
        chosen = getattr(recipe, section)
        for name, arguments in () if chosen is None else _terms_of(chosen):
            if name in _OF_LENGTHS:
                raise ValueError(
                    f"{section}.name={name} depends on the length of the embeddings, and those of "
                    "a recipe have length 1. Train with gsp_tf.training.MetricLearner and a model "
                    "of your own."
                )
            if arguments.get("reduction") == "none":
                raise ValueError(f"{section}.reduction=none gives no single number to train with.")
            if name == "vicreg" and not arguments["normalize"]:
                raise ValueError(
                    f"{section}.normalize must be true with {section}.name=vicreg, because the "
                    "embeddings of a recipe have length 1; received false."
                )
            is_two_view = section != "view_loss" and hasattr(named(section, name), "views_loss")
            if is_two_view and recipe.data.classes_per_batch and rows_of_class != 2:
                accepted = f"2 with {section}.name={name}, which compares two views"
                recipe.data.refuse("images_per_class", accepted)


def _terms_of(chosen):
    """The name and the arguments of a loss, or those of each term of a sum."""
    terms = [dict(term) for term in chosen.arguments.get("terms", ())]
    return [(term.pop("name"), term) for term in terms] or [(chosen.name, chosen.arguments)]


def _compares_views_alone(recipe):
    """Whether the loss of a recipe has no use for classes."""
    wrapper = recipe.loss_wrapper
    is_wrapped = wrapper is not None and wrapper.name == "self_supervised"
    return is_wrapped or all(_is_two_view(name) for name, _ in _terms_of(recipe.loss))


def _takes_views(loss):
    """Whether a loss can have the numbers of images in place of classes."""
    names = [name for name, _ in _terms_of(loss)]
    return all(_is_two_view(name) or hasattr(named("loss", name), "pairwise") for name in names)


def _is_two_view(name):
    """Whether a loss of this name compares two views by itself."""
    return hasattr(named("loss", name), "views_loss")


def _two_view():
    """The names of the losses of two views, in words."""
    return names_with("loss", "views_loss").replace(", ", " or ")
