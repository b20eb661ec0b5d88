"""The game over shards of people, as jobs: nobody holds all interactions, and the result has the bytes of
`game.solve`.

It is for games without wishes, in which everybody plays for their own reward (`nash`) and effects on single
others are unknown. The search is that of `solve.Search`. In every pass the leading process asks each shard
the same question (`shard.Shard`), and puts the answers together:

    which cells does the prior lead to?       moments of distances, T numbers and T²
    where does a move lie?                    totals, T numbers twice
    who could gain by deviating?              a regret for each person
    what holds a cell, or changes in turns?   the few interactions that matter

So it holds a loss and a regret for each person, and those few interactions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from assent.game.estimates import Estimates, hamming
from assent.game.nearest import cells_of
from assent.game.players import ENUMERATED, Players
from assent.game.shard import PRIOR, Game, Move, People, Shard, Some, Totals, added
from assent.game.solve import TURNS, WORK, Equilibrium, Search
from assent.game.steering import Held, Joint, Nearest, Turns, hold_nearest, least
from assent.lab.executor import Executor
from assent.support.arrays import Bools, Floats, Ints
from assent.support.progress import Advance

R = TypeVar("R")
Question = Callable[[Shard], R]
"""A method of `Shard`, perhaps with its arguments."""


class _Asked(NamedTuple, Generic[R]):
    """A question at a move."""

    game: Game
    move: Move
    question: Question[R]


def _answered(asked: _Asked[R], people: People, tell: Advance) -> R:
    found = asked.question(Shard(people, asked.game, asked.move))
    tell()
    return found


@dataclass(frozen=True)
class _Passes:
    """Asks all shards."""

    shards: Sequence[People]
    executor: Executor
    tell: Advance = lambda: None

    def ask(self, game: Game, move: Move, question: Question[R]) -> list[R]:
        """Return what each shard answers."""
        return self.executor.map(_answered, self.shards, _Asked(game, move, question), self.tell)


@dataclass(frozen=True)
class _Far(Held):
    """A joint selection that is spread over shards: `selection` and `values` are those of its exceptions."""

    move: Move
    totals: Totals

    @classmethod
    def of(cls, move: Move, totals: Totals, payments: Floats) -> "_Far":
        return cls(move.selection, move.values, totals.distances, payments, move, totals)


@dataclass(frozen=True)
class Spread:
    """A solution; everybody's part of it is found shard by shard."""

    shards: Sequence[People]
    rounds: int
    regret: Floats
    """[N]"""
    nearest: Ints
    """[T]"""
    _game: Game
    _found: _Far
    _is_settled: bool

    def parts(self, executor: Executor) -> list[tuple[Bools, Floats]]:
        """Return the selection and the values of each shard's interactions."""
        question = partial(Shard.part, total=self._found.totals, is_settled=self._is_settled)
        return _Passes(self.shards, executor).ask(self._game, self._found.move, question)

    def gathered(self, executor: Executor) -> Equilibrium:
        """Return the solution as one that was found in memory."""
        selections, values = zip(*self.parts(executor), strict=True)
        together = np.concatenate(selections), np.concatenate(values)
        return Equilibrium(*together, self.rounds, self.regret, self.nearest)


def solve_spread(
    shards: Sequence[People],
    *,
    price: float,
    executor: Executor,
    rounds: int = 40,
    tell: Advance = lambda: None,
) -> Spread:
    """Return what `solve` finds for `nash` at a price; `tell` is called for every shard of every pass."""
    about = executor.map(_about, shards, None, tell)
    apart = np.sum([each[0] for each in about], axis=0)
    first = (apart == 0).argmax(axis=1)  # of the anchors that are the same
    alike = np.unique(first, return_inverse=True)[1].astype(np.int64)
    losses = np.concatenate([each[1] for each in about], axis=1)
    search = _Spread(_Passes(shards, executor, tell), losses, Game(price, losses.shape[1], alike), rounds)
    return search.alone() if alike.max() == 0 else search.nash(np.zeros(0))


def _about(shared: None, people: People, tell: Advance) -> tuple[Ints, Floats]:
    """Return how far the anchors are from each other, [T, T], and the losses, [T, people]."""
    found = people.read()
    tell()
    return np.array([hamming(found.anchors, each) for each in found.anchors]), found.losses


class _Spread(Search[Spread]):
    """Leads the search."""

    def __init__(self, passes: _Passes, losses: Floats, game: Game, rounds: int) -> None:
        rows = sum(each.rows for each in passes.shards)
        super().__init__(game.price, rounds, game.alike, losses, rows)
        self.passes, self.losses, self.game = passes, losses, game

    def ask(self, move: Move, question: Question[R]) -> list[R]:
        """Return what each shard answers at a move."""
        return self.passes.ask(self.game, move, question)

    def at(self, move: Move, payments: Floats | None = None) -> _Far:
        """Play a move: shards exchange their totals."""
        nothing = np.zeros(len(self.alike))
        return _Far.of(move, added(self.ask(move, Shard.totals)), nothing if payments is None else payments)

    def regret_at(self, move: Move, totals: Totals, payments: Floats | None) -> Floats:
        """At most what each player could gain by deviating alone: [N]."""
        return np.concatenate(self.ask(move, partial(Shard.regrets, total=totals, payments=payments)))

    def alone(self) -> Spread:
        """The closed form for one anchor, or several that coincide."""
        held = self._answer(0)
        return self.equilibrium(held, self._regret(held))

    def equilibrium(self, held: Held, regret: Floats, *, is_settled: bool = False) -> Spread:
        """The result for a selection that was found, with its regret."""
        assert isinstance(held, _Far)
        rounds = int(self.nearest.sum())
        return Spread(self.passes.shards, rounds, regret, self.nearest, self.game, held, is_settled)

    def _respond(self, strategy: Floats) -> tuple[Held, Floats]:
        """Everybody's best response to the usual prior, whatever `strategy` is."""
        move = Move.answer(PRIOR)
        means, covs, totals = zip(*self.ask(move, Shard.moments), strict=True)
        here = cells_of(np.sum(means, axis=0), np.sum(covs, axis=0), self.alike)
        self.game = self.game._replace(cells=here, of_prior=added(totals))
        return self._seen(self.at(move)), here.probability

    def _answer(self, t: int) -> Held:
        return self._seen(self.at(Move.answer(t)))

    def _regret(self, held: Held) -> Floats:
        assert isinstance(held, _Far)
        return self.regret_at(held.move, held.totals, held.payments)

    def _hold(self, t: int, *, safely: bool) -> list[Held]:
        move, ties = Move.answer(t), (np.arange(len(self.alike)) < t).astype(np.int64)
        margins = 1 + np.max(self.ask(move, Shard.reaches), axis=0) if safely else ties
        distances = added(self.ask(move, Shard.totals)).distances

        def nearest(count: int) -> Nearest:
            some = _together(self.ask(move, partial(Shard.nearest, count=count)))
            here = least(some.net, count)
            players = Players(some.owners[here], self.n_users, some.unwillingness[here], self.price)
            anchors, values = np.take(some.anchors, here, axis=1), some.own[t, here]
            farthest = float(some.net[here].max())
            return Nearest(some.rows[here], anchors, players, values, some.selection[here], farthest)

        others, total = self.alike != self.alike[t], self.size // len(self.alike)
        found = hold_nearest(nearest, total, distances, t, others, margins, evenly=True)
        if found is None:
            return []
        held, some = found
        return [self._seen(self.at(Move(t, some.rows, held.selection, held.values), held.payments))]

    def _settled(self, starts: Sequence[tuple[Held, Floats | None]]) -> Spread:
        turns = _Turns(self, TURNS, max(2, WORK // self.size))
        best, regret = starts[0]
        assert regret is not None
        for held, known in starts:
            assert isinstance(held, _Far)
            settled = turns.settle(held, known)
            if settled is not None and settled[1].max() <= regret.max():
                move, regret = settled
                return self.equilibrium(self._seen(self.at(move)), regret, is_settled=True)
        return self.equilibrium(best, regret)


class _Turns:
    """Turns of players whose interactions are fetched from their shards, as `steering.Turns` plays them."""

    def __init__(self, search: _Spread, turns_left: int, bounds_left: int) -> None:
        self.search, self.turns_left, self.bounds_left = search, turns_left, bounds_left
        self.rounding = Turns.rounding_of(search.losses, search.price)

    def settle(self, start: _Far, regret: Floats | None) -> tuple[Move, Floats] | None:
        """What `Turns.settle` returns."""
        search, now, felt = self.search, start, None
        flipped, seen = frozenset[int](), set[frozenset[int]]()
        while flipped not in seen:
            seen.add(flipped)
            if regret is None and self.bounds_left:
                self.bounds_left -= 1
                regret = search.regret_at(now.move, now.totals, None)
            may_gain = [] if regret is None else np.flatnonzero(regret > self.rounding).tolist()
            if regret is None or len(may_gain) > self.turns_left:
                return None
            self.turns_left -= len(may_gain)
            if not may_gain:
                return now.move, np.zeros_like(regret)
            some, turns = self._fetch(now, may_gain)
            joint = Joint(turns.estimates, some.selection)
            if felt is not None:
                joint.felt = felt
            if not [player for player in may_gain if turns.moves(joint, player)]:
                long = [player for player in may_gain if turns.units(player).max() >= ENUMERATED]
                left = np.zeros_like(regret)
                left[long] = regret[long]
                return now.move, left
            felt, moved = joint.felt, joint.selection != some.selection
            flipped ^= frozenset(some.rows[moved].tolist())
            move = now.move.changed(some.rows[moved], joint.selection[moved])
            now, regret = search.at(move), None
        return None

    def _fetch(self, now: _Far, players: list[int]) -> tuple[Some, Turns]:
        """The interactions of some players, in a game in which all others stay."""
        search, game = self.search, self.search.game
        some = _together(search.ask(now.move, partial(Shard.rows_of, players=np.array(players))))
        theirs = Estimates(
            owners=some.owners,
            n_users=search.n_users,
            unwillingness=some.unwillingness,
            anchors=some.anchors,
            own=some.own,
            social=some.social,
            losses=search.losses,
        )
        alone = game.among(theirs, Totals.nobody(len(game.alike)))
        estimates = game.among(theirs, now.totals.without(Totals.of(alone, some.selection)))
        return some, Turns(estimates, game.price, turns_left=0, bounds_left=0)


def _together(parts: Sequence[Some]) -> Some:
    """Put interactions of several shards together."""
    return Some(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))
