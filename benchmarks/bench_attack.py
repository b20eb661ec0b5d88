"""What one person's withheld interactions do to others under a budget.

A person adds 300 or 1,000 interactions of unwillingness 0.99: with items that others have, as far as there
are enough, or with items of their own. Printed is the share of the others' unwillingness that is disclosed
before and after, and its relative change. Targets: a rise of at most 1 %, and where all that was added is
withheld, a move of at most 1 %. (What is disclosed of it takes room from others.) The change is divided into
what the budget does, with the values of all other interactions as before, and what new values do. Also
printed is how far a budget over the plain sum would have moved, and how many decisions on others'
interactions changed.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from assent.data.door import assign
from assent.data.interactions import Interactions
from assent.data.problem import Problem, Protocol, make_problem
from assent.data.simulate import simulate
from assent.game.budget import Budget
from assent.game.prices import price_path
from assent.lab import Lab
from assent.methods import make_method
from assent.support.arrays import Bools, Floats
from common import Option, load_log, read_options, settings_of, verdict

MINDED = 0.99
"""Unwillingness of what is added."""
UNSEEN = 100
"""Items that the person leaves out: their held-out items are ranked among 99 that they have not met."""
TARGET = 1.0
"""Largest relative change of what is disclosed of others, in %."""


def attacked(log: Interactions, attacker: str, rows: int, *, own_items: bool) -> Interactions:
    """Return the log after a person has added `rows` interactions, all before their first one.

    So the rows that validate and test the model stay what they were.
    """
    table, rng = log.table, np.random.default_rng(0)
    theirs = table.filter(pl.col("user") == attacker)
    known = np.setdiff1d(table["item"].unique().to_numpy(), theirs["item"].to_numpy())
    items = [] if own_items else rng.permutation(known)[UNSEEN:][:rows].tolist()
    items += [f"added {number}" for number in range(rows - len(items))]
    first = theirs["time"].min()
    assert isinstance(first, float)
    added = pl.DataFrame({"user": attacker, "item": items, "time": first - 1.0, "unwillingness": MINDED})
    return replace(log, table=pl.concat([added, table.select(added.columns)]))


@dataclass(frozen=True)
class Decided:
    """What was decided on the training rows of a problem, and what they are worth."""

    problem: Problem
    attacker: str
    budget: float
    selection: Bools
    values: Floats

    @cached_property
    def others(self) -> pl.DataFrame:
        """The training rows of everybody else, with their values and decisions."""
        return self.rows.filter(pl.col("user") != self.attacker)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The training rows, with their values and decisions."""
        train = self.problem.train
        return pl.DataFrame(
            {
                "user": self.problem.user_ids[train.users],
                "item": self.problem.item_ids[train.items],
                "minded": self.problem.unwillingness,
                "value": self.values,
                "disclosed": self.selection,
            }
        )

    @property
    def share(self) -> float:
        """Of what the others mind, how much is disclosed, in %."""
        minded = self.others["minded"].to_numpy()
        return 100 * float(minded[self.others["disclosed"].to_numpy()].sum() / minded.sum())

    def with_values_of(self, before: "Decided") -> "Decided":
        """Decide again with the values that all rows had `before`, but for those that are new."""
        known = before.rows.select("user", "item", was="value")
        joined = self.rows.join(known, on=["user", "item"], how="left", maintain_order="left")
        values = joined.select(pl.coalesce("was", "value")).to_series().to_numpy()
        path = price_path(values, self.problem.unwillingness)
        selection = path.within(Budget.of(self.problem, self.budget))
        return replace(self, selection=selection, values=values)

    def by_plain_sum(self) -> "Decided":
        """Decide again within the share of everybody's sum, whoever it comes from."""
        path = price_path(self.values, self.problem.unwillingness)
        count = int((path.paid <= self.budget * path.paid[-1]).sum())
        return replace(self, selection=np.isin(np.arange(len(path.order)), path.order[:count]))

    def flips(self, before: "Decided") -> int:
        """How many decisions on others' rows differ."""
        known = before.others.select("user", "item", was="disclosed")
        both = self.others.join(known, on=["user", "item"])
        return int((both["was"] != both["disclosed"]).sum())

    def disclosed_beside(self, before: "Decided") -> int:
        """How many rows are disclosed that were not there `before`."""
        return int(self.rows.join(before.rows, on=["user", "item"], how="anti")["disclosed"].sum())


def decide(log: Interactions, attacker: str, budget: float, source: str, *, quick: bool) -> Decided:
    """Split the log and decide with `worth` and iALS."""
    problem = make_problem(log, Protocol.PAPER_TABLES, seed=0)
    lab = Lab(problem, settings_of("ials", quick=quick))
    choice = make_method("worth", source=source).within(lab, budget)
    assert choice.values is not None
    return Decided(problem, attacker, budget, choice.selection, choice.values)


def log_of(name: str, *, quick: bool) -> Interactions:
    """Return a log with unwillingness; `village` has 220 people with 10 interactions each."""
    if name != "village":
        return assign(load_log(name, quick=quick), "random", 0)
    log = simulate(users=500, items=150, seed=0)
    rows = log.table.filter(pl.len().over("user") >= 10).filter(pl.int_range(pl.len()).over("user") < 10)
    people = rows["user"].unique().sort().head(220)
    return assign(replace(log, table=rows.filter(pl.col("user").is_in(people.to_list()))), "random", 0)


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(("village", "simulation", "diginetica"), "data sets", quick=("village",)),
        sources=Option(("structure", "combined"), "sources of worth", quick=("structure",)),
        rows=Option((300, 1000), "numbers of interactions that are added"),
        budget=Option(0.5, "the budget"),
    )
    rises, moves = [0.0], [0.0]
    for name in given.datasets:
        log = log_of(name, quick=given.quick)
        attacker = log.table["user"].unique().sort()[0]
        for source in given.sources:
            before = decide(log, attacker, given.budget, source, quick=given.quick)
            print(
                f"{name}, {source}: {before.share:.3f} % of what {before.problem.n_users - 1} others mind is "
                f"disclosed; by the plain sum {before.by_plain_sum().share:.3f} %",
                flush=True,
            )
            for rows in given.rows:
                for own_items in (False, True):
                    changed = attacked(log, attacker, rows, own_items=own_items)
                    after = decide(changed, attacker, given.budget, source, quick=given.quick)
                    held, disclosed = after.with_values_of(before), after.disclosed_beside(before)
                    move, by_budget = (100 * (each.share / before.share - 1) for each in (after, held))
                    plain = 100 * (after.by_plain_sum().share / before.by_plain_sum().share - 1)
                    rises.append(move)
                    moves += [] if disclosed else [abs(move)]
                    print(
                        f"{name}, {source}, {rows} rows of {'their own' if own_items else 'known'} items, "
                        f"{disclosed} of them disclosed: {after.share:.3f} %, moved by {move:+.3f} % (budget "
                        f"{by_budget:+.3f} %, values {move - by_budget:+.3f} %); {after.flips(before)} of "
                        f"{len(after.others)} decisions changed (budget alone {held.flips(before)}); by the "
                        f"plain sum {plain:+.1f} %",
                        flush=True,
                    )
    verdict("largest rise of what is disclosed of others", max(rises), TARGET, "%")
    verdict("largest move by rows that are all withheld", max(moves), TARGET, "%")
