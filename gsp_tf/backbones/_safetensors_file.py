"""State dicts in the safetensors format."""

from safetensors import SafetensorError, safe_open


class SafetensorsFile:
    """The tensors of a `.safetensors` file, read one at a time, and their shapes."""

    def __init__(self, path):
        self.path = path
        try:
            self._file = safe_open(path, framework="numpy")
            names = self._file.keys()
            self.shapes = {name: tuple(self._file.get_slice(name).get_shape()) for name in names}
        except SafetensorError as error:
            raise ValueError(f"{path}: {error}") from error

    def read(self, name):
        """One tensor as an array; raises for a type that NumPy lacks, such as float8."""
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
        return self

    def __exit__(self, *error):
        self._file.__exit__(*error)
