"""The study of optuna behind a search: an SQLite file, and trials that processes share."""

import contextlib
import sqlite3
from functools import partial

import numpy as np
from filelock import FileLock

from gsp_tf._console import to_install
from gsp_tf._files import locked

_SECONDS = 60  # that SQLite waits for another process


def import_optuna():
    """The package optuna, or an error that says how to get it."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError(f"Tuning needs optuna: {to_install('tune')} ({error}).") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


class Study:
    """A study of optuna, whose trials each belong to one process at a time."""

    # A process holds the lock of the folder of the trial that it runs. A running trial whose folder
    # nobody has locked belonged to a process that was killed, and the next process continues it.

    def __init__(self, path, seed, sampler, pruner):
        optuna = import_optuna()
        self._folder, self._seed = path.parent, seed
        self._samplers = {
            "tpe": optuna.samplers.TPESampler,
            "random": optuna.samplers.RandomSampler,
        }
        self._sampler = sampler
        connect = partial(sqlite3.connect, path, timeout=_SECONDS, check_same_thread=False)
        with self._claiming():
            # A path in an address would need its special characters quoted.
            storage = optuna.storages.RDBStorage("sqlite://", {"creator": connect})
            self.study = optuna.create_study(
                storage=storage,
                study_name="gsp_tf",
                direction="maximize",
                load_if_exists=True,
                pruner=pruner,
            )

    @property
    def trials(self):
        """All trials, frozen, by number."""
        return self.study.get_trials(deepcopy=False)

    def place(self, number):
        """The run folder of a trial."""
        return self._folder / "trials" / f"{number:04}"

    @contextlib.contextmanager
    def next_trial(self, count):
        """A trial that only this process runs, or `None` if `count` trials have begun."""
        with contextlib.ExitStack() as held:
            with self._claiming():
                trial = self._killed(held)
                if trial is None and len(self.trials) < count:
                    trial = self.study.ask()
                    held.enter_context(locked(self.place(trial.number)))
            if trial is not None:
                # The values of a trial depend on the seed, its number and the earlier trials, and
                # not on the process that runs it.
                seeds = np.random.SeedSequence([self._seed, trial.number])
                of_name = self._samplers[self._sampler]
                self.study.sampler = of_name(seed=int(seeds.generate_state(1)[0]))
            yield trial

    def _killed(self, held):
        """A trial that a killed process left running; its folder is then locked."""
        optuna = import_optuna()
        for frozen in self.study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
            with contextlib.suppress(BlockingIOError):  # its process lives
                held.enter_context(locked(self.place(frozen.number)))
                return optuna.trial.Trial(self.study, frozen._trial_id)
        return None

    @contextlib.contextmanager
    def writing(self):
        """Lets one process at a time write the results of all trials."""
        with FileLock(self._folder / ".results.lock"):
            yield

    def _claiming(self):
        """Lets one process at a time take a trial."""
        return FileLock(self._folder / ".trials.lock")
