"""Tests what the docstrings of losses say of arguments, weights and errors."""

import ast
import inspect

import pytest

from gsp_tf import losses

CLASSES = [value for name in losses.__all__ if inspect.isclass(value := getattr(losses, name))]


def own_constructor(loss):
    """The syntax tree of the constructor that a class itself defines, or `None`."""
    tree = ast.parse(inspect.getsource(loss))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return next((f for f in functions if f.name == "__init__"), None)


@pytest.mark.parametrize("loss", CLASSES, ids=lambda loss: loss.__name__)
def test_docstring_is_complete(loss):
    text, constructor = loss.__doc__, own_constructor(loss)
    if constructor is None:
        return
    assert "Raises:" in text or not any(isinstance(n, ast.Raise) for n in ast.walk(constructor))
    is_proxy_loss = issubclass(loss, losses.ProxyLoss)
    assert "proxies (num_classes" in text or not is_proxy_loss
    passes_on = constructor.args.kwarg is not None
    assert "kwargs:" in text or not (is_proxy_loss and passes_on)
