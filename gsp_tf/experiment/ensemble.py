"""The models of the MLRC protocol, one for each fold and repeat, and their ensembles."""

import dataclasses

import keras
import numpy as np

from gsp_tf._files import locked
from gsp_tf.evaluation import ensemble_metrics
from gsp_tf.experiment.data import load_folds
from gsp_tf.experiment.evaluate import evaluate_run, kept_embeddings
from gsp_tf.experiment.folder import RunFolder
from gsp_tf.experiment.run import resume_run, train_recipe
from gsp_tf.recipe import save_recipe


def model_folders(folder):
    """The run folders of the models of a protocol run.

    Args:
        folder: `RunFolder` of the protocol.

    Returns:
        list with, for each fold, the list of `RunFolder` of its repeats.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from gsp_tf.recipe import ProtocolRecipe, Recipe
        >>> with TemporaryDirectory() as path:
        ...     recipe = Recipe(protocol=ProtocolRecipe("mlrc", num_folds=2))
        ...     folder = RunFolder.create(f"{path}/run", recipe)
        ...     [[model.path.name for model in fold] for fold in model_folders(folder)]
        [['fold-0-repeat-0'], ['fold-1-repeat-0']]
    """
    protocol = folder.recipe().protocol
    return [
        [RunFolder(folder.path / f"fold-{fold}-repeat-{r}") for r in range(protocol.repeats)]
        for fold in range(protocol.num_folds)
    ]


def train_ensemble(recipe, path, folds=None):
    """Train a model for each fold and repeat of protocol mlrc, and evaluate their ensembles.

    The models are runs of their own in folders of this one, each with a seed of its own. A run that
    was stopped continues with `resume_ensemble`.

    Args:
        recipe: `gsp_tf.recipe.Recipe` with protocol.name=mlrc and no fold.
        path: folder to create.
        folds: what `load_folds` gives for the recipe, if it is loaded already.

    Returns:
        `RunFolder`; its metrics hold the `status` and, once all models are there, what
        `ensemble_metrics` gives.

    Raises:
        BlockingIOError: if another process is writing the folder.
        FileExistsError: if the folder exists.
        ValueError: if the data or the recipe cannot be used.
    """
    RunFolder(path).refuse_existing()
    with RunFolder(path).training():
        folds = folds or load_folds(recipe)
        folder = RunFolder.create(path, recipe)
        try:
            return _train_models(folder, folds)
        finally:
            models = [model.path for repeats in model_folders(folder) for model in repeats]
            if not any(model.exists() for model in models):
                folder.recipe_path.unlink()
                folder.metrics_path.unlink(missing_ok=True)


def resume_ensemble(path, folds=None, changes=None):
    """Go on with a protocol run that was stopped, or give its models more epochs.

    Args:
        path: folder of `train_ensemble`.
        folds: what `load_folds` gives for its recipe, if it is loaded already.
        changes: as for `resume_run`, of every model.

    Returns:
        `RunFolder`, as `train_ensemble`.

    Raises:
        BlockingIOError: if another process is writing the folder.
        FileNotFoundError: if the folder is not a run folder.
        ValueError: as `resume_run`.

    Example:
        >>> resume_ensemble("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    folder = RunFolder(path)
    folder.require(folder.recipe_path)
    with folder.training():
        recipe = folder.recipe()
        if changes:
            training = dataclasses.replace(recipe.training, **changes)
            recipe = dataclasses.replace(recipe, training=training)
            save_recipe(recipe, folder.recipe_path)
            folder.update_metrics(without=["ensemble"])
        if "ensemble" in folder.metrics():
            return folder
        return _train_models(folder, folds or load_folds(recipe))


def _train_models(folder, folds):
    recipe = folder.recipe()
    changes = {"epochs": recipe.training.epochs, "patience": recipe.training.patience}
    folder.update_metrics(status="running")
    status = "failed"
    try:
        for f, repeats in enumerate(model_folders(folder)):
            for r, model in enumerate(repeats):
                print(f"Training fold {f}, repeat {r}", flush=True)
                if model.recipe_path.exists():
                    resume_run(model.path, folds[f], changes)
                else:
                    train_recipe(_model_recipe(recipe, f, r), model.path, folds[f])
                keras.backend.clear_session()
                if not model.is_trained():
                    status = "interrupted"
                    return folder
        evaluate_ensemble(folder.path, folds)
        status = "finished"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    finally:
        folder.update_metrics(status=status)
    return folder


def _model_recipe(recipe, fold, repeat):
    seeds = np.random.SeedSequence([recipe.seed, fold, repeat])
    return dataclasses.replace(
        recipe,
        name=f"{recipe.name}, fold {fold}, repeat {repeat}",
        seed=int(seeds.generate_state(1)[0]),
        protocol=dataclasses.replace(recipe.protocol, fold=fold, repeats=1),
    )


def evaluate_ensemble(path, folds=None):
    """Evaluate the trained models of a protocol run and their concatenations.

    Writes `metrics.json`. The models may have been trained elsewhere, each with its protocol.fold,
    if they lie where `model_folders` says.

    Args:
        path: folder of `train_ensemble`.
        folds: what `load_folds` gives for its recipe, if it is loaded already.

    Returns:
        dict of `ensemble_metrics`.

    Raises:
        BlockingIOError: if another process is writing the folder.
        FileNotFoundError: if a model is missing.
        ValueError: as `evaluate_run`, and if the training of a model has not come to its end.

    Example:
        >>> evaluate_ensemble("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    folder = RunFolder(path)
    folder.require(folder.recipe_path)
    with locked(folder.path):
        return _evaluate(folder, folds)


def _evaluate(folder, folds):
    recipe = folder.recipe()
    folds = folds or load_folds(recipe)
    models = [[RunFolder.open(m.path) for m in repeats] for repeats in model_folders(folder)]
    for splits, repeats in zip(folds, models, strict=True):
        for model in repeats:
            if not model.is_trained():
                raise ValueError(
                    f"{model.path} is not trained to its end; continue with "
                    f"gsp-tf train --resume {folder.path}"
                )
            if "test" not in model.metrics():
                evaluate_run(model.path, splits)
    embedded = [
        [kept_embeddings(model, model.recipe(), folds[f]) for model in repeats]
        for f, repeats in enumerate(models)
    ]
    first = embedded[0][0]
    metrics = ensemble_metrics(
        [[model.queries for model in repeats] for repeats in embedded],
        first.query_labels,
        None
        if first.references is None
        else [[model.references for model in repeats] for repeats in embedded],
        first.reference_labels,
        recipe.evaluation.recall_at,
    )
    folder.update_metrics(
        status="finished",
        test_classes=models[0][0].metrics()["test_classes"],
        num_classes={
            "train": [len(splits.train.class_names) for splits in folds],
            "validation": [len(splits.validation.class_names) for splits in folds],
            "test": len(folds[0].test.class_names),
        },
        ensemble=metrics,
    )
    return metrics
