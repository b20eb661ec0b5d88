"""The three promises, from a file to a model: random edits that may change nothing, and steps that leak.

`benchmarks/bench_promises.py` makes 300 edits for every promise and model; here it is a few.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
import torch

from assent.data.interactions import Interactions
from assent.data.live import live_problem
from assent.data.problem import Problem, make_problem
from assent.data.readers import read_interactions
from assent.methods import make_method
from assent.models import MF, MODELS
from assent.support.arrays import Ints
from assent.testing.promises import CLOSED, Promise, Way, differences, edited, everything, rows_of, some_log
from assent.training import Settings, trainer
from assent.training.disclosed import negatives


def way(model: str = "ials", method: str = "worth", **settings: Any) -> Way:
    short = {"model_settings": {"dimension": 4}, "training": {"epochs": 2, "evaluate_every": 1}}
    given = {"source": "structure"} if method == "worth" else {}
    return Way(
        Settings.model_validate({"model": model, **short}), make_method(method, **{**given, **settings})
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("promise", Promise)
def test_edits_change_no_byte(promise: Promise, model: str, tmp_path: Path) -> None:
    assert differences(promise, way(model), tmp_path, edits=4) == []


@pytest.mark.parametrize(
    "method", [way(source="combined"), way(method="ifrqe++", anchors=2), way(method="random")]
)
@pytest.mark.parametrize("promise", [Promise.NEVER, Promise.CLOSED])
def test_no_method_looks_at_what_is_turned_away(promise: Promise, method: Way, tmp_path: Path) -> None:
    assert differences(promise, method, tmp_path, edits=2) == []


@pytest.mark.parametrize("promise", Promise)
def test_edits_are_edits_of_the_rows_that_a_promise_is_about(promise: Promise, tmp_path: Path) -> None:
    table = some_log(0)
    _, disclosed = everything(table, tmp_path, way(), CLOSED if promise is Promise.CLOSED else None)
    which = rows_of(promise, table, disclosed)
    assert 10 < which.sum() < len(which)
    kept = table.filter(~pl.Series(which))
    for seed in range(5):
        changed = edited(table, which, promise, np.random.default_rng(seed))
        assert not changed.equals(table)
        assert kept.join(changed, on=kept.columns, how="anti").is_empty()


def leaky_reader(path: Path, *, closed: float | None) -> Interactions:
    """Forms items before rows are turned away: titles of never rows reach other people."""
    every = pl.read_csv(path, infer_schema=False)
    items = every.group_by("item").agg(pl.col("title").sort().last(), category=pl.col("category"))
    return replace(read_interactions(path, closed=closed), items=items.sort("item"))


def leaky_split(log: Interactions) -> Problem:
    """Draws candidates by a seed that counts what was turned away."""
    return make_problem(log, "paper-tables", negatives=5, seed=log.sealed.height)


def counting_order(log: Interactions) -> Problem:
    """Takes the rows of people with an even number of them backwards: a withheld one turns the rest."""
    turned = log.table.with_columns(
        time=pl.when(pl.len().over("user") % 2 == 0).then(-pl.col("time")).otherwise(pl.col("time"))
    )
    return live_problem(replace(log, table=turned), negatives=5)


@pytest.mark.parametrize(
    ("promise", "leaky"),
    [
        (Promise.NEVER, replace(way(), read=leaky_reader)),
        (Promise.NEVER, replace(way(), split=leaky_split)),
        (Promise.CLOSED, replace(way(), split=leaky_split)),
        (Promise.WITHHELD, replace(way(), undivided=counting_order)),
    ],
)
def test_a_reader_or_a_split_that_leaks_is_found(promise: Promise, leaky: Way, tmp_path: Path) -> None:
    assert differences(promise, leaky, tmp_path, edits=6)


SEEN = {"rows": 0}
"""What leaky steps know of the whole log."""


def counting(log: Interactions) -> Problem:
    problem = live_problem(log, negatives=5)
    SEEN["rows"] = len(problem.train)
    return problem


def test_a_sampler_that_leaks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its draws depend on how many rows there are, withheld ones included."""

    def leaky(*args: Any, seed: int, **kwargs: Any) -> Ints:
        return negatives(*args, seed=seed + SEEN["rows"], **kwargs)

    monkeypatch.setattr(trainer, "negatives", leaky)
    assert differences(Promise.WITHHELD, replace(way("mf"), undivided=counting), tmp_path, edits=4)


class LeakyMF(MF):
    """Starts from parameters that depend on how many rows there are, withheld ones included."""

    name: ClassVar[str] = "leaky"

    @torch.no_grad()
    def initialise(self, *args: Any) -> None:
        super().initialise(*args)
        self.user_table.mul_(1 + SEEN["rows"] / 1000)


def test_a_model_that_leaks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "leaky", LeakyMF)
    assert differences(Promise.WITHHELD, replace(way("leaky"), undivided=counting), tmp_path, edits=4)
