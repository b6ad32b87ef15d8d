"""Arguments of classes that a recipe names."""

import inspect


def complete(field, of_class, given, filled_in):
    """The arguments that a recipe gives a class, and the defaults of the others.

    Args:
        field: name of the recipe's field, for messages.
        of_class: the class; `None` takes no arguments.
        given: dict of the arguments in the recipe.
        filled_in: names of the arguments that do not come from the recipe.

    Returns:
        dict.

    Raises:
        ValueError: if an argument is unknown, of the wrong type or missing.

    Example:
        >>> from gsp_tf.losses import TripletLoss
        >>> complete("loss.arguments", TripletLoss, {"margin": 0.2}, {"miner", "name"})
        {'margin': 0.2, 'normalize': True}
    """
    parameters = inspect.signature(of_class.__init__).parameters if of_class else {}
    parameters = {
        name: parameter
        for name, parameter in parameters.items()
        if name not in {"self", *filled_in} and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    }
    for name, value in given.items():
        if name not in parameters:
            accepted = ", ".join(parameters) or "none"
            raise ValueError(f"{field} must be among {accepted}, received {name}.")
        default = parameters[name].default
        if isinstance(default, float) and type(value) is int:
            continue
        if isinstance(default, (bool, int, float, str)) and type(value) is not type(default):
            raise ValueError(
                f"{field}.{name} must be of the type of {default!r}, received {value!r}."
            )
    missing = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty and name not in given
    ]
    if missing:
        raise ValueError(f"{field} must give {', '.join(missing)}.")
    return {name: given.get(name, parameter.default) for name, parameter in parameters.items()}
