"""The one reason of every decision: each by an example, and that it is true of random ones under wishes."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from assent.data.wishes import PLAIN, Wishes
from assent.game.budget import Budget
from assent.game.estimates import Estimates, Objective
from assent.game.players import Players, floors_alone
from assent.game.prices import break_even_prices
from assent.game.reasons import Reason, reasons_of
from assent.game.solve import Equilibrium, decide_within, solve
from assent.support.arrays import Bools, Floats, Ints

from .small_games import is_within, make_game

CLOSE = 1e-9
"""How far sums in another order may be apart."""


def people(
    unwillingness: list[float], price: float, wishes: Wishes = PLAIN, owners: list[int] | None = None
) -> Players:
    whose = np.array(owners or [0] * len(unwillingness))
    return Players(whose, int(whose.max()) + 1, np.array(unwillingness), price, wishes)


def reasons(players: Players, values: list[float], **terms: Any) -> list[str]:
    """Of everybody's best response."""
    worth = np.array(values)
    return list(reasons_of(players, worth, players.best(worth), **terms).reasons)


def test_worth_cost_and_no_help_decide_where_nothing_is_asked_for() -> None:
    values = [0.5, 0.04, 0.0, -0.2, 0.5]
    assert reasons(people([0.5, 0.5, 0.5, 0.5, 0.0], 0.1), values) == [
        Reason.WORTH, Reason.COST, Reason.NO_HELP, Reason.NO_HELP, Reason.WORTH,
    ]  # fmt: skip


def test_at_price_0_nothing_is_withheld_for_its_cost() -> None:
    wishes = Wishes(budget=np.array([0.5]))
    found = reasons(people([0.5, 0.5, 0.5], 0.0, wishes), [0.5, 0.04, -0.2])
    assert found == [Reason.WORTH, Reason.OWN_BUDGET, Reason.NO_HELP]


def test_a_floor_asks_for_what_is_not_worth_its_cost() -> None:
    wishes = Wishes(floor=np.array([2]))
    found = reasons(people([0.5, 0.5, 0.5], 1.0, wishes), [0.8, 0.3, 0.2])
    assert found == [Reason.WORTH, Reason.FLOOR, Reason.COST]


def test_her_own_budget_withholds_what_is_worth_its_cost() -> None:
    wishes = Wishes(budget=np.array([0.9, np.inf]))
    players = people([0.5, 0.5, 0.5, 0.9], 0.1, wishes, owners=[0, 0, 0, 1])
    assert reasons(players, [0.9, 0.8, 0.01, 0.8]) == [
        Reason.WORTH, Reason.OWN_BUDGET, Reason.COST, Reason.WORTH,
    ]  # fmt: skip


def test_a_category_decides_against_the_worth_of_its_parts() -> None:
    wishes = Wishes(groups=np.array([0, 0, 1, 1, 2]))
    found = reasons(people([0.5, 0.5, 0.5, 0.5, 0.5], 1.0, wishes), [0.9, 0.2, 0.6, -0.1, 0.6])
    assert found == [Reason.WORTH, Reason.CATEGORY, Reason.CATEGORY, Reason.NO_HELP, Reason.WORTH]


def test_a_dearer_unit_is_weighed_beside_what_is_disclosed() -> None:
    players = people([0.5, 0.5], 1.0, Wishes(power=2))
    found = reasons_of(players, np.array([0.9, 0.6]), np.array([True, False]))
    assert found.reasons.tolist() == [Reason.WORTH, Reason.COST]
    assert found.costs.tolist() == [0.25, 0.75]


def test_the_budget_for_all_has_room_or_none() -> None:
    players, values = people([0.5, 0.5, 0.4], 0.0), np.array([0.5, -0.1, 0.4])
    some, most = np.array([True, False, False]), np.array([True, True, False])
    assert reasons_of(players, values, some, filled=True).reasons.tolist() == [
        Reason.WORTH, Reason.NO_HELP, Reason.BUDGET,
    ]  # fmt: skip
    assert reasons_of(players, values, most, filled=True).reasons.tolist() == [
        Reason.WORTH, Reason.BUDGET, Reason.BUDGET,
    ]  # fmt: skip


@pytest.mark.parametrize(("drawn", "reason"), [(True, Reason.LOT), (False, Reason.SEARCH)])
def test_what_nothing_else_explains_was_drawn_or_found(drawn: bool, reason: Reason) -> None:
    players, values = people([0.5, 0.5, 0.5], 0.5), np.array([0.5, 0.1, 0.5])
    found = reasons_of(players, values, np.array([True, True, False]), drawn=drawn)
    assert found.reasons.tolist() == [Reason.WORTH, reason, reason]


def random_game(rng: np.random.Generator) -> Estimates:
    """One anchor, few people, and some of the wishes that there are."""
    owners = np.repeat(np.arange(3), rng.integers(1, 7, 3))
    size = len(owners)
    unwillingness = np.where(rng.random(size) < 0.1, 0.0, rng.random(size))
    effects = np.zeros((1, 3, size))
    effects[0, owners, np.arange(size)] = rng.normal(0.2, 0.4, size)
    game = make_game(owners, unwillingness, np.ones((1, size), dtype=np.bool_), effects, np.ones((1, 3)))
    groups = owners * 3 + rng.integers(0, 3, size)
    asked = rng.random(4) < 0.5
    wishes = Wishes(
        groups=groups if asked[0] else None,
        budget=rng.choice([0.3, 1.0, np.inf], 3) if asked[1] else None,
        floor=rng.integers(0, 3, 3) if asked[2] else None,
        power=float(rng.choice([0.5, 1.5, 2.0])) if asked[3] else 1.0,
    )
    return replace(game, wishes=wishes)


def decided(game: Estimates, price: float, budget: float | None) -> tuple[Equilibrium, float]:
    """The equilibrium at a price, or within the share `budget`, and its price."""

    def play(price: float) -> Equilibrium:
        return solve(game, objective=Objective.NASH, price=price)

    if budget is None:
        return play(price), price
    return decide_within(game, play, budget, Objective.NASH)


@dataclass(frozen=True)
class Truth:
    """What is true of a decision, by looking at the selections that differ from it."""

    players: Players
    values: Floats
    selection: Bools
    budget: float | None

    def of(self, k: int) -> set[Reason]:
        """The reasons that are true of interaction k; two may be only where they differ by rounding."""
        members = np.flatnonzero(self.players.units.of == self.players.units.of[k])
        other, owner = self.switched(members), self.players.owners[k]
        theirs, minded = self.players.owners == owner, self.players.unwillingness * other
        alone, together = self.gain(np.array([k])), self.gain(members)
        pays, fails, helps = together > -CLOSE, together < CLOSE, self.values[k] > 0
        if self.selection[k]:
            true = {
                Reason.WORTH: pays and alone > -CLOSE,
                Reason.CATEGORY: pays and alone < CLOSE and len(members) > 1,
                Reason.FLOOR: fails and other[theirs].sum() < self.players.floor[owner],
                Reason.BUDGET: fails and self.budget is not None,
            }
        else:
            costs = self.players.price * self.players.unwillingness[k] > 0
            true = {
                Reason.COST: fails and alone < CLOSE and helps and costs,
                Reason.NO_HELP: fails and not helps,
                Reason.CATEGORY: fails and alone > -CLOSE and len(members) > 1,
                Reason.OWN_BUDGET: pays and float(minded[theirs].sum()) > self.players.budget[owner],
                Reason.BUDGET: pays and self.is_used_up_before(k),
            }
        return {reason for reason, is_true in true.items() if is_true}

    def is_used_up_before(self, k: int) -> bool:
        """Whether the budget for all has no room for a unit that is no worse than that of interaction k."""
        units = self.players.units
        prices = break_even_prices(units.sums(self.values), units.unwillingness)
        for unit in np.flatnonzero(~self.selection[units.first] & (prices >= prices[units.of[k]])):
            more = self.switched(np.flatnonzero(units.of == unit))
            own = self.players.paid(more) <= self.players.budget
            whose = self.players.owners, self.players.unwillingness
            if own.all() and self.budget is not None and not is_within(self.budget, *whose, more):
                return True
        return False

    def gain(self, members: Ints) -> float:
        """What disclosing some of a person's interactions, beside the others, adds to their payoff."""
        owner = self.players.owners[members[0]]
        both = (self.selection, self.switched(members))
        now, then = (float(self.players.payoffs(self.values, each)[owner]) for each in both)
        return now - then if self.selection[members[0]] else then - now

    def switched(self, members: Ints) -> Bools:
        """The selection with some interactions decided the other way."""
        other = self.selection.copy()
        other[members] = ~other[members]
        return other


def test_the_reason_is_true_of_every_decision() -> None:
    seen = set[str]()
    for seed in range(400):
        rng = np.random.default_rng(seed)
        game, price = random_game(rng), float(rng.choice([0.0, 0.3, 1.0]))
        shared = Budget(0.0, game.owners, game.unwillingness, game.n_users)
        least = shared.least_share(floors_alone(game.players(price)))
        budget = float(rng.uniform(least, 1)) if seed % 2 else None
        choice, price = decided(game, price, budget)
        players, is_filled = game.players(price), budget is not None
        found = reasons_of(players, choice.values, choice.selection, filled=is_filled).reasons.tolist()
        truth = Truth(players, choice.values, choice.selection, budget)
        for k, reason in enumerate(found):
            assert reason in truth.of(k), (seed, k, reason)
        seen |= set(found)
    assert seen >= set(Reason) - {Reason.LOT, Reason.SEARCH}
