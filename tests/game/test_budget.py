"""Budgets hold whoever is left out: what is allowed, what fits, and what one person can do to others."""

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from assent.data.wishes import PLAIN, Wishes
from assent.game.budget import Budget, Spending
from assent.game.estimates import Estimates, Objective
from assent.game.players import Players, by_score, floors_alone
from assent.game.solve import Equilibrium, decide_within, solve
from assent.support.arrays import Bools, Floats, Ints
from assent.support.errors import AssentError

from .small_games import eighths, is_within, make_game, steady

MOST_USERS = 4
shares = eighths()


@dataclass(frozen=True)
class Case:
    """Interactions, what speaks for each of them, and the wishes of their owners."""

    owners: Ints
    unwillingness: Floats
    scores: Floats
    wishes: Wishes = PLAIN

    @property
    def players(self) -> Players:
        return Players(self.owners, MOST_USERS, self.unwillingness, 0.0, self.wishes)

    @property
    def game(self) -> Estimates:
        """The game in which an interaction is worth its score times its unwillingness to its owner."""
        size = len(self.owners)
        effects = np.zeros((1, MOST_USERS, size))
        effects[0, self.owners, np.arange(size)] = self.scores * self.unwillingness
        anchors, losses = np.ones((1, size), dtype=np.bool_), np.ones((1, MOST_USERS))
        game = make_game(self.owners, self.unwillingness, anchors, effects, losses)
        return replace(game, wishes=self.wishes)

    def budget(self, share: float) -> Budget:
        return Budget(share, self.owners, self.unwillingness, MOST_USERS)

    def fits(self, share: float, selection: Bools) -> bool:
        return is_within(share, self.owners, self.unwillingness, selection)

    def decisions(self, share: float) -> list[Bools]:
        """What is disclosed by score, and by the game of either objective; none where floors are too high."""
        try:
            decided = [by_score(self.players, self.scores, budget=share)]
        except AssentError:
            return []
        for objective in Objective:

            def play(price: float, objective: Objective = objective) -> Equilibrium:
                return solve(self.game, objective=objective, price=price)

            decided.append(decide_within(self.game, play, share, objective)[0].selection)
        return decided


@st.composite
def cases(draw: st.DrawFn, *, least: int = 0, wishing: bool = False) -> Case:
    """Up to four people, some of them without interactions; all figures on a grid, so that sums are exact."""
    size = draw(st.integers(least, 12))
    owners = np.sort(draw(arrays(np.int64, size, elements=st.integers(0, MOST_USERS - 1))))
    minded = draw(arrays(np.float64, size, elements=eighths(0, 7)))
    scores = draw(arrays(np.float64, size, elements=eighths(1, 40)))
    found = Case(owners, minded, scores)
    return replace(found, wishes=draw(wishes_of(owners))) if wishing else found


@st.composite
def wishes_of(draw: st.DrawFn, owners: Ints) -> Wishes:
    groups = 3 * owners + draw(arrays(np.int64, len(owners), elements=st.integers(0, 2)))
    return Wishes(
        groups=draw(st.sampled_from([None, groups])),
        budget=draw(st.none() | arrays(np.float64, MOST_USERS, elements=eighths(0, 16))),
        floor=draw(st.none() | arrays(np.int64, MOST_USERS, elements=st.integers(0, 2))),
    )


@settings(steady, max_examples=100)
@given(cases(), shares, st.data())
def test_a_selection_is_allowed_if_the_budget_holds_whoever_is_left_out(
    case: Case, share: float, data: st.DataObject
) -> None:
    selection = data.draw(arrays(np.bool_, len(case.owners)))
    budget = case.budget(share)
    assert budget.allows(selection) == case.fits(share, selection)
    least = budget.least_share(selection)
    assert case.budget(least).allows(selection)
    assert least == 0 or not case.budget(least * (1 - 1e-6)).allows(selection)


@settings(steady, max_examples=100)
@given(cases(), shares, st.data())
def test_what_fits_of_an_order_is_the_longest_start_that_does(
    case: Case, share: float, data: st.DataObject
) -> None:
    size = len(case.owners)
    order = np.array(data.draw(st.permutations(range(size))), dtype=np.int64)
    fit = [case.fits(share, np.isin(np.arange(size), order[:count])) for count in range(size + 1)]
    assert case.budget(share).fitting(order) == int(np.flatnonzero(fit)[-1])
    assert fit == sorted(fit, reverse=True)


@settings(steady, max_examples=100)
@given(cases(), shares, st.data())
def test_one_by_one_is_the_same_as_all_at_once(case: Case, share: float, data: st.DataObject) -> None:
    selection = data.draw(arrays(np.bool_, len(case.owners)))
    budget = case.budget(share)
    spending = Spending(budget, budget.paid(selection))
    for k in data.draw(st.permutations(np.flatnonzero(~selection).tolist())):
        selection[k] = True
        allowed = spending.pay(int(case.owners[k]), float(case.unwillingness[k]))
        assert allowed == case.fits(share, selection)


@settings(steady, max_examples=100)
@given(cases(wishing=True), shares)
def test_every_way_to_decide_keeps_to_the_budget_under_any_wishes(case: Case, share: float) -> None:
    for selection in case.decisions(share):
        assert case.fits(share, selection)


@settings(steady, max_examples=100)
@given(cases(wishing=True), shares)
def test_by_score_ends_where_the_next_unit_does_not_fit(case: Case, share: float) -> None:
    assume(case.fits(share, floors_alone(case.players)))
    units, selection = case.players.units, by_score(case.players, case.scores, budget=share)
    worth = units.sums(case.scores) / units.sizes
    paid, limits = case.players.paid(selection), case.players.budget
    for unit in np.lexsort((units.unwillingness, -worth)):
        user, members = units.owners[unit], units.of == unit
        if not selection[members].any() and paid[user] + units.unwillingness[unit] <= limits[user]:
            assert not case.fits(share, selection | members)
            break


def test_one_person_has_a_share_of_what_they_mind_and_each_of_two_their_own() -> None:
    minded, order = np.full(8, 0.5), np.arange(8)
    alone, two = np.zeros(8, dtype=np.int64), np.repeat([0, 1], 4)
    assert Budget(0.5, alone, minded, 1).fitting(order) == 4
    assert Budget(0.5, alone, minded, 3).fitting(order) == 4  # the others have no interactions
    spending = Spending(Budget(0.5, alone, minded, 1), np.zeros(1))
    assert [spending.pay(0, 0.5) for _ in range(5)] == [True, True, True, True, False]
    assert Budget(0.5, two, minded, 2).fitting(order) == 2
    assert Budget(0.5, two, minded, 2).fitting(np.array([0, 4, 1, 5, 2, 6, 3, 7])) == 4
    assert Budget(0.5, order, minded, 8).fitting(order) == 3  # eight people, and one unused half is kept back


def test_where_nobody_minds_everything_fits() -> None:
    assert Budget(0.0, np.array([0, 0, 1]), np.zeros(3), 2).fitting(np.arange(3)) == 3


def test_what_others_mind_counts_beside_somebody_who_minds_far_more() -> None:
    """Sums of floats that hold both would be blind to what is small."""
    owners, minded = np.repeat([0, 1, 2], [4, 3, 1]), np.array([*[1e-15] * 7, 1.0])
    budget = Budget(0.5, owners, minded * 1e-3, 3)
    assert budget.fitting(np.arange(8)) == 3
    spending = Spending(budget, np.zeros(3))
    assert [spending.pay(user, 1e-18) for user in (0, 0, 1, 1)] == [True, True, True, False]


@st.composite
def attacks(draw: st.DrawFn, *, withheld: bool) -> tuple[Case, Case, int]:
    """A case, the same after one person has added interactions, and who they are.

    With `withheld`, nothing speaks for what is added, and nothing else changes. Otherwise they say what they
    like: what they mind, what speaks for their interactions, and their wishes.
    """
    case = draw(cases(least=1, wishing=not withheld))
    attacker, added = draw(st.integers(0, MOST_USERS - 1)), draw(st.integers(0, 30))
    owners = np.concatenate([case.owners, np.full(added, attacker)])
    minded, scores = (np.concatenate([each, np.zeros(added)]) for each in (case.unwillingness, case.scores))
    minded[len(case.owners) :] = draw(arrays(np.float64, added, elements=eighths(1, 7)))
    if withheld:
        return case, Case(owners, minded, scores), attacker
    theirs, wishes, said = owners == attacker, case.wishes, draw(wishes_of(owners))
    minded[theirs] = draw(arrays(np.float64, int(theirs.sum()), elements=eighths(0, 7)))
    scores[theirs] = draw(arrays(np.float64, int(theirs.sum()), elements=eighths(1, 40)))
    budget, floor = (np.full(MOST_USERS, np.inf) if wishes.budget is None else wishes.budget.copy()), None
    if said.budget is not None:
        budget[attacker] = said.budget[attacker]
    if wishes.floor is not None or said.floor is not None:
        floor = np.zeros(MOST_USERS, dtype=np.int64) if wishes.floor is None else wishes.floor.copy()
        floor[attacker] = 0 if said.floor is None else said.floor[attacker]
    groups = None if wishes.groups is None else np.concatenate([wishes.groups, 100 + np.arange(added)])
    return case, Case(owners, minded, scores, Wishes(groups, budget, floor)), attacker


def disclosed_of_others(case: Case, attacker: int, selection: Bools) -> float:
    return float(case.unwillingness[selection & (case.owners != attacker)].sum())


@settings(steady, max_examples=80)
@given(attacks(withheld=False), shares)
def test_whatever_one_person_adds_or_says_others_disclose_no_more_than_their_share(
    attack: tuple[Case, Case, int], share: float
) -> None:
    before, after, attacker = attack
    most = share * float(before.unwillingness[before.owners != attacker].sum())
    for selection in [*before.decisions(share), *after.decisions(share)]:
        case = after if len(selection) == len(after.owners) else before
        assert disclosed_of_others(case, attacker, selection) <= most + 1e-9


@settings(steady, max_examples=80)
@given(attacks(withheld=True), shares)
def test_withheld_interactions_raise_what_others_disclose_by_what_one_person_left_unused(
    attack: tuple[Case, Case, int], share: float
) -> None:
    """And by one interaction at most, which may not have fitted before, and what the person used too much."""
    before, after, attacker = attack
    size = len(before.owners)
    for was, now in zip(before.decisions(share), after.decisions(share), strict=True):
        assume(not now[size:].any())
        assert (was <= now[:size]).all()
        spare = share * before.budget(share).minded - before.budget(share).paid(was)
        bound = max(0.0, spare.max()) + max(0.0, -spare[attacker]) + before.unwillingness.max()
        raised = disclosed_of_others(after, attacker, now) - disclosed_of_others(before, attacker, was)
        assert 0 <= raised <= bound + 1e-9


@settings(steady, max_examples=60)
@given(cases(least=1, wishing=True), shares)
def test_floors_that_a_budget_does_not_suffice_for_are_refused_with_one_that_does(
    case: Case, share: float
) -> None:
    floors = floors_alone(case.players)
    if case.fits(share, floors):
        assert (floors <= by_score(case.players, case.scores, budget=share)).all()
        return
    with pytest.raises(
        AssentError, match=r"^budget .*: everybody's floor alone takes a budget of"
    ) as refused:
        by_score(case.players, case.scores, budget=share)
    [named] = re.findall(r"takes a budget of ([\d.]+);", str(refused.value))
    assert float(named) > share
    assert (floors <= by_score(case.players, case.scores, budget=float(named))).all()
    with pytest.raises(AssentError):
        by_score(case.players, case.scores, budget=float(named) - 0.0015)
