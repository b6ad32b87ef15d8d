"""The models of the MLRC protocol, one per fold and repeat, and their ensembles."""

import dataclasses
import functools
import itertools
from pathlib import Path
from typing import Self

import keras
import numpy as np

from gsp_tf._console import command_line
from gsp_tf._files import locked
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import ensemble_metrics
from gsp_tf.recipe import Recipe
from gsp_tf.runs._evaluation import kept_embeddings
from gsp_tf.runs._report import print_results
from gsp_tf.runs.comparison import Comparison
from gsp_tf.runs.data import Splits, load_folds
from gsp_tf.runs.folder import RunFolder
from gsp_tf.runs.frozen import gain_texts
from gsp_tf.runs.run import Run, continuation, report_runs


def open_run(path: PathLike, recipe: Recipe | None = None) -> Run:
    """Open an existing run, or prepare a new run of a recipe.

    Args:
        path: the run folder.
        recipe: the recipe for a new folder; `None` opens an existing run.

    Returns:
        `Run`, or `Ensemble` if the recipe trains a model for each fold (protocol.name=mlrc).

    Raises: as `Run`.

    Example:
        >>> from gsp_tf.recipe import ProtocolRecipe
        >>> open_run("no/such/run", Recipe(protocol=ProtocolRecipe("mlrc"))).folder.path.name
        'run'
    """
    run = Run(path, recipe)
    return Ensemble(path, recipe) if run.recipe.protocol.is_ensemble else run


class Ensemble(Run):
    """The runs of protocol mlrc, one model per fold and repeat, and their concatenations.

    Each model is a run of its own in a subfolder, with its own seed. Models may be trained
    elsewhere, each with its protocol.fold, if they are in the folders of `model_folders`.

    Args:
        path: the folder.
        recipe: as in `Run`.

    Attributes:
        folder: `RunFolder`. Its metrics hold `ensemble_metrics` once all models are evaluated.
        recipe: the recipe.
        folds: list of `Splits`, one per fold, with the same test images.

    Raises: as `Run`.

    Example:
        >>> from gsp_tf.recipe import ProtocolRecipe
        >>> ensemble = Ensemble("no/such/run", Recipe(protocol=ProtocolRecipe("mlrc", num_folds=2)))
        >>> [[model.path.name for model in repeats] for repeats in ensemble.model_folders]
        [['fold-0-repeat-0'], ['fold-1-repeat-0']]
    """

    @functools.cached_property
    def folds(self) -> list[Splits]:
        return load_folds(self.recipe)

    @property
    def model_folders(self) -> list[list[RunFolder]]:
        """The folders of the models: for each fold, those of its repeats."""
        protocol, path = self.recipe.protocol, self.folder.path
        return [
            [RunFolder(path / f"fold-{fold}-repeat-{r}") for r in range(protocol.repeats)]
            for fold in range(protocol.num_folds)
        ]

    @property
    def models(self) -> list[list[Run]]:
        """The runs of the models: for each fold, those of its repeats."""
        return [
            [self._model(model.path, fold) for model in repeats]
            for fold, repeats in enumerate(self.model_folders)
        ]

    def _model(self, path, fold, recipe=None):
        model = Run(path, recipe)
        model.splits = self.folds[fold]
        model.folder.frozen_path = self.folder.frozen_path  # it is the same for all models
        return model

    @property
    def status(self) -> str | None:
        """As in `Run`, but "diverged" if the training of a model diverged."""
        status = super().status
        models = itertools.chain(*self.model_folders)
        diverged = any(model.metrics().get("status") == "diverged" for model in models)
        return "diverged" if status == "finished" and diverged else status

    def train(self) -> Self:
        """Train a model per fold and repeat, and evaluate their ensembles; as `Run.train`."""
        self.folder.refuse_existing()
        with self.folder.training():
            self.folds  # noqa: B018  (refuses unusable images first)
            self.folder.start(self.recipe)
            try:
                self._train_models()
            finally:
                if not any(model.path.exists() for model in itertools.chain(*self.model_folders)):
                    self.folder.recipe_path.unlink()
                    self.folder.metrics_path.unlink(missing_ok=True)
        return self

    def resume(self, **changes: int | None) -> Self:
        """Continue a stopped protocol run, or give its models more epochs; as `Run.resume`."""
        with self.folder.training():
            self.recipe = self.folder.recipe()
            if changes:
                training = dataclasses.replace(self.recipe.training, **changes)
                self.recipe = dataclasses.replace(self.recipe, training=training)
                self.folder.update_metrics(without=["ensemble"])
                self.folder.write_recipe(self.recipe)
            if "ensemble" not in self.folder.metrics():
                self._train_models()
        return self

    def _train_models(self):
        self.folder.update_metrics(status="running")
        status = "failed"
        try:
            if self._all_trained():
                self.evaluate()
                status = "finished"
            else:
                status = "interrupted"
        except KeyboardInterrupt:
            status = "interrupted"
            raise
        finally:
            self.folder.update_metrics(status=status)

    def _all_trained(self):
        """Train the models one after another; stop at an interrupted one."""
        training = self.recipe.training
        for fold, repeats in enumerate(self.model_folders):
            for repeat, folder in enumerate(repeats):
                print(f"Training fold {fold}, repeat {repeat}", flush=True)
                if folder.recipe_path.exists():
                    model = self._model(folder.path, fold)
                    model.resume(epochs=training.epochs, patience=training.patience)
                else:
                    self._model(folder.path, fold, self._model_recipe(fold, repeat)).train()
                keras.backend.clear_session()
                if not folder.is_trained():
                    return False
        return True

    def _model_recipe(self, fold, repeat):
        recipe = self.recipe
        seeds = np.random.SeedSequence([recipe.seed, fold, repeat])
        return dataclasses.replace(
            recipe,
            name=f"{recipe.name}, fold {fold}, repeat {repeat}",
            seed=int(seeds.generate_state(1)[0]),
            protocol=dataclasses.replace(recipe.protocol, fold=fold, repeats=1),
        )

    def evaluate(self) -> dict:
        """Evaluate the trained models and their concatenations, and write `metrics.json`.

        Returns:
            dict of `ensemble_metrics`.

        Raises:
            ValueError: as `Run.evaluate`, and if the training of a model is not finished.
        """
        with locked(self.folder.path):
            models = self.models
            for model in itertools.chain(*models):
                folder = model.folder
                folder.require(folder.model_path)
                if not folder.is_trained():
                    raise ValueError(
                        f"{folder.path} is not trained to its end; continue with "
                        f"{command_line('train', '--resume', self.folder.path)}"
                    )
                if kept_embeddings(model) is None:
                    model.evaluate()
            embedded = [[model.test_embeddings() for model in repeats] for repeats in models]
            first = embedded[0][0]
            references = [[model.references for model in repeats] for repeats in embedded]
            metrics = ensemble_metrics(
                [[model.queries for model in repeats] for repeats in embedded],
                first.query_labels,
                None if first.references is None else references,
                first.reference_labels,
                self.recipe.evaluation.recall_at,
            )
            self.folder.update_metrics(
                status="finished",
                test_classes=models[0][0].folder.metrics()["test_classes"],
                num_classes={
                    "train": [len(splits.train.class_names) for splits in self.folds],
                    "validation": [len(splits.validation.class_names) for splits in self.folds],
                    "test": len(self.folds[0].test.class_names),
                },
                ensemble=metrics,
            )
        return metrics

    def report(self) -> Path:
        """Write the page about the first model of each fold and return its path."""
        shown = [repeats[0] for repeats in self.models]
        return report_runs(shown, self.folder.report_path, self.recipe.name)

    def show(self):
        """Print the results of all models and of their ensembles, and write the page.

        Without all of them, print only how to continue.
        """
        folders = [*itertools.chain(*self.model_folders)]
        models = [folder.metrics() for folder in folders]
        if "ensemble" in self.folder.metrics():
            print_results(folders)
            print(Comparison([self.folder.path]).markdown())
            print(f"Report: {self.report()}")
            for said in gain_texts(self.recipe, models):
                print(said)
        print(continuation(self.folder.path, self.recipe, models), end="")
