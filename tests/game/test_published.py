"""The game of the authors' published code, against its rule written out on whole tables."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.game.estimates import Estimates, Objective
from assent.game.paper import TableSettings
from assent.game.published import play_published
from assent.support.arrays import Bools

from .full_tables import binomial
from .small_games import keys_of, random_game, steady


def written_out(game: Estimates, price: float, steps: int, step: float) -> Bools:
    """What everybody discloses, from a probability for each of the 2^|S| selections; ties are not broken."""
    rows = [np.flatnonzero(game.owners == user) for user in range(game.n_users)]
    bits = [(np.arange(2 ** len(own))[:, None] >> np.arange(len(own))) & 1 for own in rows]
    strategies = [binomial(len(own)) for own in rows]
    totals = [np.zeros_like(strategy) for strategy in strategies]
    selection = np.zeros(len(game.owners), dtype=np.bool_)
    for _ in range(steps):
        played = [int(strategy.argmax()) for strategy in strategies]
        for own, each, code in zip(rows, bits, played, strict=True):
            selection[own] = each[code]
        nearest = game.distances_of(selection).argmin()
        losses = game.losses[nearest]
        shared = float(selection @ game.own[nearest]) - losses[losses > 0].mean()
        for user, own in enumerate(rows):
            reward = shared - price * float(selection[own] @ game.unwillingness[own])
            strategies[user][played[user]] *= np.exp(step * reward)
            strategies[user] /= strategies[user].sum()
            totals[user] += strategies[user]
    for own, each, total in zip(rows, bits, totals, strict=True):
        selection[own] = each[int(total.argmax())]
    return selection


def played(game: Estimates, *, price: float = 1.0, steps: int = 40, step: float = 0.08) -> Bools:
    given = TableSettings(samples=steps, step=step)
    found = play_published(game, objective=Objective.NASH, price=price, settings=given, keys=keys_of(game))
    assert found.nearest.sum() == steps
    return found.selection


@settings(steady, max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([5, 40, 150]))
def test_it_is_the_rule_written_out(seed: int, steps: int) -> None:
    """But for one of two, who are as likely: among those that cost the same, the first is taken there."""
    game = random_game(seed, n_anchors=2, longest=1, disagreement=0.3)
    np.testing.assert_array_equal(played(game, steps=steps), written_out(game, 1.0, steps, 0.08))


def people(n_users: int = 400, length: int = 4) -> Estimates:
    rng = np.random.default_rng(0)
    rows = n_users * length
    return Estimates(
        owners=np.repeat(np.arange(n_users), length), n_users=n_users, unwillingness=rng.random(rows),
        anchors=np.ones((1, rows), dtype=np.bool_), own=np.zeros((1, rows)), social=np.zeros((1, rows)),
        losses=np.full((1, n_users), 0.1),
    )  # fmt: skip


def test_without_influence_the_step_decides_what_is_disclosed() -> None:
    game = people()
    everything = game.unwillingness.sum()
    kept = [
        float(game.unwillingness[played(game, steps=1000, step=step)].sum() / everything)
        for step in (0.01, 0.08, 0.1)
    ]
    assert kept[0] == pytest.approx(1)
    assert kept[0] > kept[1] > kept[2] > 0.5


def test_what_one_interaction_does_for_its_owner_moves_everybody_alike() -> None:
    """Where in the log the influence is found does not matter: all see the sum."""
    game, rng = people(60), np.random.default_rng(1)
    own = rng.normal(0, 0.01, game.own.shape)
    one, other = (replace(game, own=each) for each in (own, own[:, ::-1].copy()))
    everybody = np.ones(len(game.owners), dtype=np.bool_)
    few = 3  # steps in which everybody still plays everything
    np.testing.assert_array_equal(played(one, steps=few), everybody)
    np.testing.assert_array_equal(played(one, steps=few), played(other, steps=few))


def test_somebody_with_one_choice_alone_does_not_stop_the_game() -> None:
    """Nothing to disclose is a single selection, whose probability stays 1 however often it is moved."""
    game = people(20)
    more = replace(game, n_users=21, losses=np.full((1, 21), 30.0))
    with np.errstate(all="raise"):
        kept = played(more, steps=1000)
    np.testing.assert_array_equal(kept, played(replace(game, losses=np.full((1, 20), 30.0)), steps=1000))
