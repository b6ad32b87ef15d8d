"""`gsp-tf backbones`: the networks and their weights."""

from typing import get_args

from gsp_tf._names import Convertible


def command(names: list[str] = ()):
    """List the networks and where their weights come from.

    A star marks weights that are on this machine, so that no internet is needed for them.

    Args:
        names: networks, to see where their weights are or belong; hub lists the presets of
            keras-hub.
    """
    from gsp_tf import backbones

    if not names:
        for family, members in backbones.families().items():
            print(f"{family}: {', '.join(map(_marked, members))}")
        print("\ngsp-tf backbones NAME tells more about a network, and hub lists its presets.")
    for name in names:
        if name == "hub":
            _list_presets()
        else:
            print(f"{_marked(name)}: {_weights(name)}")


def _list_presets():
    from gsp_tf import backbones

    for kind, presets in backbones.image_presets().items():
        marked = (
            f"{preset}{_star(backbones.weights_source('hub', preset=preset))}" for preset in presets
        )
        print(f"{kind}: {', '.join(marked)}")
    print("\nTake one with backbone: {name: hub, preset: NAME, weights: pretrained}.")


def _marked(name):
    from gsp_tf import backbones

    return name + _star(backbones.weights_source(name))


def _star(source):
    return "*" if source and source.is_local else ""


def _weights(name):
    from gsp_tf import backbones

    source = backbones.weights_source(name)
    if source is not None:
        return f"{', '.join(backbones.pretrained(name))} {source.text}"
    if name in get_args(Convertible):
        return "a .weights.h5 file, which gsp-tf convert-weights makes from PyTorch's"
    return "a .weights.h5 file"
