"""The trackers of a run: they get its recipe, every epoch and the results."""

import warnings

from gsp_tf._files import read_sealed_json, replace_bytes, sealed_json
from gsp_tf._names import named
from gsp_tf.recipe import recipe_values


class Trackers:
    """The trackers that a recipe names; `trackers.json` in the run folder keeps their runs."""

    def __init__(self, recipe, folder):
        self._recipe, self._folder, self._is_open = recipe, folder, False
        self._by_name = {
            name: named("callbacks", name)(**arguments)
            for name, arguments in recipe.callbacks.items()
            if name in ("mlflow", "wandb")
        }
        self.callbacks = list(self._by_name.values())  # they send the epochs

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        status = "failed" if kind else self._folder.metrics().get("status")
        self._each("close", status)

    def open(self):
        """Open the tracker runs, or continue those of the run folder, unless they are open."""
        if self._is_open:
            return
        path, values = self._folder.trackers_path, recipe_values(self._recipe)
        again = "Restore a copy, or remove it: the trackers then begin new runs."
        ids = read_sealed_json(path, again) if path.exists() else {}
        for name, tracker in self._by_name.items():
            ids[name] = tracker.open(
                self._recipe.name, values, ids.get(name), str(self._folder.path.absolute())
            )
            replace_bytes(path, sealed_json(ids))
        self._is_open = True

    def log_untrained(self, metrics):
        """Send the metrics of the untrained model, if there are any, as epoch 0."""
        if metrics:
            self._each("log_untrained", metrics)

    def log_results(self):
        """Send the results in the run folder."""
        if not self.callbacks:
            return
        self.open()
        found = self._folder.metrics()
        results = {f"test/{name}": value for name, value in found["test"].items()}
        for name, (low, high) in found.get("test_intervals", {}).items():
            results |= {f"test/{name}_low": low, f"test/{name}_high": high}
        # Epoch 0 is the untrained model.
        best = {name: found[name] or 0 for name in found if name.startswith("best_")}
        self._each("log_results", results | best)

    def _each(self, method, *arguments):
        """Call a method of every tracker; a failure does not fail the run, which is on disk."""
        for tracker in self.callbacks:
            try:
                getattr(tracker, method)(*arguments)
            except OSError as error:
                warnings.warn(str(error), stacklevel=2)
