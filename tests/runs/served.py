"""Small runs to be served: a model trained on disclosed rows, in a folder, without a fit."""

from pathlib import Path

import numpy as np
import polars as pl

from assent.data.interactions import NO_ROWS
from assent.data.problem import Problem, make_problem
from assent.data.simulate import simulate
from assent.runs.folder import Run
from assent.runs.manifest import RunFiles, read_manifest
from assent.support.arrays import Bools
from assent.training import Settings, disclose, train
from assent.training.stored import as_files


def problem_of(users: int = 40, items: int = 60, seed: int = 0) -> Problem:
    log = simulate(preference="learnable", users=users, items=items, seed=seed)
    return make_problem(log, "paper-tables", negatives=9)


def some_disclosed(problem: Problem) -> Bools:
    """Two thirds of the rows; nothing of every seventh person."""
    return (np.arange(len(problem.train)) % 3 > 0) & (problem.train.users % 7 > 0)


def run_in(
    folder: Path,
    problem: Problem,
    disclosed: Bools,
    model: str = "mf",
    sealed: list[tuple[str, str, str]] | None = None,
    epochs: int = 4,
) -> Run:
    """Train on the disclosed rows; `sealed` has user, item and reason of what was turned away."""
    settings = Settings.model_validate({"model": model, "training": {"epochs": epochs}})
    trained = train(
        disclose(problem, disclosed),
        model=model,
        model_settings=settings.model_settings,
        settings=settings.training,
        seed=0,
    )
    files = RunFiles(folder)
    for name, content in as_files(trained, "model").items():
        files.write(name, content)
    files.finish(problem="", decisions="", seconds=0.0)
    items = problem.item_ids[problem.train.items]
    selection = pl.DataFrame(
        {
            "user": problem.user_ids[problem.train.users],
            "item": items,
            "title": [f"The {item}" for item in items.tolist()],
            "disclosed": disclosed,
        }
    )
    held_out = pl.DataFrame(
        {"user": problem.user_ids[problem.test.users], "item": problem.item_ids[problem.test.items]}
    )
    turned_away = [
        {"user": user, "item": item, "title": "A secret", "unwillingness": 1.0, "reason": reason}
        for user, item, reason in sealed or []
    ]
    return Run(
        folder=folder,
        settings={},
        selection=selection,
        held_out=held_out,
        sealed=pl.DataFrame(turned_away, NO_ROWS.schema),
        records=[],
        certificate={},
        manifest=read_manifest(folder),
    )
