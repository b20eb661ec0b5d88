"""The game over shards of people: the bytes of the solver that holds everything."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assent.game.estimates import Estimates, Objective
from assent.game.shard import write_shards
from assent.game.solve import solve
from assent.game.spread import solve_spread
from assent.lab import SERIAL, Processes
from assent.support.errors import AssentError

OF_ANCHORS = ("anchors", "own", "social", "losses")


def game(seed: int, *, people: int = 40, anchors: int = 4, per_person: int = 12) -> Estimates:
    """A game of people with different numbers of interactions; anchors are near each other."""
    rng = np.random.default_rng(seed)
    owners = np.repeat(np.arange(people), rng.integers(1, 2 * per_person, people))
    rows = len(owners)
    first = rng.random(rows) < 0.5
    flips = rng.random((anchors, rows)) < rng.choice([0.05, 0.3])
    own = rng.normal(size=(1, rows)) + 0.7 * rng.normal(size=(anchors, rows))
    return Estimates(
        owners=owners,
        n_users=people,
        unwillingness=rng.random(rows),
        anchors=first ^ flips,
        own=own,
        social=own + rng.normal(size=(anchors, rows)),
        losses=rng.random((anchors, people)) + 5,
    )


SMALL = {"people": 8, "per_person": 4, "anchors": 3}
"""With the seeds below, turns settle after some moves."""


@pytest.mark.parametrize(
    ("seed", "size", "price"),
    [
        (0, {}, 0.3),  # a cell answers itself
        (2, {}, 0.5),
        (3, {"people": 1200}, 0.6),
        (1, {}, 0.4),  # cells are held, and turns run out
        (7, {"people": 1200, "anchors": 6}, 0.2),
        *((seed, SMALL, 0.5) for seed in (1, 4, 22, 25)),
    ],
)
def test_shards_find_the_bytes_of_memory(
    seed: int, size: dict[str, int], price: float, tmp_path: Path
) -> None:
    whole = game(seed, **size)
    expected = solve(whole, objective=Objective.NASH, price=price)
    for count in (1, 3):
        shards = write_shards(whole, tmp_path / f"{count}", count)
        found = solve_spread(shards, price=price, executor=SERIAL).gathered(SERIAL)
        np.testing.assert_array_equal(found.selection, expected.selection)
        np.testing.assert_array_equal(found.nearest, expected.nearest)
        assert found.values.tobytes() == expected.values.tobytes()
        assert found.regret.tobytes() == expected.regret.tobytes()
        assert found.rounds == expected.rounds


def test_one_anchor_and_equal_ones_have_a_closed_form(tmp_path: Path) -> None:
    for anchors in (1, 2):
        one = game(0, anchors=1)
        repeated: dict[str, Any] = {
            name: np.repeat(getattr(one, name), anchors, axis=0) for name in OF_ANCHORS
        }
        whole = replace(one, **repeated)
        expected = solve(whole, objective=Objective.NASH, price=0.5)
        shards = write_shards(whole, tmp_path / f"{anchors}", 2)
        found = solve_spread(shards, price=0.5, executor=SERIAL).gathered(SERIAL)
        assert found.selection.tobytes() == expected.selection.tobytes()
        assert found.values.tobytes() == expected.values.tobytes()


def test_processes_find_the_same(tmp_path: Path) -> None:
    whole = game(0)
    shards = write_shards(whole, tmp_path, 2)
    with Processes(2) as processes:
        found = solve_spread(shards, price=0.3, executor=processes).gathered(processes)
    expected = solve(whole, objective=Objective.NASH, price=0.3)
    assert found.values.tobytes() == expected.values.tobytes()


def test_games_that_cannot_be_dealt_out_are_refused(tmp_path: Path) -> None:
    whole = game(1)
    mixed = replace(whole, owners=whole.owners[::-1].copy())
    with pytest.raises(AssentError, match="sorted by person"):
        write_shards(mixed, tmp_path, 2)
