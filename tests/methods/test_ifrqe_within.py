"""IFRQE within a budget decides as `game.decide.decide_within` does, on random games."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from assent.settings import Settings
from tests.game.small_games import random_game

from assent.data.wishes import Wishes
from assent.game.estimates import Estimates, Objective
from assent.game.solve import decide_within, solve
from assent.methods import Choice, make_method


def chosen(game: Estimates, objective: Objective, budget: float) -> Choice:
    """What IFRQE decides if its estimates are `game`."""
    problem = SimpleNamespace(
        unwillingness=game.unwillingness,
        train=SimpleNamespace(users=game.owners),
        n_users=game.n_users,
        wishes=game.wishes,
    )
    bench: Any = SimpleNamespace(
        problem=problem,
        settings=Settings(),
        seed=0,
        estimates=lambda *_: game,
        trust=lambda *_: {},
        resting_on=lambda *_: (),
        errors=lambda *_: None,
    )
    return make_method("ifrqe", objective).within(bench, budget)


def wishes_of(game: Estimates, kind: str) -> Wishes:
    """None, by category with limits of their own, or dearer units with floors."""
    rng = np.random.default_rng(game.n_users)
    groups = game.owners * 3 + rng.integers(0, 3, len(game.owners))
    floor = rng.integers(0, 2, game.n_users)
    known = {
        "plain": Wishes(),
        "limits": Wishes(groups=groups, budget=rng.choice([0.5, 1.5, np.inf], game.n_users)),
        "dearer": Wishes(power=2.0, floor=floor),
    }
    return known[kind]


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("kind", ["plain", "limits", "dearer"])
@pytest.mark.parametrize("n_anchors", [1, 2])
def test_selection_price_and_values_are_the_same(objective: Objective, kind: str, n_anchors: int) -> None:
    for seed in range(2):
        game = random_game(seed, n_anchors=n_anchors, n_users=5 + seed, longest=4, disagreement=0.4)
        game = replace(game, wishes=wishes_of(game, kind))
        for budget in (0.4, 0.8):
            expected = chosen(game, objective, budget)
            found, price = decide_within(
                game,
                lambda price, game=game: solve(game, objective=objective, price=price),  # type: ignore[misc]
                budget * float(game.unwillingness.sum()),
                objective,
            )
            np.testing.assert_array_equal(found.selection, expected.selection)
            assert price == expected.price
            assert expected.values is not None
            np.testing.assert_array_equal(found.values, expected.values)
