"""Check that a recipe can learn from the views in its batches."""

from gsp_tf._names import named, names_with


def check_views(recipe):
    """Refuse losses that have no use for the views of a recipe, or that miss the classes."""
    data, loss, view_loss = recipe.data, recipe.loss, recipe.view_loss
    if data.views == 1:
        if view_loss is not None:
            data.refuse("views", f"2 with view_loss.name={view_loss.name}")
        return
    if recipe.trainer != "fit":
        recipe.refuse("trainer", "fit with data.views=2")
    if recipe.zero_shot.weight:
        recipe.zero_shot.refuse("weight", "0 with data.views=2, whose loss needs classes alone")
    two_view = names_with("loss", "views_loss")
    wrapper = recipe.loss_wrapper
    compares_views = (wrapper is not None and wrapper.name == "self_supervised") or _views(loss)
    named_loss = f"loss.name={loss.name}"
    if compares_views and view_loss is not None:
        recipe.refuse("view_loss", "null with another loss of views", view_loss.name)
    if compares_views and data.classes_per_batch:
        accepted = "0 with data.views=2 and a loss of views alone, which has no use for classes"
        data.refuse("classes_per_batch", accepted)
    if not compares_views and not data.classes_per_batch:
        raise ValueError(
            f"{named_loss} needs the class of each image, and data.classes_per_batch=0 draws "
            f"images without. Take loss.name={two_view.replace(', ', ' or ')}, or a loss over "
            "pairs with loss_wrapper.name=self_supervised."
        )
    if not compares_views and view_loss is None:
        raise ValueError(
            f"data.views=2 needs a loss that compares views: view_loss besides {named_loss}."
        )
    if view_loss is not None and not _compares_pairs(view_loss):
        raise ValueError(
            f"view_loss.name={view_loss.name} needs classes, and views of images without a class "
            f"have none. Take a loss over pairs, such as nt_xent, or {two_view}."
        )


def _views(loss):
    """Whether a loss of a recipe compares two views by itself."""
    if loss.name == "weighted_sum":
        names = {term["name"] for term in loss.arguments["terms"]}
        return all(hasattr(named("loss", name), "views_loss") for name in names)
    return hasattr(named("loss", loss.name), "views_loss")


def _compares_pairs(loss):
    """Whether a loss of a recipe can be one of two views."""
    of_class = named("loss", loss.name)
    return hasattr(of_class, "views_loss") or hasattr(of_class, "pairwise")
