from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.game.estimates import Estimates, Objective
from assent.game.nearest import regret_of, response_values
from assent.game.paper import (
    LONGEST_LISTED,
    Gradient,
    OneAnchor,
    Rewards,
    TableSettings,
    algorithm_1,
    algorithm_2,
    marginals,
    solve_table,
)
from assent.game.prices import worth_disclosing
from assent.game.solve import solve
from assent.support.arrays import Floats
from assent.support.errors import AssentError

from .full_tables import binomial, expected_rewards, listed
from .small_games import (
    all_selections,
    choices_of,
    eighths,
    games,
    keys_of,
    make_game,
    payoffs,
    random_game,
    steady,
)

BOTH = pytest.mark.parametrize("objective", list(Objective))


def play(game: Estimates, settings: TableSettings, *, price: float = 0.5, seed: int = 0) -> list[Floats]:
    """The players' strategies after Algorithm 2, written out."""
    rewards = Rewards(game, Objective.NASH, price)
    tables, _ = algorithm_2(rewards, settings, keys_of(game, seed))
    [players] = rewards.histories.blocks
    return [listed(tables[0], place) for place in np.argsort(players)]


@BOTH
@settings(steady, max_examples=60)
@given(game=games(n_anchors=1), price=eighths(0, 24))
def test_algorithm_1_gives_the_closed_form(objective: Objective, game: Estimates, price: float) -> None:
    found = algorithm_1(game, objective=objective, price=price)
    closed = solve(game, objective=objective, price=price)
    np.testing.assert_array_equal(found, closed.selection)
    both = solve_table(game, objective=objective, price=price, settings=TableSettings(), keys=keys_of(game))
    np.testing.assert_array_equal(both.selection, closed.selection)
    np.testing.assert_array_equal(both.values, closed.values)
    np.testing.assert_array_equal(both.regret, 0)


@BOTH
def test_one_anchor_is_learnt_like_several_where_that_is_asked_for(objective: Objective) -> None:
    """With two anchors that know the same, tables learn what they learn with one."""
    one = random_game(3, n_anchors=1, disagreement=0.0)
    two = replace(
        one,
        anchors=np.repeat(one.anchors, 2, axis=0),
        own=np.repeat(one.own, 2, axis=0),
        social=np.repeat(one.social, 2, axis=0),
        losses=np.repeat(one.losses, 2, axis=0),
        effects=2 * one.effects,
    )
    learnt = TableSettings(samples=50, rounds=3, one_anchor=OneAnchor.LEARNT)
    found = [
        solve_table(game, objective=objective, price=0.5, settings=learnt, keys=keys_of(game))
        for game in (one, two)
    ]
    np.testing.assert_array_equal(found[0].selection, found[1].selection)
    np.testing.assert_allclose(found[0].values, found[1].values)
    listed_one = solve_table(one, objective=objective, price=0.5, settings=TableSettings(), keys=keys_of(one))
    assert (found[0].rounds, listed_one.rounds) == (3, 1)


def lopsided(n_users: int = 3) -> Estimates:
    """Players whose first interaction is worth 1/2, the second −1/2, whatever anyone does."""
    owners, worth = np.repeat(np.arange(n_users), 2), np.tile([0.5, -0.5], n_users)
    effects = np.where(owners == np.arange(n_users)[:, None], worth, 0.0)
    anchors = np.array([[True, True] * n_users, [False, True] * n_users])
    losses = 4 - anchors @ effects.T
    return make_game(owners, np.zeros(2 * n_users), anchors, np.array([effects, effects]), losses)


@pytest.mark.parametrize("gradient", [Gradient.RELATIVE, Gradient.UNBIASED])
def test_it_learns_what_is_best_for_every_player(gradient: Gradient) -> None:
    strategies = play(lopsided(), TableSettings(rounds=10, samples=300, step=0.05, gradient=gradient))
    for strategy in strategies:
        assert strategy.argmax() == 0b01
        assert strategy[0b01] > 0.95


@pytest.mark.parametrize("price", [1e10, 1e100, 1e300])
def test_steps_of_any_size_lead_to_a_strategy(price: float) -> None:
    """At such prices adding 1 to a step is lost in rounding; the best is still to disclose nothing."""
    game = replace(lopsided(), unwillingness=np.full(6, 0.5))
    for strategy in play(game, TableSettings(rounds=2, samples=100), price=price, seed=2):
        assert strategy.sum() == pytest.approx(1)
        assert strategy.argmax() == 0b00


def test_to_the_letter_it_shuns_what_it_samples_where_rewards_are_losses() -> None:
    # E[ĝ]_s = α_s g_s of step 6 rests where that is the same for all s: at α_s ∝ 1/|g_s|, nearly uniform.
    settings = TableSettings(rounds=2, samples=800, step=0.01, gradient=Gradient.WRITTEN)
    strategies = play(lopsided(40), settings)
    losses = np.array([4.0, 3.5, 4.5, 4.0])
    np.testing.assert_allclose(np.mean(strategies, axis=0), (1 / losses) / (1 / losses).sum(), atol=0.02)


def copies(game: Estimates, count: int) -> Estimates:
    """The game `count` times side by side: with one anchor, as many independent games."""
    length, n_users = len(game.owners), game.n_users
    effects = np.zeros((1, count * n_users, count * length))
    for c in range(count):
        block = np.ix_(np.arange(1), c * n_users + np.arange(n_users), c * length + np.arange(length))
        effects[block] = game.effects[0].toarray()
    owners = np.concatenate([game.owners + c * n_users for c in range(count)])
    anchors, losses = np.tile(game.anchors, count), np.tile(game.losses, count)
    return make_game(owners, np.tile(game.unwillingness, count), anchors, effects, losses)


LEARN = TableSettings(rounds=8, samples=300, step=0.02, gradient=Gradient.UNBIASED)
LEARN_FASTER = TableSettings(rounds=5, samples=200, step=0.03, gradient=Gradient.UNBIASED)


def within_error(runs: list[float], factored: float, prior: float) -> None:
    """The runs' mean reward is the factored one but for its standard error, and far from the prior's."""
    error = float(np.std(runs, ddof=1) / np.sqrt(len(runs)))
    print(f"factored {factored:.3f}, table {np.mean(runs):.3f} ± {error:.3f}, prior {prior:.3f}")
    assert abs(np.mean(runs) - factored) < 3 * error + 0.01
    assert error < abs(factored - prior) / 3


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_its_reward_agrees_with_the_closed_form_within_its_sampling_error(seed: int) -> None:
    """Player by player: with one anchor each maximises eq. (6), whatever the others do."""
    game = random_game(seed, n_anchors=1, disagreement=0)
    gain = game.own[0] - 0.5 * game.unwillingness
    worth = [
        all_selections(int(theirs.sum())) @ gain[theirs]
        for theirs in (game.owners == player for player in range(game.n_users))
    ]
    strategies = play(copies(game, 12), LEARN)
    runs = [
        float(np.mean([strategies[c * game.n_users + u] @ worth[u] for u in range(game.n_users)]))
        for c in range(12)
    ]
    prior = np.mean([binomial(len(mine).bit_length() - 1) @ mine for mine in worth])
    selection = solve(game, objective=Objective.NASH, price=0.5).selection
    within_error(runs, float(gain[selection].sum() / game.n_users), float(prior))


@dataclass(frozen=True)
class Single:
    """A game with a single equilibrium, which the factored solver finds, and mean rewards at price 0.5 in it.

    Its anchors disagree, and the first one's best responses are no equilibrium: who takes it for the nearest
    ends elsewhere.
    """

    game: Estimates
    factored: float
    prior: float

    @classmethod
    def of(cls, n_anchors: int, seed: int) -> "Single":
        game = random_game(seed, n_anchors=n_anchors, longest=2, disagreement=0.4)
        found = solve(game, objective=Objective.NASH, price=0.5).selection
        everything = all_selections(len(game.owners))
        rewards = payoffs(game, everything, 0.5, Objective.NASH)
        places = 1 << np.arange(len(found))
        stable = [
            all(
                rewards[choices_of(game, user, each) @ places, user].max() <= mine[user]
                for user in range(game.n_users)
            )
            for each, mine in zip(everything, rewards, strict=True)
        ]
        np.testing.assert_array_equal(everything[stable], found[None])
        assert (worth_disclosing(game.own[0], game.unwillingness, 0.5) != found).any()
        prior = [binomial(int(length)) for length in np.bincount(game.owners, minlength=game.n_users)]
        expected = expected_rewards(game, prior, 0.5)
        return cls(game, float(rewards[stable].mean()), float(expected.mean()))

    def reached(self, settings: TableSettings, seed: int) -> float:
        """The tables' expected reward, from all joint selections."""
        return float(expected_rewards(self.game, play(self.game, settings, seed=seed), 0.5).mean())


@pytest.mark.parametrize(("n_anchors", "seed"), [(2, 16), (3, 6), (3, 8), (3, 14)])
def test_its_reward_agrees_with_the_factored_ones_within_its_sampling_error(
    n_anchors: int, seed: int
) -> None:
    single = Single.of(n_anchors, seed)
    runs = [single.reached(LEARN_FASTER, each) for each in range(3)]
    within_error(runs, single.factored, single.prior)


def test_as_it_is_run_by_default_it_falls_short_by_a_little() -> None:
    single = Single.of(2, 16)
    short = (single.factored - single.reached(TableSettings(), 0)) / (single.factored - single.prior)
    print(f"short by {short:.1%} of what the factored solution gains over the prior")
    assert 0 <= short < 0.25


def test_a_seed_decides_everything_and_seeds_differ() -> None:
    game = random_game(0, n_anchors=2, n_users=70, longest=5, disagreement=0.3)
    settings = TableSettings(rounds=2, samples=30)
    one, same, other = (
        solve_table(game, objective=Objective.NASH, price=0.5, settings=settings, keys=keys_of(game, seed))
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.selection, same.selection)
    np.testing.assert_array_equal(one.values, same.values)
    assert not np.array_equal(one.selection, other.selection)


@BOTH
def test_what_it_returns_is_taken_as_for_factored_strategies(objective: Objective) -> None:
    game = random_game(3, n_anchors=3, n_users=70, longest=5, disagreement=0.3)
    settings = TableSettings(rounds=2, samples=50)
    found = solve_table(game, objective=objective, price=0.5, settings=settings, keys=keys_of(game, 7))
    rewards = Rewards(game, objective, 0.5)
    tables, rounds = algorithm_2(rewards, settings, keys_of(game, 7))
    strategy = marginals(rewards, tables)
    assert strategy.min() >= -1e-12
    assert strategy.max() <= 1 + 1e-12
    values, probability = response_values(game, strategy, objective)
    np.testing.assert_allclose(found.values, values)
    np.testing.assert_array_equal(
        found.regret, regret_of(game, found.selection, objective=objective, price=0.5)
    )
    assert found.rounds == rounds == 2
    assert found.nearest.sum() == 50
    np.testing.assert_allclose(found.nearest / 50, probability, atol=0.2)
    # A sample: as many are disclosed as the strategies say, but for the luck of the draw.
    luck = np.sqrt((strategy * (1 - strategy)).sum())
    assert abs(found.selection.sum() - strategy.sum()) < 4 * luck


def test_it_stops_when_no_strategy_moves_farther_than_the_threshold() -> None:
    game = lopsided()
    rewards = Rewards(game, Objective.NASH, 0.5)
    settings = TableSettings(rounds=20, samples=100, step=0.1)
    _, rounds = algorithm_2(rewards, settings, keys_of(game))
    assert 1 < rounds < 20
    patient = settings.model_copy(update={"threshold": 0.0})
    assert algorithm_2(rewards, patient, keys_of(game))[1] == 20
    easy = settings.model_copy(update={"threshold": 2.1})
    assert algorithm_2(rewards, easy, keys_of(game))[1] == 1


@pytest.mark.parametrize(("n_anchors", "longest"), [(1, LONGEST_LISTED), (2, 62)])
def test_histories_too_long_for_a_table_name_the_factored_strategy(n_anchors: int, longest: int) -> None:
    game = random_game(0, n_anchors=n_anchors, n_users=1, disagreement=0)
    length = longest + 1
    long = replace(
        game,
        owners=np.zeros(length, dtype=np.int64),
        unwillingness=np.zeros(length),
        anchors=np.ones((n_anchors, length), dtype=np.bool_),
        own=np.ones((n_anchors, length)),
        social=np.ones((n_anchors, length)),
        effects=(),
    )
    with pytest.raises(AssentError, match=rf"{length} interactions.*at most {longest}.*strategy=factored"):
        solve_table(long, objective=Objective.NASH, price=1.0, settings=TableSettings(), keys=keys_of(long))


@settings(steady, max_examples=10)
@given(games(n_anchors=2, longest=3), st.integers(0, 2**32))
def test_players_without_interactions_play_along(game: Estimates, seed: int) -> None:
    few = TableSettings(rounds=1, samples=5)
    found = solve_table(game, objective=Objective.NASH, price=0.5, settings=few, keys=keys_of(game, seed))
    assert found.selection.shape == game.owners.shape
    assert np.isfinite(found.regret).all()
