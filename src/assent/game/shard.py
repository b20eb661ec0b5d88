"""A shard of people in a game that nobody holds: what its people play, and what it tells of them.

People are coupled through T distances alone, and T sums of what they do for each other
(`Estimates.elsewhere`). So a shard tells its `Totals`, T numbers twice; beside the totals of all others it is
a game like any other. A `Move` says what everybody discloses without listing it: the best responses to an
anchor, or to the prior, but for a few interactions.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as as_bytes

from assent.data.wishes import USUAL_PRIOR
from assent.game.estimates import Elsewhere, Estimates, Objective
from assent.game.nearest import Cells, reach, regret_of, response_values
from assent.game.prices import worth_disclosing
from assent.game.steering import Turns, least
from assent.support.arrays import Bools, Floats, Ints
from assent.support.errors import AssentError
from assent.support.files import read_own, write_bytes

PRIOR = -1


class People(NamedTuple):
    """A range of people with all their interactions, in a file."""

    file: Path
    first: int
    """The first person, among all."""
    people: int
    row: int
    """The first interaction, among all."""
    rows: int

    @property
    def label(self) -> str:
        """What errors call it."""
        return f"people {self.first} to {self.first + self.people}"

    def read(self) -> Estimates:
        """Return what these people know of each other; owners are counted from 0."""
        found: dict[str, Any] = from_bytes(read_own(self.file))
        return Estimates(n_users=self.people, **found)


def write_shards(estimates: Estimates, folder: Path, count: int) -> list[People]:
    """Deal the people of a game into `count` shards, as files of `folder`; rows are sorted by person."""
    if estimates.effects or not estimates.wishes.are_plain:
        raise AssentError("shards: accepted: games without wishes and effects on single others")
    if (np.diff(estimates.owners) < 0).any():
        raise AssentError("shards: accepted: interactions sorted by person")
    cuts = np.unique(np.linspace(0, estimates.n_users, count + 1).astype(np.int64))
    found = []
    for number, (first, end) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
        rows = slice(*np.searchsorted(estimates.owners, [first, end]).tolist())
        arrays: dict[str, Any] = {
            "owners": estimates.owners[rows] - first,
            "unwillingness": estimates.unwillingness[rows],
            "losses": estimates.losses[:, first:end],
            **{name: getattr(estimates, name)[:, rows] for name in ("anchors", "own", "social")},
        }
        content = as_bytes({name: np.ascontiguousarray(each) for name, each in arrays.items()})
        file = folder / f"people-{number}"
        write_bytes(file, content, private=True)
        found.append(People(file, first, end - first, rows.start, rows.stop - rows.start))
    return found


class Move(NamedTuple):
    """What everybody discloses."""

    anchor: int
    """The anchor whose best responses are played; `PRIOR`: those to the prior."""
    rows: Ints
    """Interactions, among all, in order, of which it says something else."""
    selection: Bools
    """[rows]"""
    values: Floats
    """[rows]"""

    @classmethod
    def answer(cls, anchor: int) -> "Move":
        """The best responses to an anchor, or to the prior."""
        return cls(anchor, np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0))

    def changed(self, rows: Ints, selection: Bools) -> "Move":
        """Return the move with another selection on `rows`, in order; their values stay, or are 0."""
        every = np.union1d(self.rows, rows)
        chosen, values = np.zeros(len(every), np.bool_), np.zeros(len(every))
        before, now = np.searchsorted(every, self.rows), np.searchsorted(every, rows)
        chosen[before], values[before] = self.selection, self.values
        chosen[now] = selection
        return Move(self.anchor, every, chosen, values)


class Totals(NamedTuple):
    """What some people add to a joint selection, or to a strategy."""

    distances: Ints
    """[T], to the anchors; 0 for a strategy, whose distances are in its cells."""
    shared: tuple[int, ...]
    """T exact sums of what they do for each other."""

    @classmethod
    def of(cls, alone: Estimates, selection: Bools) -> "Totals":
        """Return those of people who play a selection, as if there were no others."""
        return cls(alone.distances_of(selection), _shared(alone, selection))

    @classmethod
    def of_chances(cls, alone: Estimates, strategy: Floats) -> "Totals":
        """Return those of people who disclose by chance."""
        return cls(np.zeros(alone.n_anchors, np.int64), _shared(alone, strategy))

    @classmethod
    def nobody(cls, n_anchors: int) -> "Totals":
        """Return those of no people."""
        return cls(np.zeros(n_anchors, np.int64), (0,) * n_anchors)

    def without(self, some: "Totals") -> "Totals":
        """Return those of all but some people."""
        shared = tuple(all_ - own for all_, own in zip(self.shared, some.shared, strict=True))
        return Totals(self.distances - some.distances, shared)


def _shared(alone: Estimates, played: Bools | Floats) -> tuple[int, ...]:
    changes = (played - anchor.astype(np.float64) for anchor in alone.anchors)
    return tuple(alone.shared(t, each) for t, each in enumerate(changes))


def added(parts: Iterable[Totals]) -> Totals:
    """Add up what all shards tell."""
    every = list(parts)
    shared = tuple(sum(each) for each in zip(*(one.shared for one in every), strict=True))
    return Totals(np.sum([one.distances for one in every], axis=0), shared)


class Game(NamedTuple):
    """What all shards know of the game."""

    price: float
    people: int
    alike: Ints
    """[T], a number per anchor; anchors with the same selection share it."""
    cells: Cells | None = None
    """Those of the prior, once they are known."""
    of_prior: Totals | None = None
    """What everybody adds by the prior."""

    def among(self, some: Estimates, others: Totals) -> Estimates:
        """Return the estimates of some people beside what all others add."""
        people = self.people - some.n_users
        return replace(some, elsewhere=Elsewhere(people, others.distances, others.shared, self.alike))


class Some(NamedTuple):
    """Some interactions."""

    rows: Ints
    """Among all."""
    owners: Ints
    """Among all."""
    unwillingness: Floats
    anchors: Bools
    own: Floats
    social: Floats
    selection: Bools
    net: Floats
    """How far each is from indifference to the anchor that is answered."""


class Shard:
    """A shard at a move; everything is computed when it is asked for."""

    def __init__(self, people: People, game: Game, move: Move) -> None:
        self.people, self.game, self.move = people, game, move
        self.alone = game.among(people.read(), Totals.nobody(len(game.alike)))
        self.prior = np.full(people.rows, USUAL_PRIOR)

    def moments(self) -> tuple[Floats, Floats, Totals]:
        """Return what it adds by the prior: to mean and covariance of distances, and its totals."""
        return *self.alone.moments(self.prior), Totals.of_chances(self.alone, self.prior)

    @cached_property
    def played(self) -> tuple[Bools, Floats]:
        """Selection and values of its interactions: [rows] each."""
        alone, game, move = self.alone, self.game, self.move
        if move.anchor == PRIOR:
            assert game.of_prior is not None
            here = game.among(alone, game.of_prior.without(Totals.of(alone, self.prior)))
            values = response_values(here, self.prior, Objective.NASH, game.cells)[0]
        else:
            values = alone.own[move.anchor].copy()
        selection = worth_disclosing(values, alone.unwillingness, game.price)
        first = self.people.row
        here_too = slice(*np.searchsorted(move.rows, [first, first + self.people.rows]).tolist())
        places = move.rows[here_too] - first
        selection[places], values[places] = move.selection[here_too], move.values[here_too]
        return selection, values

    def totals(self) -> Totals:
        """Return what it adds to the move's totals."""
        return Totals.of(self.alone, self.played[0])

    def regrets(self, total: Totals, payments: Floats | None) -> Floats:
        """Return at most what each of its people could gain by deviating alone: [people]."""
        here, price = self._beside(total), self.game.price
        return regret_of(here, self.played[0], objective=Objective.NASH, price=price, payments=payments)

    def reaches(self) -> Ints:
        """Return by how much a single one of its people can shorten each distance, at most: [T]."""
        t, selection = self.move.anchor, self.played[0]
        each = (reach(self.alone, t, s, selection) for s in range(self.alone.n_anchors))
        return np.array([int(found.max(initial=0)) for found in each])

    def nearest(self, count: int) -> Some:
        """Return interactions among which are those of all shards' `count` nearest to indifference."""
        return self._some(least(self._net, min(count, len(self._net))))

    def rows_of(self, players: Ints) -> Some:
        """Return the interactions of players, who are numbered among all."""
        return self._some(np.flatnonzero(np.isin(self.alone.owners + self.people.first, players)))

    def part(self, total: Totals, *, is_settled: bool) -> tuple[Bools, Floats]:
        """Return its part of a solution; where turns settled, a value is what a row adds alone."""
        selection, values = self.played
        if is_settled:
            turns = Turns(self._beside(total), self.game.price, turns_left=0, bounds_left=0)
            values = turns.values(selection)
        return selection, values

    def _beside(self, total: Totals) -> Estimates:
        return self.game.among(self.alone, total.without(self.totals()))

    @property
    def _net(self) -> Floats:
        own = self.alone.own[max(self.move.anchor, 0)]
        net: Floats = np.abs(own - self.game.price * self.alone.unwillingness)
        return net

    def _some(self, rows: Ints) -> Some:
        alone, people = self.alone, self.people
        anchors: Bools = np.take(alone.anchors, rows, axis=1)
        own: Floats = np.take(alone.own, rows, axis=1)
        social: Floats = np.take(alone.social, rows, axis=1)
        owners, minded = alone.owners[rows] + people.first, alone.unwillingness[rows]
        selection = self.played[0][rows]
        return Some(people.row + rows, owners, minded, anchors, own, social, selection, self._net[rows])
