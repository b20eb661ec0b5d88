"""Where turns settle, and what may be said of whole equilibria of several anchors."""

from dataclasses import replace

import numpy as np
import pytest

from assent.data.wishes import Wishes
from assent.game.estimates import Estimates, Objective
from assent.game.players import Players
from assent.game.prices import worth_disclosing
from assent.game.solve import solve
from assent.game.steering import Turns
from assent.support.arrays import Bools, Floats

from .small_games import choices_of, code_of, equilibria, payoffs, random_game, shared
from .solver_rates import solved, turned_on

PRICE = 0.5
BLIND = pytest.mark.parametrize("blind", [False, True], ids=["effects", "blind"])


def settle(game: Estimates, start: Bools) -> tuple[Bools, Floats] | None:
    """Turns as many as it takes."""
    return Turns(game, PRICE, turns_left=10**4, bounds_left=10**3).settle(start)


@BLIND
@pytest.mark.parametrize("n_anchors", [2, 3])
def test_nearly_every_game_that_has_an_equilibrium_is_solved_to_one(n_anchors: int, blind: bool) -> None:
    found, exist = solved(60, n_anchors=n_anchors, blind=blind)
    assert 40 <= exist < 60
    assert found >= 0.96 * exist


@BLIND
def test_where_turns_settle_nobody_gains_and_values_say_what_was_decided(blind: bool) -> None:
    count = 0
    for seed in range(12):
        game = random_game(seed, n_anchors=2 + seed % 3, n_users=4, longest=3, disagreement=0.5)
        game = replace(game, effects=()) if blind else game
        settled = settle(game, np.random.default_rng(seed).random(len(game.owners)) < 0.5)
        if settled is not None:
            assert not settled[1].any()
            is_answered_by_itself(game, settled[0], blind=blind)
            count += 1
    assert count >= 9


def is_answered_by_itself(game: Estimates, selection: Bools, *, blind: bool) -> None:
    assert equilibria(game, PRICE)[code_of(selection)]
    values = Turns(game, PRICE, turns_left=0, bounds_left=0).values(selection)
    np.testing.assert_array_equal(worth_disclosing(values, game.unwillingness, PRICE), selection)
    known = shared(game) if blind else game
    for k, owner in enumerate(game.owners):
        both = np.repeat(selection[None], 2, axis=0)
        both[:, k] = [True, False]
        on, off = payoffs(known, both, PRICE, Objective.NASH)[:, owner]
        assert values[k] == pytest.approx(on - off + PRICE * game.unwillingness[k], abs=1e-9)


def test_turns_settle_in_most_games_of_several_dozen_players() -> None:
    settled = 0
    for seed in range(6):
        game = random_game(seed, n_anchors=3, n_users=40, longest=5, disagreement=0.1)
        settled += not solve(replace(game, effects=()), objective=Objective.NASH, price=PRICE).regret.any()
    assert settled >= 4


def test_long_histories_settle_where_nobody_gains_more_than_the_regret() -> None:
    count = 0
    for seed in range(8):
        game = random_game(seed, n_anchors=2, n_users=3, longest=14, disagreement=0.2)
        settled = settle(game, game.anchors[0])
        if settled is None:
            continue
        selection, regret = settled
        count += np.bincount(game.owners).max() > 10
        assert regret.max() < 0.5
        now = payoffs(game, selection[None], PRICE, Objective.NASH)[0]
        for user in range(game.n_users):
            best = payoffs(game, choices_of(game, user, selection), PRICE, Objective.NASH)[:, user].max()
            assert best - now[user] <= regret[user] + 1e-9
    assert count >= 3


@pytest.mark.parametrize("kinds", [3, 12], ids=["few units", "many units"])
def test_turns_keep_wishes(kinds: int) -> None:
    count = 0
    for seed in range(8):
        game = random_game(seed, n_anchors=2, n_users=3, longest=5 if kinds == 3 else 12, disagreement=0.4)
        wishes = Wishes(
            groups=game.owners * kinds + np.arange(len(game.owners)) % kinds,
            budget=np.full(3, 1.2),
            floor=np.full(3, 1),
            power=1.5,
        )
        asked = replace(game, wishes=wishes)
        players = Players(game.owners, 3, game.unwillingness, PRICE, wishes)
        settled = settle(asked, players.best(game.own[0]))
        if settled is not None:
            keeps_wishes(asked, *settled)
            count += 1
    assert count >= 5


def keeps_wishes(asked: Estimates, selection: Bools, regret: Floats) -> None:
    """Within everybody's limits, nobody could earn more but for the regret."""
    wishes, owners = asked.wishes, asked.owners
    assert wishes.groups is not None
    assert (np.bincount(owners, asked.unwillingness * selection) <= 1.2).all()
    now = earned(asked, selection[None])[0]
    for user in range(asked.n_users):
        joint = choices_of(asked, user, selection)
        theirs = joint[:, owners == user]
        groups = wishes.groups[owners == user]
        whole = np.array([all(len(set(each[groups == g])) == 1 for g in set(groups)) for each in theirs])
        paid = theirs @ asked.unwillingness[owners == user]
        able = whole & (paid <= 1.2)
        able &= theirs.any(axis=1) | ~theirs[able].any()
        assert earned(asked, joint[able])[:, user].max() <= now[user] + regret[user] + 1e-9


def test_what_is_never_to_be_disclosed_meets_no_floor() -> None:
    """A category with such a row would reach the floor of 3; the best without it has two rows."""
    own = np.array([[0, 0, 0, 0.1, 0.1, 2, 2]] * 2)
    game = Estimates(
        owners=np.zeros(7, dtype=np.int64),
        n_users=1,
        unwillingness=np.array([1, 0.1, 0.1, 0.75, 0.75, 0.75, 0.75]),
        anchors=np.array([[True] * 7, [False] * 7]),
        own=own,
        social=own,
        losses=np.zeros((2, 1)),
        wishes=Wishes(groups=np.array([0, 0, 0, 1, 1, 2, 2]), floor=np.array([3]), budget=np.array([1.6])),
    )
    settled = settle(game, np.array([False, False, False, True, True, False, False]))
    assert settled is not None
    np.testing.assert_array_equal(settled[0], game.players(PRICE).best(own[0]))
    assert settled[0].tolist() == [False] * 5 + [True] * 2


def earned(game: Estimates, selections: Bools) -> Floats:
    """Rewards with the utility that is wished for: [m, N]."""
    paid = np.array(
        [np.bincount(game.owners, game.unwillingness * each, game.n_users) for each in selections]
    )
    linear: Floats = payoffs(game, selections, PRICE, Objective.NASH) + PRICE * paid
    return linear - PRICE * game.wishes.cost(paid)


def test_turns_are_limited() -> None:
    game = random_game(0, n_anchors=2, disagreement=0.4)
    everything = np.ones(len(game.owners), dtype=np.bool_)
    assert Turns(game, PRICE, turns_left=0, bounds_left=9).settle(everything) is None
    assert Turns(game, PRICE, turns_left=99, bounds_left=0).settle(everything) is None
    turns = Turns(game, PRICE, turns_left=99, bounds_left=9)
    assert turns.settle(everything) is not None
    assert turns.turns_left < 99
    assert turns.bounds_left < 9


@pytest.mark.parametrize("n_anchors", [1, 3])
def test_minding_more_never_turns_on_where_welfare_is_sought(n_anchors: int) -> None:
    assert turned_on(15, n_anchors=n_anchors, objective=Objective.WELFARE)[0] == 0
    if n_anchors == 1:
        assert turned_on(15, n_anchors=1)[0] == 0


@pytest.mark.parametrize("seed", range(15))
def test_an_equilibrium_stays_one_when_what_it_withholds_is_minded_more(seed: int) -> None:
    """And none is new that discloses it: only which of several is found may change."""
    game = random_game(seed, n_anchors=3, disagreement=0.6)
    before = equilibria(game, PRICE, tolerance=0)
    for k in range(len(game.owners)):
        minded = game.unwillingness.copy()
        minded[k] = 1.0
        after = equilibria(replace(game, unwillingness=minded), PRICE, tolerance=0)
        discloses = (np.arange(len(after)) >> k) & 1 == 1
        assert (after >= before)[~discloses].all()
        assert (after <= before)[discloses].all()


def test_minding_more_hardly_ever_turns_on_what_is_withheld() -> None:
    turned, tried = turned_on(20, n_anchors=3, blind=True)
    print(f"{turned} of {tried} turned on")
    assert tried > 50
    assert turned <= 0.02 * tried
