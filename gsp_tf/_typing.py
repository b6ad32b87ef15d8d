"""Types that signatures name."""

import os
from typing import Any, TypeAlias

Tensor: TypeAlias = Any
"""A tensor of Keras' backend, or anything that it takes as one."""

PathLike: TypeAlias = str | os.PathLike[str]
"""The path of a file or folder."""
