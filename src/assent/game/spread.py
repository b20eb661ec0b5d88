"""The game over shards of people, as jobs: nobody holds all interactions, and shards exchange T numbers.

People are coupled through T distances alone: a shard adds its own to those of the others, and so does it with
T sums of what people do for each other (`Estimates.elsewhere`). All else is the solver of `game.solve`, shard
by shard, and the result has its bytes. It is for games without wishes, in which everybody plays for their own
reward (`nash`) and effects on single others are unknown.

The process that leads holds a loss and a regret for each person, T numbers for each shard, and the few
interactions that hold a cell or change in turns. A *move* says what everybody discloses without listing it:
the best responses to an anchor, or to the prior, but for these few.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as as_bytes

from assent.data.wishes import USUAL_PRIOR
from assent.game.estimates import Elsewhere, Estimates, Objective, hamming
from assent.game.nearest import Cells, cells_of, reach, regret_of, response_values
from assent.game.players import ENUMERATED, Players
from assent.game.prices import worth_disclosing
from assent.game.solve import TURNS, WORK, Equilibrium, Search
from assent.game.steering import Held, Joint, Nearest, Turns, hold_nearest, least
from assent.lab.executor import Executor, Work
from assent.support.arrays import Bools, Floats, Ints
from assent.support.errors import AssentError
from assent.support.files import read_own, write_bytes
from assent.support.progress import Advance

_PRIOR = -1
R = TypeVar("R")


class People(NamedTuple):
    """A shard: a range of people with all their interactions."""

    number: int
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
        """Return what the shard's people know of each other; owners are counted from 0."""
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
        file = folder / f"people-{number}"
        write_bytes(
            file, as_bytes({name: np.ascontiguousarray(each) for name, each in arrays.items()}), private=True
        )
        found.append(People(number, file, first, end - first, rows.start, rows.stop - rows.start))
    return found


class Move(NamedTuple):
    """What everybody discloses."""

    anchor: int
    """The anchor that is answered; `_PRIOR`: the prior, by `cells`."""
    rows: Ints
    """Interactions, among all, in order, of which it says something else."""
    selection: Bools
    """[rows]"""
    values: Floats
    """[rows]"""

    @classmethod
    def answer(cls, anchor: int) -> "Move":
        """The best responses to an anchor."""
        return cls(anchor, np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0))

    def changed(self, rows: Ints, selection: Bools) -> "Move":
        """Return the move with another selection on `rows`."""
        before = dict(zip(self.rows.tolist(), zip(self.selection, self.values, strict=True), strict=True))
        for row, chosen in zip(rows.tolist(), selection.tolist(), strict=True):
            before[row] = chosen, before.get(row, (0, 0.0))[1]
        order = sorted(before)
        return Move(
            self.anchor,
            np.array(order, dtype=np.int64),
            np.array([before[row][0] for row in order], dtype=np.bool_),
            np.array([before[row][1] for row in order], dtype=np.float64),
        )


class Totals(NamedTuple):
    """What shards exchange about a joint selection, or a strategy: T numbers, twice."""

    distances: Ints
    shared: tuple[int, ...]


class _World(NamedTuple):
    """What all jobs know of the game."""

    price: float
    people: int
    alike: Ints
    cells: Cells | None = None
    """Those of the prior, with its totals."""
    of_prior: Totals | None = None


class _At(NamedTuple):
    """The game at a move."""

    world: _World
    move: Move
    totals: Totals | None = None
    payments: Floats | None = None
    is_settled: bool = False
    """Whether values are those of `Turns.values`."""


class _Asked(NamedTuple):
    """The game at a move, and how many interactions, or whose, are asked for."""

    at: _At
    number: int = 0
    players: tuple[int, ...] = ()


class _Some(NamedTuple):
    """Some interactions of a shard."""

    rows: Ints
    """Among all."""
    owners: Ints
    unwillingness: Floats
    anchors: Bools
    own: Floats
    social: Floats
    selection: Bools
    net: Floats
    """How far each is from indifference to the anchor that is answered."""


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
    _at: _At

    def parts(self, executor: Executor) -> list[tuple[Bools, Floats]]:
        """Return the selection and the values of each shard's interactions."""
        return executor.map(_part, self.shards, self._at, lambda: None)

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
    game = _Spread(shards, losses, alike, price, rounds, executor, tell)
    return game.alone() if alike.max() == 0 else game.nash(np.zeros(0))


class _Spread(Search[Spread]):
    """Leads the search; each pass is a list of jobs, one for each shard."""

    def __init__(
        self,
        shards: Sequence[People],
        losses: Floats,
        alike: Ints,
        price: float,
        rounds: int,
        executor: Executor,
        tell: Advance,
    ) -> None:
        super().__init__(price, rounds, alike, losses, sum(each.rows for each in shards))
        self.shards, self.losses, self.executor, self.tell = shards, losses, executor, tell
        self.world = _World(price, losses.shape[1], alike)

    def pass_over(self, work: Work[Any, People, R], shared: Any) -> list[R]:
        """Do a job for each shard."""
        return self.executor.map(work, self.shards, shared, self.tell)

    def alone(self) -> Spread:
        """The closed form for one anchor, or several that coincide."""
        held = self._answer(0)
        return self.equilibrium(held, self._regret(held))

    def _respond(self, strategy: Floats) -> tuple[Held, Floats]:
        """Everybody's best response to the usual prior."""
        found = self.pass_over(_moments, self.world)
        mean, cov = np.sum([each[0] for each in found], axis=0), np.sum([each[1] for each in found], axis=0)
        here = cells_of(mean, cov, self.alike)
        self.world = self.world._replace(cells=here, of_prior=_added(each[2] for each in found))
        return self._seen(self._at(Move.answer(_PRIOR))), here.probability

    def _answer(self, t: int) -> Held:
        return self._seen(self._at(Move.answer(t)))

    def _at(self, move: Move, payments: Floats | None = None) -> _Far:
        """Play a move: shards exchange their distances."""
        totals = _added(self.pass_over(_totals, _At(self.world, move)))
        return _Far.of(move, totals, np.zeros(len(self.alike)) if payments is None else payments)

    def _regret(self, held: Held) -> Floats:
        assert isinstance(held, _Far)
        return self.regret_at(held.move, held.totals, held.payments)

    def regret_at(self, move: Move, totals: Totals, payments: Floats | None) -> Floats:
        """At most what each player could gain by deviating alone: [N]."""
        return np.concatenate(self.pass_over(_regrets, _At(self.world, move, totals, payments)))

    def _hold(self, t: int, *, safely: bool) -> list[Held]:
        at, ties = _At(self.world, Move.answer(t)), (np.arange(len(self.alike)) < t).astype(np.int64)
        margins = 1 + np.max(self.pass_over(_reaches, at), axis=0) if safely else ties
        distances = _added(self.pass_over(_totals, at)).distances

        def nearest(count: int) -> Nearest:
            some = _together(self.pass_over(_nearest, _Asked(at, count)))
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
        return [self._seen(self._at(Move(t, some.rows, held.selection, held.values), held.payments))]

    def _settled(self, starts: Sequence[tuple[Held, Floats | None]]) -> Spread:
        turns = _Turns(self, TURNS, max(2, WORK // self.size))
        best, regret = starts[0]
        assert regret is not None
        for held, known in starts:
            assert isinstance(held, _Far)
            settled = turns.settle(held, known)
            if settled is not None and settled[1].max() <= regret.max():
                move, regret = settled
                found = self._at(move)
                self._seen(found)
                return self._result(found, regret, is_settled=True)
        return self.equilibrium(best, regret)

    def equilibrium(self, held: Held, regret: Floats) -> Spread:
        assert isinstance(held, _Far)
        return self._result(held, regret)

    def _result(self, held: _Far, regret: Floats, *, is_settled: bool = False) -> Spread:
        at = _At(self.world, held.move, held.totals, None, is_settled)
        return Spread(self.shards, int(self.nearest.sum()), regret, self.nearest, at)


class _Turns:
    """Turns of players whose interactions are fetched from their shards."""

    def __init__(self, game: _Spread, turns_left: int, bounds_left: int) -> None:
        self.game, self.turns_left, self.bounds_left = game, turns_left, bounds_left
        self.rounding = Turns.rounding_of(game.losses, game.price)

    def settle(self, start: _Far, regret: Floats | None) -> tuple[Move, Floats] | None:
        """What `Turns.settle` returns."""
        game, now, felt = self.game, start, None
        flipped, seen = frozenset[int](), set[frozenset[int]]()
        while flipped not in seen:
            seen.add(flipped)
            if regret is None and self.bounds_left:
                self.bounds_left -= 1
                regret = game.regret_at(now.move, now.totals, None)
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
            now, regret = game._at(move), None
        return None

    def _fetch(self, now: _Far, players: list[int]) -> tuple[_Some, Turns]:
        """The interactions of some players, in a game in which all others stay."""
        game = self.game
        at = _At(game.world, now.move)
        some = _together(game.pass_over(_rows_of, _Asked(at, players=tuple(players))))
        alone = Estimates(
            owners=some.owners,
            n_users=game.n_users,
            unwillingness=some.unwillingness,
            anchors=some.anchors,
            own=some.own,
            social=some.social,
            losses=game.losses,
        )
        alone = _among(alone, game.world, None, None)
        estimates = _among(alone, game.world, _totals_at(alone, some.selection), now.totals)
        return some, Turns(estimates, game.price, turns_left=0, bounds_left=0)


def _added(parts: Iterable[Totals]) -> Totals:
    """Add up what shards exchange."""
    every = list(parts)
    shared = tuple(sum(each) for each in zip(*(one.shared for one in every), strict=True))
    return Totals(np.sum([one.distances for one in every], axis=0), shared)


def _together(parts: Sequence[_Some]) -> _Some:
    """Put interactions of several shards together."""
    return _Some(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))


def _among(estimates: Estimates, world: _World, own: Totals | None, total: Totals | None) -> Estimates:
    """Return a shard's estimates beside what others add; nothing, if nobody's totals are given."""
    people, n = world.people - estimates.n_users, estimates.n_anchors
    if own is None or total is None:
        elsewhere = Elsewhere(people, np.zeros(n, np.int64), (0,) * n, world.alike)
    else:
        shared = [a - b for a, b in zip(total.shared, own.shared, strict=True)]
        elsewhere = Elsewhere(people, total.distances - own.distances, shared, world.alike)
    return replace(estimates, elsewhere=elsewhere)


def _totals_at(alone: Estimates, selection: Bools) -> Totals:
    """What a shard adds to distances and to shares."""
    return Totals(alone.distances_of(selection), _shared(alone, selection))


def _shared(alone: Estimates, strategy: Floats | Bools) -> tuple[int, ...]:
    changes = (strategy - anchor.astype(np.float64) for anchor in alone.anchors)
    return tuple(alone.shared(t, each) for t, each in enumerate(changes))


def _of_prior(alone: Estimates) -> Totals:
    """What a shard adds to shares by the prior; its distances are in the cells."""
    return Totals(np.zeros(alone.n_anchors, np.int64), _shared(alone, _prior(alone)))


def _played(at: _At, shard: People) -> tuple[Estimates, Bools, Floats]:
    """Return the estimates of a shard, as if there were no other, with its selection and values."""
    world, move, alone = at.world, at.move, _among(shard.read(), at.world, None, None)
    if move.anchor == _PRIOR:
        strategy = _prior(alone)
        here = _among(alone, world, _of_prior(alone), world.of_prior)
        values = response_values(here, strategy, Objective.NASH, world.cells)[0]
    else:
        values = alone.own[move.anchor].copy()
    selection = worth_disclosing(values, alone.unwillingness, world.price)
    here_too = slice(*np.searchsorted(move.rows, [shard.row, shard.row + shard.rows]).tolist())
    places = move.rows[here_too] - shard.row
    selection[places], values[places] = move.selection[here_too], move.values[here_too]
    return alone, selection, values


def _prior(estimates: Estimates) -> Floats:
    return np.full(len(estimates.owners), USUAL_PRIOR)


def _about(shared: None, shard: People, tell: Advance) -> tuple[Ints, Floats]:
    """Return how far the anchors are from each other, [T, T], and the losses, [T, people]."""
    found = shard.read()
    tell()
    return np.array([hamming(found.anchors, each) for each in found.anchors]), found.losses


def _moments(world: _World, shard: People, tell: Advance) -> tuple[Floats, Floats, Totals]:
    """Return what a shard adds to mean and covariance of distances, and to shares, by the prior."""
    alone = _among(shard.read(), world, None, None)
    tell()
    return *alone.moments(_prior(alone)), _of_prior(alone)


def _totals(at: _At, shard: People, tell: Advance) -> Totals:
    """Return what a shard adds to the distances of a move."""
    alone, selection, _ = _played(at, shard)
    tell()
    return _totals_at(alone, selection)


def _regrets(at: _At, shard: People, tell: Advance) -> Floats:
    """Return the regret of a shard's people at a move: [people]."""
    alone, selection, _ = _played(at, shard)
    here = _among(alone, at.world, _totals_at(alone, selection), at.totals)
    tell()
    return regret_of(here, selection, objective=Objective.NASH, price=at.world.price, payments=at.payments)


def _reaches(at: _At, shard: People, tell: Advance) -> Ints:
    """Return by how much a single player of a shard can shorten each distance, at most: [T]."""
    alone, selection, _ = _played(at, shard)
    tell()
    n, t = alone.n_anchors, at.move.anchor
    return np.array([int(reach(alone, t, s, selection).max(initial=0)) for s in range(n)])


def _some(at: _At, shard: People, choose: Callable[[Estimates, Floats], Ints]) -> _Some:
    """Return the interactions of a shard that `choose` returns."""
    found, selection, _ = _played(at, shard)
    net = np.abs(found.own[max(at.move.anchor, 0)] - at.world.price * found.unwillingness)
    rows = choose(found, net)
    anchors = np.take(found.anchors, rows, axis=1)
    own, social = (np.take(each, rows, axis=1) for each in (found.own, found.social))
    owners = found.owners[rows] + shard.first
    minded = found.unwillingness[rows]
    return _Some(shard.row + rows, owners, minded, anchors, own, social, selection[rows], net[rows])


def _nearest(asked: _Asked, shard: People, tell: Advance) -> _Some:
    """Return the interactions of a shard that may be among those nearest to indifference."""
    tell()
    return _some(asked.at, shard, lambda _, net: least(net, min(asked.number, len(net))))


def _rows_of(asked: _Asked, shard: People, tell: Advance) -> _Some:
    """Return the interactions of players of a shard."""
    tell()
    players = np.array(asked.players) - shard.first
    return _some(asked.at, shard, lambda found, _: np.flatnonzero(np.isin(found.owners, players)))


def _part(at: _At, shard: People, tell: Advance) -> tuple[Bools, Floats]:
    """Return the selection and the values of a shard's interactions."""
    alone, selection, values = _played(at, shard)
    if at.is_settled:
        here = _among(alone, at.world, _totals_at(alone, selection), at.totals)
        values = Turns(here, at.world.price, turns_left=0, bounds_left=0).values(selection)
    tell()
    return selection, values
