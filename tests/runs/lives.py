"""Small live runs of iALS, fitted once for all tests; changes of their logs, drawn at random."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import polars as pl
from hypothesis import strategies as st

from assent.data.interactions import Interactions
from assent.data.live import live_problem
from assent.data.problem import Problem, make_problem
from assent.data.rules import read_wishes
from assent.data.simulate import simulate
from assent.methods import make_method
from assent.runs.changes import Changes
from assent.runs.folder import Run
from assent.runs.plan import RunPlan
from assent.runs.run import fit
from assent.training import Settings

Rows = Mapping[tuple[str, str], float]
"""The unwillingness of each pair of user and item; 1 is never."""
QUICK = Settings.model_validate(
    {"model": "ials", "model_settings": {"dimension": 4}, "training": {"epochs": 2}, "tune": "none"}
)
WORTH = make_method("worth", source="structure")
PLANS = {
    "budget": RunPlan(method=WORTH, budget=0.5, seeds=1),
    "price": RunPlan(method=WORTH, price=0.05, seeds=1),
    "nash": RunPlan(method=make_method("worth", source="structure", objective="nash"), budget=0.3, seeds=1),
    "threshold": RunPlan(method=make_method("threshold"), budget=0.5, seeds=1),
    "random": RunPlan(method=make_method("random"), budget=0.5, seeds=1),
    "occurrence": RunPlan(method=make_method("occurrence"), price=1.0, seeds=1),
}
LIMITS = {"user_budget": "u02=0.5,*=3", "user_floor": 1}


@cache
def log_of(users: int = 25, items: int = 30, seed: int = 1) -> Interactions:
    """A log with titles in which some rows are never used."""
    log = simulate(preference="learnable", users=users, items=items, seed=seed)
    minded = pl.when(pl.int_range(pl.len()) % 17 == 5).then(1.0).otherwise("unwillingness")
    return Interactions(log.name, log.table.with_columns(unwillingness=minded), log.items)


def folder() -> Path:
    """A new folder; it goes with the machine's temporary files."""
    return Path(mkdtemp(prefix="assent-test-"))


@cache
def run_of(name: str) -> Run:
    """The run of a plan; `limits` is that of a budget with limits of people."""
    plan = PLANS["budget" if name == "limits" else name]
    return fitted(log_of(), plan, limits=name == "limits")


def fitted(log: Interactions, plan: RunPlan, settings: Settings = QUICK, *, limits: bool = False) -> Run:
    problems: list[Problem] = [make_problem(log, "paper-tables", negatives=5), live_problem(log, negatives=5)]
    if limits:
        problems = [replace(each, wishes=asking(log, each)) for each in problems]
    split, live = problems
    return fit(log, split, folder() / "run", plan, settings, live=live)


def asking(log: Interactions, problem: Problem) -> Any:
    """People's own limits."""
    return read_wishes(log, problem, **LIMITS, allow_unmatched=True)  # type: ignore[arg-type]


def rows_in(log: Interactions) -> dict[tuple[str, str], float]:
    """All rows of a log, those that are never used too."""
    tables = (log.table, log.sealed)
    return {(user, item): minded for table in tables
            for user, item, minded in table.select("user", "item", "unwillingness").iter_rows()}  # fmt: skip


def log_with(rows: Rows, like: Interactions) -> Interactions:
    """The log with these rows, in the order in which they are listed."""
    table = pl.DataFrame(
        [(*pair, float(at), minded) for at, (pair, minded) in enumerate(rows.items())],
        {"user": pl.String, "item": pl.String, "time": pl.Float64, "unwillingness": pl.Float64},
        orient="row",
    )
    return Interactions(like.name, table, like.items)


@st.composite
def histories(draw: st.DrawFn, most: int = 3) -> tuple[list[Changes], dict[tuple[str, str], float]]:
    """Changes that follow each other, and the rows that they lead to."""
    rows = rows_in(log_of())
    users = [f"u{number:02}" for number in range(1, 26)] + ["zoe", "adam"]
    items = [f"i{number:02}" for number in range(1, 31)] + ["i99", "a new one"]
    minded = st.sampled_from([0.0, 0.05, 0.4, 0.8, 0.99, 1.0])
    steps = []
    for _ in range(draw(st.integers(1, most))):
        there = sorted({user for user, _ in rows})
        withdrawn = draw(st.lists(st.sampled_from(there), max_size=2, unique=True)) if there else []
        left = [pair for pair in rows if pair[0] not in withdrawn]
        touched = draw(st.lists(st.sampled_from(left), max_size=8, unique=True))
        cut = draw(st.integers(0, len(touched)))
        gone = touched[:cut]
        if draw(st.booleans()):  # an item disappears
            item = draw(st.sampled_from(items))
            gone = [*gone, *(pair for pair in left if pair[1] == item and pair not in touched)]
        minds = [(*pair, rows[pair], draw(minded)) for pair in touched[cut:]]
        pairs = st.tuples(st.sampled_from(users), st.sampled_from(items))
        stays = {pair for pair in left if pair not in gone}
        added = [pair for pair in draw(st.lists(pairs, max_size=6, unique=True)) if pair not in stays]
        new = {pair: draw(minded) for pair in added}
        steps.append(
            Changes.of(
                added=[(*pair, value) for pair, value in new.items()],
                minds=[each for each in minds if each[2] != each[3]],
                gone=gone,
                withdrawn=withdrawn,
            )
        )
        rows = {pair: value for pair, value in rows.items() if pair in stays}
        rows |= {(user, item): after for user, item, _, after in minds} | new
    return steps, rows


def composed(steps: list[Changes]) -> Changes:
    """Changes of the log that follow each other, as one.

    A row that goes or is never used for a while, and then is there again, is gone and added.
    """
    start = rows_in(log_of())
    rows, lost, withdrawn = dict(start), set[tuple[str, str]](), set[str]()
    for step in steps:
        away = {*step.gone.iter_rows(), *(pair for pair in rows if pair[0] in step.withdrawn)}
        minds = {(user, item): after for user, item, _, after, *_ in step.minds.iter_rows()}
        lost |= away | {pair for pair, minded in minds.items() if minded == 1}
        withdrawn |= {*step.withdrawn}
        rows = {pair: minded for pair, minded in rows.items() if pair not in away} | minds
        rows |= {(user, item): minded for user, item, minded, *_ in step.added.iter_rows()}
    withdrawn &= {user for user, _ in start}
    stay = {pair for pair in start if pair[0] not in withdrawn and pair in rows}
    again = {pair for pair in stay & lost if start[pair] < 1 and rows[pair] < 1}
    return Changes.of(
        added=[(*pair, minded) for pair, minded in rows.items() if pair not in stay - again],
        minds=[(*pair, start[pair], rows[pair]) for pair in stay - again if start[pair] != rows[pair]],
        gone=[pair for pair in start if pair[0] not in withdrawn and pair not in stay - again],
        withdrawn=withdrawn,
    )
