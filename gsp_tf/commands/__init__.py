"""The commands of `gsp-tf`: one module with a function `command` for each.

The signature and the docstring of the function give the parser and the help of the command. The
function returns the exit code, or `None` for 0. It imports what it needs when it runs, so that
`gsp-tf --help` starts at once.
"""

import importlib

_NAMES = """train adapt tune check evaluate rank verify report demo backbones convert-weights export
publish bench embed embed-collection index search calibrate dedup clean explore"""

COMMANDS = {
    name: importlib.import_module(f"{__name__}.{name.replace('-', '_')}") for name in _NAMES.split()
}
"""The modules by the names of their commands, in the order of the help."""
