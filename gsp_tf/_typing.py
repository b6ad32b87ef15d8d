"""Types for signatures."""

import os
from typing import Any, TypeAlias

Tensor: TypeAlias = Any
"""A tensor of the Keras backend, or anything that converts to one."""

PathLike: TypeAlias = str | os.PathLike[str]
"""The path of a file or folder."""
