"""How many decisions on other rows one withheld row moves, when it is dropped from the log.

    bench_flips.py                                   the default method on Diginetica, 20 rows
    bench_flips.py --datasets steam --rows 5

Rows that the method withholds within the budget are drawn by their ids and dropped one at a time. Everything
is done anew on the log without the row: split, tuning, estimates, decision. A flip is a remaining training
row that is disclosed in one case and withheld in the other. Prints flips per dropped row, within the budget
and at the price, and how far from the border the flipped rows were: |break-even price / price − 1|. Random
flips nothing at a rate, and within a budget only the row at which it is used up.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from assent.data.door import assign
from assent.data.interactions import Interactions
from assent.data.problem import Problem, Protocol, make_problem
from assent.game.prices import break_even_prices
from assent.lab import Lab, everything
from assent.lab.tuning import tuned
from assent.methods import Method, make_method
from assent.support.arrays import Bools, Floats, string_keys
from assent.training import Settings
from common import Option, load_log, read_options, settings_of, verdict

MOST = 1.09
"""Flips per dropped row that are aimed at: 1 % of those by draws that went by position."""


@dataclass(frozen=True)
class Decided:
    """The decisions of one way to decide, and how far each is from the border."""

    selection: Bools
    away: Floats
    """|break-even price / price − 1|: [Z]; not a number where nothing is estimated."""


def decisions(problem: Problem, settings: Settings, budget: float, price: float) -> dict[str, Decided]:
    """Return what the default method and Random decide, within the budget and at the price or rate."""
    asked = Lab(problem, settings)
    lab = asked.with_settings(tuned(asked, everything(problem)).settings)
    found = {}
    ways: list[Method] = [make_method("worth", settings.model), make_method("random")]
    for method in ways:
        for where, choice in (
            (f"within {budget:.0%}", method.within(lab, budget)),
            (f"at price {price:g}", method.at_price(lab, price)),
        ):
            away = np.full(len(problem.train), np.nan)
            if choice.values is not None and choice.price:
                away = np.abs(break_even_prices(choice.values, problem.unwillingness) / choice.price - 1)
            found[f"{method.name}, {where}"] = Decided(choice.selection, away)
    return found


def one_less(log: Interactions, problem: Problem, rows: Bools, count: int) -> Iterator[tuple[int, Problem]]:
    """Yield training rows drawn from `rows[Z]` by their ids, with the problem of the log without each."""
    users, items = problem.user_ids[problem.train.users], problem.item_ids[problem.train.items]
    among = np.flatnonzero(rows)
    lots = string_keys(f"{users[k]}\0{items[k]}" for k in among)
    for k in among[np.argsort(lots)[:count]]:
        is_it = (pl.col("user") == str(users[k])) & (pl.col("item") == str(items[k]))
        left = replace(log, table=log.table.filter(~is_it))
        yield int(k), make_problem(left, Protocol.PAPER_TABLES, seed=0)


def main(name: str, settings: Settings, count: int, budget: float, price: float, *, quick: bool) -> None:
    log = assign(load_log(name, quick=quick), "random", 0)
    problem = make_problem(log, Protocol.PAPER_TABLES, seed=0)
    before = decisions(problem, settings, budget, price)
    withheld = ~before[f"worth, within {budget:.0%}"].selection
    flips: dict[str, list[int]] = {way: [] for way in before}
    away: dict[str, list[Floats]] = {way: [] for way in before}
    for gone, without in one_less(log, problem, withheld, count):
        left = np.delete(np.arange(len(problem.train)), gone)
        assert np.array_equal(without.row_keys, problem.row_keys[left])
        for way, after in decisions(without, settings, budget, price).items():
            flipped = before[way].selection[left] != after.selection
            flips[way].append(int(flipped.sum()))
            away[way].append(before[way].away[left][flipped])
        print(
            f"  without row {gone}: {', '.join(f'{way} {each[-1]}' for way, each in flips.items())}",
            flush=True,
        )
    print(f"{name}, {settings.model}: {len(problem.train):,} decisions, {count} rows dropped one at a time")
    for way, each in flips.items():
        near = np.concatenate(away[way])
        known = near[np.isfinite(near)]
        border = f"; flipped rows at most {known.max():.1%} off the border" if len(known) else ""
        print(f"  {way:24} flips: mean {np.mean(each):.2f}, largest {max(each)}{border}")
    verdict(
        f"{name}: flips per dropped row within the budget", float(np.mean(flips[next(iter(flips))])), MOST
    )


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(("diginetica",), "data sets"),
        model=Option("ials", "recommender"),
        rows=Option(20, "rows dropped, one at a time", quick=2),
        budget=Option(0.5, "share of All's violation"),
        price=Option(0.1, "loss units per unit of unwillingness"),
    )
    for each in given.datasets:
        main(
            each,
            settings_of(given.model, quick=given.quick),
            given.rows,
            given.budget,
            given.price,
            quick=given.quick,
        )
