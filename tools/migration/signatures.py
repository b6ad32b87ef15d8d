"""Writes the signatures of a library's public classes, one a line, from its unpacked wheel.

`make reference-signatures` runs it for every library of tools/migration/table.yaml and writes
tools/migration/LIBRARY.txt. The sources are read and not run, so nothing else is installed. A
package is public by what its `__init__.py` imports, and a module by its classes.
"""

import ast
import sys
from pathlib import Path

PUBLIC = {
    "pytorch_metric_learning": [
        "losses", "miners", "distances", "reducers", "regularizers", "samplers", "testers",
        "trainers", "datasets", "utils.accuracy_calculator", "utils.distributed",
        "utils.inference", "utils.logging_presets",
    ],
    "tensorflow_similarity": [
        "losses", "distances", "layers", "models", "architectures", "samplers", "augmenters",
        "callbacks", "training_metrics", "retrieval_metrics", "classification_metrics",
        "matchers", "evaluators", "indexer", "search", "stores", "schedules", "visualization",
    ],
    "tensorflow_addons": ["losses"],
}  # fmt: skip

# Arguments that pytorch-metric-learning's losses, miners and reducers hand to their base classes.
SHARED = {
    "collect_stats", "distance", "reducer", "embedding_regularizer", "embedding_reg_weight",
    "weight_init_func", "weight_regularizer", "weight_reg_weight",
}  # fmt: skip
# Names of objects, and the reduction of every Keras loss.
UNLISTED = ("name", "canonical_name", "aliases", "reduction")


def signatures(folder):
    """Qualified name and parameters of every public class and function of a library."""
    definitions = {
        node.name: node
        for file in sorted(folder.rglob("*.py"))
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    for module in PUBLIC[folder.name]:
        path = folder.joinpath(*module.split("."))
        for name in _names(path):
            parameters = _parameters(definitions, definitions[name]).items()
            parameters = sorted(parameters, key=lambda x: x[1] is not None)
            text = ", ".join(
                key if value is None else f"{key}={value}" for key, value in parameters
            )
            yield f"{module}.{name}({text})"


def _names(path):
    """What a package imports, or the public classes of a module."""
    if path.is_dir():
        imports = ast.parse((path / "__init__.py").read_text("utf-8")).body
        return [x.name for node in imports if isinstance(node, ast.ImportFrom) for x in node.names]
    module = ast.parse(path.with_suffix(".py").read_text("utf-8"))
    return [node.name for node in module.body if isinstance(node, ast.ClassDef)]


def _parameters(definitions, node):
    """Parameters and texts of their defaults, with those that `**` hands to a base class."""
    method, of_bases = node, {}
    if isinstance(node, ast.ClassDef):
        method = next((x for x in node.body if getattr(x, "name", "") == "__init__"), None)
        if method is None or method.args.kwarg:
            for base in map(ast.unparse, reversed(node.bases)):
                if base in definitions:
                    of_bases |= _parameters(definitions, definitions[base])
    if method is None:
        return of_bases
    arguments = method.args
    if not arguments.vararg:
        for call in ast.walk(method):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__":
                given = {*list(of_bases)[: len(call.args)], *(x.arg for x in call.keywords)}
                of_bases = {key: value for key, value in of_bases.items() if key not in given}
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
    pairs = zip(
        arguments.args + arguments.kwonlyargs, defaults + arguments.kw_defaults, strict=True
    )
    own = {x.arg: default and ast.unparse(default) for x, default in pairs}
    inherited = {key: value for key, value in of_bases.items() if key not in own.keys() | SHARED}
    return {
        key: value for key, value in (own | inherited).items() if key not in ("self", *UNLISTED)
    }


if __name__ == "__main__":
    print(*sorted(signatures(Path(sys.argv[1]))), sep="\n")
