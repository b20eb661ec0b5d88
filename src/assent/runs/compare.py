"""Methods against each other: at prices (`compare`), and within budgets (`frontier`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from assent.data.problem import Problem
from assent.game.estimates import Objective
from assent.lab.executor import SERIAL, Executor
from assent.lab.store import Store
from assent.methods import METHODS, Method, make_method
from assent.models import IALS
from assent.results.records import REFERENCES
from assent.runs.measure import Cell, ModelCells, measured
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Progress
from assent.training import Settings

USUAL = ("random", "threshold", "occurrence", "worth")
"""Methods that are compared where none are named."""


def parse_methods(
    text: str | None, *, model: str = IALS.name, settings: Mapping[str, Mapping[str, Any]] | None = None
) -> list[Method]:
    """Return methods from `name` or `name:objective`, separated by commas; a bare name is every objective.

    None means `USUAL`. `settings` are those of each method, by its name. All and Nothing are left out: they
    are always compared with.
    """
    chosen: dict[tuple[str, str], Method] = {}
    for part in USUAL if text is None else text.split(","):
        name, _, objective = part.strip().partition(":")
        if name not in METHODS:
            raise AssentError(f"methods {part.strip()}: unknown; accepted: {', '.join(METHODS)}")
        objectives = METHODS[name].objectives
        if objective and objective not in objectives:
            known = ", ".join(objectives) or "none"
            raise AssentError(f"methods {part.strip()}: objectives of {name}: {known}")
        if name in REFERENCES:
            continue
        given = dict((settings or {}).get(name, {}))
        if "objective" not in METHODS[name].model_fields:
            chosen[name, ""] = make_method(name, model, **given)
            continue
        for each in [Objective(objective)] if objective else objectives:
            chosen[name, each] = make_method(name, model, **{**given, "objective": each})
    return list(chosen.values())


def compare(
    problem: Problem,
    models: Sequence[tuple[Settings, Sequence[Method]]],
    *,
    prices: Sequence[float],
    seeds: Sequence[int],
    k: Sequence[int] = (5,),
    store: Store | None = None,
    executor: Executor = SERIAL,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Return records of every model with its methods, All and Nothing, at every price and for every seed.

    A seed sets anchors, lots, initial parameters and negatives; the split and the unwillingness are the
    problem's, so that all records of a seed are paired. With `store`, finished cells are kept: a killed
    comparison goes on where it was, and another process may work on it at the same time.
    """
    groups = []
    for settings, methods in models:
        everyone = [each for each in methods if each.name not in REFERENCES] + [*map(make_method, REFERENCES)]
        cells = tuple(
            Cell(method, price, k=tuple(k)) for method in everyone for price in dict.fromkeys(prices)
        )
        groups += [ModelCells(settings, seed, cells) for seed in seeds]
    return measured(problem, groups, store=store, executor=executor, label="comparing", progress=progress)


def frontier(
    problem: Problem,
    settings: Settings,
    *,
    methods: Sequence[Method],
    points: Sequence[float],
    seeds: Sequence[int],
    price: float,
    k: Sequence[int] = (5,),
    store: Store | None = None,
    executor: Executor = SERIAL,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Return records of every method within each budget of `points` (shares of All's violation), per seed.

    All stands at point 1, Nothing at 0. `price` is that of the rewards. Records are paired by seed as those
    of `compare` are, and kept in `store` likewise.
    """
    ks = tuple(k)
    cells = [Cell(method, price, point, ks) for method in methods for point in dict.fromkeys(points)]
    cells += [Cell(make_method("all"), price, 1.0, ks), Cell(make_method("nothing"), price, 0.0, ks)]
    groups = [ModelCells(settings, seed, tuple(cells)) for seed in seeds]
    return measured(problem, groups, store=store, executor=executor, label="frontier", progress=progress)
