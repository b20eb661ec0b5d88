"""The frontier: quality against violation for every method, measured by retraining."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assent.data.problem import Problem
from assent.game.estimates import Objective
from assent.game.players import check_floors, players_of
from assent.methods import METHODS, Method, make_method
from assent.methods.ifrqe import IFRQE
from assent.runs.records import REFERENCES
from assent.runs.units import Unit, Wanted, measured
from assent.settings import Settings
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Progress


def all_methods(*, pooled: bool = False) -> list[Method]:
    """Every method that can keep to a budget, with each objective that it distinguishes.

    Those that retrain for everything they try are left out: they run where they are named. With `pooled`
    values there is one anchor, and IFRQE, which would do what IFRQE++ does, is left out too.
    """
    return [
        make_method(name, objective)
        for name, kind in METHODS.items()
        if name not in REFERENCES and not kind.retrains and not (pooled and kind is IFRQE)
        for objective in kind.objectives or (Objective.WELFARE,)
    ]


def parse_methods(text: str | None, option: str = "--methods", *, pooled: bool = False) -> list[Method]:
    """Methods from `name` or `name:objective`, separated by commas; a bare name means every objective.

    None means those of `all_methods`. `option` is what the text was given to, for messages.
    """
    if text is None:
        return all_methods(pooled=pooled)
    chosen: dict[tuple[str, Objective], Method] = {}
    for part in text.split(","):
        name, _, objective = part.strip().partition(":")
        if name not in METHODS:
            raise AssentError(f"{option} {part.strip()}: unknown; accepted: {', '.join(METHODS)}")
        objectives = METHODS[name].objectives
        if objective and objective not in objectives:
            raise AssentError(
                f"{option} {part.strip()}: objectives of {name}: {', '.join(objectives) or 'none'}"
            )
        if name not in REFERENCES:
            for each in [Objective(objective)] if objective else objectives or (Objective.WELFARE,):
                chosen[name, each] = make_method(name, each)
    return list(chosen.values())


def frontier(
    problem: Problem,
    settings: Settings,
    *,
    methods: Sequence[Method],
    points: Sequence[float],
    seeds: Sequence[int],
    price: float,
    cache: Path | None = None,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Records of every method within each budget of `points` (shares of All's violation), for every seed.

    A seed sets anchors, lots, initial parameters and negatives; the split and the unwillingness are the
    problem's, so that all records of a seed are paired. All stands at point 1, Nothing at 0. With `cache`,
    finished records are kept in that folder (`Store`) and not computed again.
    """
    if methods:
        check_floors(players_of(problem), min(points) * float(problem.unwillingness.sum()))
    cells = [Wanted(method, price, point) for method in methods for point in dict.fromkeys(points)]
    cells += [Wanted(make_method("all"), price, 1.0), Wanted(make_method("nothing"), price, 0.0)]
    units = [Unit(settings, seed, tuple(cells)) for seed in seeds]
    return measured(problem, units, folder=cache, jobs=0, label="frontier", progress=progress)
