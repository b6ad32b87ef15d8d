"""Runs of experiment trackers, which get their epochs by the tracker's own Keras callback."""

import abc
import contextlib
import importlib
import importlib.util
import warnings
from typing import Literal

import keras

from gsp_tf._console import one_line, to_install
from gsp_tf._names import flattened

_PARAMS_PER_CALL = 100  # MLflow's limit


class _Tracker(keras.callbacks.Callback, abc.ABC):
    """A run of a tracker: it is opened, gets epochs and results, and is closed."""

    # The tracker counts epochs from 1; 0 is before training. If it fails during training, a warning
    # says so, and the training continues without it.

    package = ""

    def __init__(self):
        super().__init__()
        self._epochs = None  # the tracker's own callback while a run is open
        self._has_failed = False  # during training
        if importlib.util.find_spec(self.package) is None:
            raise ImportError(
                f"{type(self).__name__} needs {self.package}: {to_install('trackers')}."
            )

    def open(self, name, parameters, run_id, folder):
        """Open a run of the tracker with nested parameters, or continue one; its identifier."""
        with self._explaining("opens no run"):
            run_id, self._epochs = self._opened(name, parameters, run_id, folder)
        self._has_failed = False
        return run_id

    def log_untrained(self, metrics):
        """Add the values before training to the open run, once `fit` has begun, as its epoch 0."""
        self._send(0, metrics)

    def log_results(self, metrics):
        """Add the results of an evaluation to the open run."""
        if not self._has_failed:
            with self._explaining("does not take the results"):
                self._log(metrics)

    def close(self, status):
        """End the run, if one is open: "finished", "interrupted" or "failed"."""
        if self._epochs is not None:
            self._epochs = None
            quiet = contextlib.suppress(OSError if self._has_failed else ())
            with quiet, self._explaining("does not end its run"):
                self._close(status)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._send(epoch + 1, logs)

    def _send(self, epoch, logs):
        """Send an epoch, unless an earlier one has failed."""
        if self._has_failed:
            return
        try:
            problem = f"did not accept epoch {epoch}; later epochs are not sent to it"
            with self._explaining(problem):
                self._epochs.set_model(self.model)
                self._epochs.on_epoch_end(epoch, logs)
        except OSError as error:
            self._has_failed = True
            warnings.warn(str(error), stacklevel=2)

    @contextlib.contextmanager
    def _explaining(self, problem):
        """Turn what the tracker raises into one sentence."""
        try:
            yield
        except Exception as error:  # trackers and their connections raise all kinds
            raise OSError(f"{self.package} {problem}: {one_line(error)}") from error

    @abc.abstractmethod
    def _opened(self, name, parameters, run_id, folder):
        """The identifier of an open run, and the callback that sends its epochs."""

    @abc.abstractmethod
    def _log(self, metrics): ...

    @abc.abstractmethod
    def _close(self, status): ...


class WandbTracker(_Tracker):
    """The runs of a recipe at Weights & Biases, through its `WandbMetricsLogger`.

    In a `fit` of your own, use `wandb.init` and `wandb.integration.keras.WandbMetricsLogger`.

    Args:
        project: project of the run.
        entity: user or team; `None` is the default of the account.
        group: group of the run, such as the runs of several seeds.
        mode: "online"; "offline", which keeps the run in files for `wandb sync`; or "disabled".
            `None` takes the environment variable `WANDB_MODE`.

    Raises:
        ImportError: if the package wandb is not installed.

    Example:
        callbacks: {wandb: {project: birds}}
    """

    package = "wandb"

    def __init__(
        self,
        project: str = "gsp_tf",
        entity: str | None = None,
        group: str | None = None,
        mode: Literal["online", "offline", "disabled"] | None = None,
    ):
        super().__init__()
        self.place = {"project": project, "entity": entity, "group": group, "mode": mode}

    def _opened(self, name, parameters, run_id, folder):
        import wandb

        self._run = wandb.init(
            **self.place,
            name=name,
            config=parameters,
            allow_val_change=True,  # a run that continues may have more epochs
            id=run_id,
            resume="allow" if run_id else None,
            dir=folder,
        )
        callbacks = importlib.import_module("wandb.integration.keras")
        return self._run.id, callbacks.WandbMetricsLogger()

    def _log(self, metrics):
        self._run.summary.update(metrics)

    def _close(self, status):
        self._run.finish(exit_code=0 if status == "finished" else 1)


class MlflowTracker(_Tracker):
    """The runs of a recipe at MLflow, through its `MlflowCallback`.

    The extra `[trackers]` installs mlflow-skinny, which reaches a tracking server. A database or
    files on this machine need the package mlflow. In a `fit` of your own, use `mlflow.start_run`
    and `mlflow.keras.MlflowCallback`.

    Args:
        experiment: experiment of the run; it is made if it does not exist.
        tracking_uri: address of the server, or a database or folder; `None` takes the environment
            variable `MLFLOW_TRACKING_URI`.

    Raises:
        ImportError: if the package mlflow is not installed.

    Example:
        callbacks: {mlflow: {experiment: birds, tracking_uri: "http://127.0.0.1:5000"}}
    """

    package = "mlflow"

    def __init__(self, experiment: str = "gsp_tf", tracking_uri: str | None = None):
        super().__init__()
        self.experiment, self.tracking_uri = experiment, tracking_uri

    def _opened(self, name, parameters, run_id, folder):
        import mlflow

        if self.tracking_uri is not None:
            mlflow.set_tracking_uri(self.tracking_uri)
        mlflow.set_experiment(self.experiment)
        run = mlflow.start_run(run_id=run_id, run_name=name if run_id is None else None)
        if run_id is None:  # MLflow refuses to change parameters
            fields = list(flattened(parameters).items())
            for start in range(0, len(fields), _PARAMS_PER_CALL):
                mlflow.log_params(dict(fields[start : start + _PARAMS_PER_CALL]))
        return run.info.run_id, importlib.import_module("mlflow.keras").MlflowCallback()

    def _log(self, metrics):
        importlib.import_module("mlflow").log_metrics(metrics)

    def _close(self, status):
        of_mlflow = {"finished": "FINISHED", "interrupted": "KILLED"}
        importlib.import_module("mlflow").end_run(of_mlflow.get(status, "FAILED"))
