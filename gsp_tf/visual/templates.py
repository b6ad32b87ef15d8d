"""Templates of the pages."""

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def page_template(name, folder="visual"):
    """A template; it escapes every text and refuses unknown names.

    Args:
        name: file name.
        folder: the folder of gsp_tf that it is in; it can build on templates of `visual`.

    Returns:
        `jinja2.Template`.

    Example:
        >>> page_template("page.html").render(title="a < b").count("a &lt; b")
        1
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("gsp_tf", place) for place in (folder, "visual")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
