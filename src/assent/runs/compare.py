"""Methods against each other at prices: true rewards, of models that are trained on what each chose."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assent.data.problem import Problem
from assent.methods import Method, make_method
from assent.runs.records import REFERENCES
from assent.runs.units import Unit, Wanted, measured
from assent.settings import Settings
from assent.support.progress import SILENT, Progress


def compare(
    problem: Problem,
    models: Sequence[Settings],
    *,
    methods: Sequence[Method],
    prices: Sequence[float],
    seeds: Sequence[int],
    jobs: int = 0,
    folder: Path | None = None,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Records of every model, method, price and seed, with All and Nothing.

    A seed sets anchors, lots, initial parameters and negatives; the split and the unwillingness are the
    problem's, so that all records of a seed are paired. With `folder`, finished cells are kept there: a
    killed comparison goes on where it was, and another process may work on it at the same time. With `jobs`,
    so many processes compute, each with one thread; with 0, this one does.
    """
    everyone = [each for each in methods if each.name not in REFERENCES] + [*map(make_method, REFERENCES)]
    cells = tuple(Wanted(method, price) for method in everyone for price in dict.fromkeys(prices))
    units = [Unit(settings, seed, cells) for settings in models for seed in seeds]
    return measured(problem, units, folder=folder, jobs=jobs, label="comparing", progress=progress)
