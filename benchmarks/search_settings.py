"""Search a model's settings on the validation rows of a data set; a storage file keeps every trial.

    python benchmarks/search_settings.py neumf diginetica --trials 30 --storage neumf.sqlite

Run again with the same storage, the search goes on where it was. Test rows are never looked at. A trial is
the mean validation NDCG@5 of two seeds, trained on everything; the first one is the model's defaults.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
from assent.settings import Settings
from assent.workbench import Workbench
from optuna.trial import FrozenTrial, Trial

from assent.models import MODELS
from common import load, validation_ndcg

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", choices=SPACES)
    parser.add_argument("dataset")
    parser.add_argument("--trials", type=int, default=20, help="how many more trials")
    parser.add_argument("--storage", required=True, help="sqlite file of the trials")
    asked = parser.parse_args()
    problem = load(asked.dataset)
    everything = np.ones(len(problem.train), dtype=np.bool_)

    def objective(trial: Trial) -> float:
        training = {
            "epochs": trial.suggest_int("epochs", 40, 80, step=10),
            "learning_rate": trial.suggest_float("learning_rate", 0.008, 0.03, log=True),
        }
        settings = Settings.model_validate(
            {"model": asked.model, "model_settings": SPACES[asked.model](trial), "training": training}
        )
        scores = [
            validation_ndcg(problem, Workbench(problem, settings, seed).final(everything)) for seed in SEEDS
        ]
        return float(np.mean(scores))

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
    """The default settings, as a trial; what the search leaves alone is ignored."""
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
