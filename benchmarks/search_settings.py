"""Search a model's settings on the validation rows of a data set; a storage file keeps every trial.

    search_settings.py --model neumf --dataset diginetica --trials 30 --storage neumf.sqlite

With the same storage, the search goes on where it was. Test rows are never looked at. A trial is the mean
validation NDCG@5 of two seeds, trained on everything; the first trial is the model's defaults.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, Trial

from assent.models import MODELS
from assent.training import Settings
from common import QUICK_EPOCHS, Option, load, read_options, train, validation_ndcg

SEEDS = (0, 1)


def _neumf(trial: Trial) -> dict[str, Any]:
    return {
        "strength": trial.suggest_float("strength", 0.4, 0.9),
        "perceptron_prior": trial.suggest_float("perceptron_prior", 1, 100, log=True),
        "decay": trial.suggest_float("decay", 0.03, 1, log=True),
        "layer_scale": trial.suggest_float("layer_scale", 0.1, 1, log=True),
    }


def _lightgcn(trial: Trial) -> dict[str, Any]:
    return {
        "layers": trial.suggest_int("layers", 1, 4),
        "strength": trial.suggest_float("strength", 0.2, 1, log=True),
    }


def _din(trial: Trial) -> dict[str, Any]:
    return {
        "strength": trial.suggest_float("strength", 0.3, 0.8),
        "decay": trial.suggest_float("decay", 0.1, 3, log=True),
        "attention_decay": trial.suggest_float("attention_decay", 0.1, 3, log=True),
        "bias_prior": trial.suggest_float("bias_prior", 3, 100, log=True),
    }


def _cdae(trial: Trial) -> dict[str, Any]:
    return {
        "activation": trial.suggest_categorical("activation", ["identity", "tanh"]),
        "corruption": trial.suggest_float("corruption", 0, 0.8),
        "strength": trial.suggest_float("strength", 0.3, 1.2, log=True),
        "input_strength": trial.suggest_float("input_strength", 0.1, 1, log=True),
        "tie": trial.suggest_float("tie", 0.3, 10, log=True),
        "bias_prior": trial.suggest_float("bias_prior", 3, 100, log=True),
    }


SPACES: dict[str, Callable[[Trial], dict[str, Any]]] = {
    "neumf": _neumf,
    "lightgcn": _lightgcn,
    "din": _din,
    "cdae": _cdae,
}


def main() -> None:
    asked = read_options(
        __doc__,
        model=Option("neumf", f"one of {', '.join(SPACES)}"),
        dataset=Option("diginetica", "data set"),
        trials=Option(20, "how many more trials", quick=2),
        storage=Option("search.sqlite", "sqlite file of the trials"),
    )
    problem = load(asked.dataset, quick=asked.quick)

    def objective(trial: Trial) -> float:
        training = {
            "epochs": trial.suggest_int("epochs", 40, 80, step=10),
            "learning_rate": trial.suggest_float("learning_rate", 0.008, 0.03, log=True),
        }
        if asked.quick:
            training["epochs"] = QUICK_EPOCHS
        settings = Settings.model_validate(
            {"model": asked.model, "model_settings": SPACES[asked.model](trial), "training": training}
        )
        return float(np.mean([validation_ndcg(problem, train(problem, settings, s)) for s in SEEDS]))

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        study_name=f"{asked.model} on {asked.dataset}",
        storage=f"sqlite:///{asked.storage}",
        sampler=optuna.samplers.TPESampler(seed=0),
        direction="maximize",
        load_if_exists=True,
    )
    if not study.trials:
        study.enqueue_trial(_defaults(asked.model))
    study.optimize(objective, n_trials=asked.trials, callbacks=[_report])
    print(f"best: {study.best_value:.2f} % with {study.best_params}")


def _defaults(model: str) -> dict[str, Any]:
    """Return the default settings as a trial; the search ignores those that are not in its space."""
    settings = Settings.model_validate({"model": model})
    return {
        **MODELS[model].Settings().model_dump(),
        "epochs": settings.training.epochs,
        "learning_rate": settings.training.learning_rate,
    }


def _report(study: optuna.Study, trial: FrozenTrial) -> None:
    chosen = ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in trial.params.items()
    )
    print(f"{trial.number}: {trial.value:.2f} % with {chosen}", flush=True)


if __name__ == "__main__":
    main()
