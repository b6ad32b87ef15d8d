"""State dicts in the safetensors format."""

from pathlib import Path

from safetensors import SafetensorError, safe_open


class SafetensorsFile:
    """The tensors of a `.safetensors` file, which are read one by one; to be used in `with`.

    `shapes` has their shapes by name.

    Args:
        path: file.

    Raises:
        ValueError: naming the file, if it is not in this format.

    Example:
        >>> SafetensorsFile(__file__)
        Traceback (most recent call last):
            ...
        ValueError: ...safetensors_file.py: ...
    """

    def __init__(self, path):
        self.path = Path(path)
        try:
            self._file = safe_open(self.path, framework="numpy")
            names = self._file.keys()
            self.shapes = {name: tuple(self._file.get_slice(name).get_shape()) for name in names}
        except SafetensorError as error:
            raise ValueError(f"{path}: {error}") from error

    def read(self, name):
        """One tensor.

        Args:
            name: one of `shapes`.

        Returns:
            numpy array.

        Raises:
            ValueError: naming the file and the tensor, if numpy does not know its type.
        """
        try:
            return self._file.get_tensor(name)
        except (TypeError, AttributeError) as error:
            kind = self._file.get_slice(name).get_dtype()
            raise ValueError(
                f"{self.path}: {name} is of type {kind}, which NumPy does not have. Save it as F32."
            ) from error
        except SafetensorError as error:
            raise ValueError(f"{self.path}: {name}: {error}") from error

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *error):
        self._file.__exit__(*error)
