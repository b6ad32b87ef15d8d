"""Packages that only a part of the library needs."""


def to_install(extra):
    """How to install an extra of `setup.cfg`.

    Args:
        extra: its name.

    Returns:
        str, the end of a sentence.

    Example:
        >>> to_install("onnx")
        'pip install ".[onnx]" in a checkout of gsp_tf'
    """
    return f'pip install ".[{extra}]" in a checkout of gsp_tf'
