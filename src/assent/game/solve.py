"""The equilibrium in factored strategies: a probability per interaction, best responses in closed form.

A player's payoff couples her to the others only through which anchor is nearest (`cells`). With the
probabilities π of the cells and their slopes, disclosing interaction k adds to her payoff

    v_k − price · β_k,     v_k = Σ_t π_t g_tk + Σ_s (Σ_t c_t ∂π_t/∂D_s) (1 − 2õ_sk)

where g is the influence that the objective counts and c_t her expected payoff if anchor t is nearest. The
first sum is the value of k, the second what she gains by moving everybody towards a cell that suits her. With
one anchor this is g_k, nothing else, and the solution is exact: disclose k iff g_k > price · β_k.

With more, a joint selection makes one anchor t nearest for certain, and unless a player alone can change
that, her best response is the one to g_t. So the best responses to g_t are an equilibrium iff t is the anchor
nearest to them. `nash` starts from the response to the prior and goes from cell to cell until one answers
itself. If none does, cells are held by `steering` at the least loss, and from there players who could gain by
crossing to another cell answer in turn (`turns`), exactly where histories are short. Where turns settle, that
is an equilibrium; where they do not, the cell that is held best is one but for that loss. `welfare` is the
maximum of one function, the sum of rewards. What a cell could have if nothing held it bounds it from above,
so that cells are tried by falling bound until no other can be better. In games of millions of interactions
only the first few cells are held, which costs a little reward and saves minutes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from assent.data.wishes import USUAL_PRIOR
from assent.game.estimates import BLOCK, Estimates, Objective
from assent.game.nearest import cells
from assent.game.regret import only_just, regret_of, safe
from assent.game.steering import Held, hold
from assent.game.turns import Turns
from assent.support.arrays import Bools, Floats, Ints, slices

_WORK = 3 * 10**7
"""Entries of influence that are looked at, at most, to hold cells by steering; a few are always held."""
_ENOUGH = 2e-3
"""Share of the mean loss: where nobody could gain more, no other cell is held."""
_TURNS = 1000
"""Turns of single players, at most: a few seconds where histories are long."""


@dataclass(frozen=True)
class Equilibrium:
    """A joint selection with what it rests on."""

    selection: Bools
    """[Z]"""
    values: Floats
    """[Z], v_k: what disclosing k is worth to the objective; compare with price · unwillingness. It includes
    what was paid to hold a cell; where turns have settled, it is what k alone adds to the payoff, a change of
    the nearest anchor included."""
    cell_probability: Floats
    """[T], how likely each anchor is nearest: 1 for the one that is, shared by those that coincide."""
    rounds: int
    """How many joint selections were played; those within turns do not count."""
    regret: Floats
    """[N], at most what each player could still gain by deviating from `selection` alone."""
    nearest: Ints
    """[T], to how many of the joint selections that were played each anchor was nearest; of tables, to how
    many of L draws from the final strategies."""


def solve(estimates: Estimates, *, objective: Objective, price: float, rounds: int = 40) -> Equilibrium:
    """An equilibrium at a price; where `rounds` do not suffice, the best selection that was played.

    `nash` starts from the prior of the wishes where they have one, else from the usual one.
    """
    game = _Game(estimates, objective, price, rounds)
    if estimates.alike.max() == 0:
        return game.alone()
    if objective is Objective.WELFARE:
        return game.welfare()
    prior = estimates.wishes.prior
    return game.nash(np.full(len(estimates.owners), USUAL_PRIOR) if prior is None else prior)


class _Game:
    """A game, and how often each anchor was nearest to what was played in it."""

    def __init__(self, estimates: Estimates, objective: Objective, price: float, rounds: int) -> None:
        self.estimates, self.objective, self.price, self.rounds = estimates, objective, price, rounds
        self.players = estimates.players(price)
        self.influence = estimates.values(objective)
        self.nearest = np.zeros(estimates.n_anchors, dtype=np.int64)

    def nash(self, strategy: Floats) -> Equilibrium:
        """From the response to `strategy[Z]` to a cell that answers itself, else to where turns settle.

        Where they settle nowhere, the cell that is held best.
        """
        values, probability = response_values(self.estimates, strategy, self.objective)
        first = self._play(values)
        found, lacking = list[tuple[Held, Floats]](), list[tuple[int, int, Held]]()
        for t, held in self._path(_cell(first), probability):
            if self._is_at_home(held, t):
                regret = self._regret(held)
                if not regret.any():
                    return self.equilibrium(held, regret)
                found.append((held, regret))
            else:
                lacking.append((int(held.distances[t] - held.distances.min()), t, held))
        lacking.sort(key=lambda each: each[:2])
        enough = _ENOUGH * float(np.abs(self.estimates.losses).mean())
        for held in self._holds([t for _, t, _ in lacking], has_one=bool(found)):
            found.append((held, self._regret(held)))
            if found[-1][1].max() <= enough:
                return self._settled(found[-1:])
        found.append((first, self._regret(first)))
        found.sort(key=lambda each: float(each[1].max()))
        # From a cell that does not answer itself nearly everybody moves: too many in all but small games.
        away = lacking if self.estimates.n_users <= _TURNS else []
        return self._settled([*found, *((held, None) for *_, held in away)])

    def _holds(self, lacking: list[int], *, has_one: bool) -> Iterator[Held]:
        """The cells that do not answer themselves, held safely, then only just.

        In large games only the first of them, and only just where there is no selection to end in yet.
        """
        most = max(1, _WORK // self.influence.size)
        for safely in (True, False):
            for t in lacking[:most]:
                for held in self._hold(t, safely=safely):
                    has_one = True
                    yield held
            if most == 1 and has_one:
                return

    def _settled(self, starts: Sequence[tuple[Held, Floats | None]]) -> Equilibrium:
        """Where turns settle from one of the `starts`; where nowhere, the first, whose regret is known."""
        bounds = max(2, _WORK // self.influence.size)
        turns = Turns(self.estimates, self.price, turns_left=_TURNS, bounds_left=bounds)
        best, regret = starts[0]
        assert regret is not None
        for held, known in starts:
            settled = turns.settle(held.selection, known)
            if settled is not None and settled[1].max() <= regret.max():
                selection, regret = settled
                distances = self.estimates.distances_of(selection)
                found = Held(selection, turns.values(selection), distances, np.zeros(len(distances)))
                return self.equilibrium(self._seen(found), regret)
        return self.equilibrium(best, regret)

    def welfare(self) -> Equilibrium:
        """The largest sum of rewards, as the nearest anchors predict it."""
        free = [self._play(self.influence[t]) for t in range(min(self.estimates.n_anchors, self.rounds))]
        bounds = [self._total(held, t) for t, held in enumerate(free)]
        best, most, left = free[0], -np.inf, max(2, _WORK // self.influence.size)
        for t in np.argsort(bounds)[::-1].tolist():
            if most >= bounds[t] or not left:
                break
            tried = [free[t]]
            if not self._is_at_home(free[t], t):
                tried, left = self._hold(t, safely=False) or tried, left - 1
            for held in tried:
                if (total := self._total(held)) > most:
                    best, most = held, total
        return self.equilibrium(best, self._regret(best))

    def alone(self) -> Equilibrium:
        """The closed form for one anchor, or several that coincide."""
        held = self._play(self.influence[0])
        return self.equilibrium(held, self._regret(held))

    def equilibrium(self, held: Held, regret: Floats) -> Equilibrium:
        """What was found."""
        alike = self.estimates.alike == self.estimates.alike[_cell(held)]
        rounds = int(self.nearest.sum())
        return Equilibrium(held.selection, held.values, alike / alike.sum(), rounds, regret, self.nearest)

    def _path(self, start: int, probability: Floats) -> Iterator[tuple[int, Held]]:
        """Responses to the cells, each to the one that the last fell into, then to those left out."""
        left = [start, *np.argsort(-probability, kind="stable").tolist()]
        seen: set[int] = set()
        while left and self.nearest.sum() < self.rounds:
            t = left.pop(0)
            if t not in seen:
                seen.add(t)
                held = self._play(self.influence[t])
                left.insert(0, _cell(held))
                yield t, held

    def _play(self, values: Floats) -> Held:
        """Everybody's best response to `values[Z]`, wherever it lies."""
        selection = self.players.best(values)
        nothing_paid = np.zeros(self.estimates.n_anchors)
        return self._seen(Held(selection, values, self.estimates.distances_of(selection), nothing_paid))

    def _hold(self, t: int, *, safely: bool) -> list[Held]:
        """Best responses to anchor t that stay in its cell, if they can be held there.

        `safely` is by more than any player could make up for alone.
        """
        estimates, players, values = self.estimates, self.players, self.influence[t]
        margins = safe(estimates, t, players.best(values)) if safely else only_just(estimates, t)
        evenly = self.objective is Objective.NASH
        held = hold(estimates, players, values, t, margins, evenly=evenly)
        return [] if held is None else [self._seen(held)]

    def _seen(self, held: Held) -> Held:
        self.nearest[_cell(held)] += 1
        return held

    def _is_at_home(self, held: Held, t: int) -> bool:
        return bool(self.estimates.alike[_cell(held)] == self.estimates.alike[t])

    def _total(self, held: Held, t: int | None = None) -> float:
        return self.estimates.predicted_total(held.selection, self.price, t)

    def _regret(self, held: Held) -> Floats:
        return regret_of(
            self.estimates,
            held.selection,
            objective=self.objective,
            price=self.price,
            payments=held.payments,
        )


def _cell(held: Held) -> int:
    """The anchor nearest to a selection; of equally near ones the first."""
    return int(held.distances.argmin())


def response_values(estimates: Estimates, strategy: Floats, objective: Objective) -> tuple[Floats, Floats]:
    """v_k of every interaction, [Z], when the others play `strategy[Z]`; the cells' probabilities, [T]."""
    influence = estimates.values(objective)
    if estimates.n_anchors == 1:
        return influence[0], np.ones(1)
    here = cells(estimates, strategy)
    values: Floats = here.probability @ influence
    if not here.slopes.any():
        return values, here.probability
    incentive = estimates.payoffs(strategy, objective) @ here.slopes
    for some in slices(len(values), BLOCK):
        owners = estimates.owners[some] if objective is Objective.NASH else 0
        sign = np.where(estimates.anchors[:, some], -1.0, 1.0)
        values[some] += np.einsum("kt,tk->k", np.atleast_2d(incentive[owners]), sign)
    return values, here.probability
