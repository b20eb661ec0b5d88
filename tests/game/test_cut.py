"""The cut that a budget makes in a log in partitions: the decisions of the methods that hold everything."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from assent.data.live import live_problem
from assent.data.readers import read_interactions
from assent.data.simulate import simulate
from assent.game.cut import Order, cut_within
from assent.game.players import cheapest_first
from assent.lab import SERIAL, Lab
from assent.lab.partitions import parts_of
from assent.methods import make_method
from assent.support.arrays import Floats


def log_in_parts(folder: Path, digits: int | None) -> pl.DataFrame:
    """A log in three files whose rows are in no order; with `digits`, many rows are equally minded."""
    log = simulate(users=80, items=50, rows=1500, preference="learnable", seed=4).table
    values = np.random.default_rng(2).normal(size=log.height)
    minded = log["unwillingness"] if digits is None else log["unwillingness"].round(digits).clip(0, 0.9)
    table = log.select("user", "item", "time").with_columns(minded, value=pl.Series(values).round(1))
    table = table.sample(fraction=1, shuffle=True, seed=1)
    for number, part in enumerate(table.iter_slices(611)):
        part.write_parquet(folder / f"{number}.parquet")
    return table


@pytest.mark.parametrize("digits", [None, 1])
@pytest.mark.parametrize("order", ["threshold", "occurrence", "value"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.97, 1.0])
def test_it_decides_as_in_memory(tmp_path: Path, share: float, order: Order, digits: int | None) -> None:
    source = tmp_path / "log"
    source.mkdir()
    table = log_in_parts(source, digits)
    file = tmp_path / "log.parquet"
    table.write_parquet(file)
    problem = live_problem(read_interactions(file, unwillingness="column"), seed=0)
    if order == "value":
        from assent.game.prices import break_even_prices

        pairs = pl.DataFrame({"user": problem.user_ids[problem.train.users],
                              "item": problem.item_ids[problem.train.items]})  # fmt: skip
        values: Floats = pairs.join(table, on=["user", "item"], maintain_order="left")["value"].to_numpy()
        expected = cheapest_first(break_even_prices(values, problem.unwillingness), problem, share)
    else:
        expected = make_method(order).within(Lab(problem), share).selection
    parts = parts_of(source, values="value")
    cut = cut_within(parts, order, share, executor=SERIAL)
    chosen = pl.concat(
        (rows := part.read()).filter(pl.Series(cut.disclosed(part, rows))).select("user", "item")
        for part in parts
    )
    here = pl.DataFrame({"user": problem.user_ids[problem.train.users][expected],
                         "item": problem.item_ids[problem.train.items][expected]})  # fmt: skip
    assert chosen.sort("user", "item").equals(here.sort("user", "item"))
