"""What one person adds or says cannot raise what is disclosed of others within a budget."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from assent.data.door import assign
from assent.data.interactions import Interactions
from assent.data.problem import make_problem
from assent.data.simulate import simulate
from assent.data.wishes import Wishes
from assent.methods import Method, make_method
from tests.methods.cases import lab_of, over, quick

BUDGET = 0.5
ATTACKED = [
    make_method("random"),
    make_method("threshold"),
    make_method("occurrence"),
    quick("worth", source="structure"),
    quick("ifrqe++"),
]


@pytest.fixture(scope="module")
def log() -> Interactions:
    """400 people with ten interactions each."""
    shown = simulate(users=800, items=120, seed=0)
    rows = shown.table.filter(pl.len().over("user") >= 10).filter(pl.int_range(pl.len()).over("user") < 10)
    people = rows["user"].unique().sort().head(400)
    return assign(replace(shown, table=rows.filter(pl.col("user").is_in(people.to_list()))), "random", 0)


def attacker_in(log: Interactions) -> str:
    return str(log.table["user"].min())


def attacked(log: Interactions, rows: int) -> Interactions:
    """The log after a person has added interactions that they mind much, with items that nobody else has."""
    attacker = attacker_in(log)
    first = log.table.filter(pl.col("user") == attacker)["time"].min()
    items = [f"added {number}" for number in range(rows)]
    added = pl.DataFrame({"user": attacker, "item": items, "time": first, "unwillingness": 0.99})
    earlier = added.with_columns(pl.col("time") - 1)
    return replace(log, table=pl.concat([earlier, log.table.select(added.columns)]))


def disclosed_of_others(log: Interactions, method: Method, floor: int | None = None) -> float:
    """The share of what others mind that is disclosed of them; `floor` is that of the attacker."""
    problem = make_problem(log, "paper-tables", negatives=19)
    is_other = problem.user_ids != attacker_in(log)
    if floor is not None:
        problem = replace(problem, wishes=Wishes(floor=np.where(is_other, 0, floor)))
    others, minded = is_other[problem.train.users], problem.unwillingness
    selection = method.within(lab_of(problem), BUDGET).selection
    return float(minded[others & selection].sum() / minded[others].sum())


@over(ATTACKED)
def test_a_thousand_withheld_interactions_move_others_by_one_percent_at_most(
    method: Method, log: Interactions
) -> None:
    before, after = disclosed_of_others(log, method), disclosed_of_others(attacked(log, 1000), method)
    assert after == pytest.approx(before, rel=0.01)
    assert after <= BUDGET * (1 + 1e-9)


@pytest.mark.parametrize("floor", [0, 20])
def test_nor_do_they_with_a_floor(floor: int, log: Interactions) -> None:
    method = make_method("threshold")
    before, after = disclosed_of_others(log, method), disclosed_of_others(attacked(log, 1000), method, floor)
    assert after == pytest.approx(before, rel=0.01)
    assert after <= BUDGET * (1 + 1e-9)
