"""What the game is played with: unwillingness, and the value of every interaction at T anchors.

An anchor is a selection on which a model was trained. Around it, influence predicts everybody's validation
loss to first order. The prediction for any other selection is that of its nearest anchor (Hamming distance).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from assent.data.wishes import PLAIN, Wishes
from assent.game.players import Players
from assent.support.arrays import Bools, Floats, Ints, slices, sum_by
from assent.support.exact import exact_sum, rounded
from assent.support.sparse import SparseMatrix


class Objective(StrEnum):
    """What a player maximises."""

    NASH = "nash"
    """Their own reward: the paper's equilibrium (eq. 2)."""
    WELFARE = "welfare"
    """The sum of all rewards: effects on others count in full."""


BLOCK = 2**17
"""Interactions per block: no float array is as large as all anchors together."""


def hamming(anchors: Bools, selection: Bools) -> Ints:
    """The distance of `selection[Z]` to each of `anchors[T, Z]`: [T]."""
    return np.array([np.count_nonzero(selection != anchor) for anchor in anchors])


_GRID = 2.0**22
"""Chances are multiples of 1 / this where they are summed: exact for up to 2³¹ interactions."""


def _on_grid(chances: Floats) -> Floats:
    return np.round(chances * _GRID) / _GRID


@dataclass(frozen=True)
class Elsewhere:
    """What a shard of people has to know of all others: T numbers, twice."""

    people: int
    distances: Ints
    """[T], how far the others' part of the joint selection is from each anchor."""
    shared: Sequence[int]
    """[T], the exact sum of equal shares in what the others change (`Estimates.shared`)."""
    alike: Ints
    """[T], a number per anchor of the whole game."""


@dataclass(frozen=True)
class Estimates:
    """First-order predictions of everybody's validation loss around T anchors, for Z interactions of N users.

    Own and social effects are enough to play; `effects` are needed to predict single users' losses.
    """

    owners: Ints
    """[Z], the user of each interaction."""
    n_users: int
    unwillingness: Floats
    """[Z], β."""
    anchors: Bools
    """[T, Z], whether anchor t discloses interaction k."""
    own: Floats
    """[T, Z], effect of k on its owner's loss; positive: disclosing k lowers the loss."""
    social: Floats
    """[T, Z], effect of k on the sum of all losses."""
    losses: Floats
    """[T, N], loss of user u at anchor t."""
    effects: tuple[SparseMatrix, ...] = ()
    """T matrices [N, Z], effect of k on the loss of user u; entries at k's owner equal `own`."""
    wishes: Wishes = PLAIN
    elsewhere: Elsewhere | None = None
    """What other shards add, if these people are a shard of a larger game (`game.spread`)."""

    @cached_property
    def alike(self) -> Ints:
        """A number per anchor, [T], counted from 0; anchors with the same selection share it."""
        if self.elsewhere is not None:
            return self.elsewhere.alike
        numbers: dict[bytes, int] = {}
        return np.array([numbers.setdefault(anchor.tobytes(), len(numbers)) for anchor in self.anchors])

    @property
    def n_anchors(self) -> int:
        """T."""
        return len(self.anchors)

    def values(self, objective: Objective) -> Floats:
        """The influence that the objective counts: [T, Z]."""
        return self.own if objective is Objective.NASH else self.social

    def uncentred(self) -> "Estimates":
        """Return what predicts L(õ) − Σ_k o_k g_k, as the paper prints it, not L(õ) − Σ_k (o_k − õ_k) g_k.

        The difference, Σ_k õ_k g_k, is the same for every selection near an anchor: it belongs to the loss.
        """
        at_anchors = [self.felt(t, anchor.astype(np.float64)) for t, anchor in enumerate(self.anchors)]
        return replace(self, losses=self.losses - np.array(at_anchors))

    def without_influence(self) -> "Estimates":
        """Return the same with every influence 0: the losses of the anchors are all that is known."""
        return replace(self, own=0 * self.own, social=0 * self.social, effects=())

    def permuted(self, order: Ints) -> "Estimates":
        """Return the same where row k has the influence that was measured for row `order[k]`: [Z].

        What a row did for its owner it then does for its new owner, and the other way round.
        """
        theirs, mine = self.owners[order], self.owners
        place = np.argsort(order)

        def moved(effects: SparseMatrix) -> SparseMatrix:
            values, users, rows = effects.entries()
            rows = place[rows]
            swapped = np.where(users == theirs[rows], mine[rows], users)
            swapped = np.where((users == mine[rows]) & (users != theirs[rows]), theirs[rows], swapped)
            return SparseMatrix.of(values, swapped, rows, effects.shape)

        return replace(
            self,
            own=self.own[:, order],
            social=self.social[:, order],
            effects=tuple(moved(each) for each in self.effects),
        )

    def players(self, price: float) -> Players:
        """The players at a price."""
        return Players(self.owners, self.n_users, self.unwillingness, price, self.wishes)

    def distances_of(self, selection: Bools) -> Ints:
        """Hamming distance of `selection[Z]` to each anchor: [T]."""
        here = hamming(self.anchors, selection)
        return here if self.elsewhere is None else here + self.elsewhere.distances

    def nearest(self, selections: Bools) -> Ints:
        """The anchor nearest to each of `selections[B, Z]`, the first of equally near ones: [B]."""
        return np.array([self.distances_of(each).argmin() for each in selections])

    def moments(self, strategy: Floats) -> tuple[Floats, Floats]:
        """Mean, [T], and covariance, [T, T], of the distances if k is disclosed with chance `strategy[k]`.

        Chances and variances are rounded to a grid, so that sums are exact: they have the same bytes however
        interactions are dealt into shards.
        """
        mean, cov = np.zeros(self.n_anchors), np.zeros((self.n_anchors, self.n_anchors))
        for here in slices(len(strategy), BLOCK):
            p, anchors = _on_grid(strategy[here]), self.anchors[:, here]
            sign = np.where(anchors, -1.0, 1.0)
            mean += sign @ p + anchors.sum(axis=1)
            cov += (sign * _on_grid(p * (1 - p))) @ sign.T
        return mean, cov

    def predicted_total(self, selection: Bools, price: float, anchor: int | None = None) -> float:
        """The sum of all rewards under `selection[Z]`, predicted by its nearest anchor or by `anchor`."""
        t = int(self.distances_of(selection).argmin()) if anchor is None else anchor
        gain = float(np.dot(selection.astype(np.float64) - self.anchors[t], self.social[t]))
        cost = float(self.wishes.cost(self.players(price).paid(selection)).sum())
        return gain - float(self.losses[t].sum()) - price * cost

    def payoffs(self, strategy: Floats | Bools, objective: Objective) -> Floats:
        """Each player's expected payoff under `strategy[Z]` if anchor t is nearest: [N, T]; welfare: [1, T].

        Without the price paid, which is the same for every t.
        """
        changes = (strategy - anchor.astype(np.float64) for anchor in self.anchors)
        if objective is Objective.NASH:
            return np.array([self.felt(t, each) - self.losses[t] for t, each in enumerate(changes)]).T
        known = zip(changes, self.social, self.losses, strict=True)
        return np.array([[np.dot(change, social) - losses.sum() for change, social, losses in known]])

    def felt(self, t: int, change: Floats) -> Floats:
        """How much a `change[Z]` of the joint selection lowers each user's loss, by anchor t: [N].

        Without `effects`, only the total effect on others is known, (social − own)_tk. It is divided equally:

            Σ_{k of u} change_k own_tk + Σ_{k not of u} change_k (social − own)_tk / (N − 1)

        The sum over users, Σ_k change_k social_tk, stays exact.
        """
        if self.effects:
            return self.effects[t] @ change
        share = change * self.share(t)
        total = rounded(self._shared(t, share))
        return total + sum_by(self.owners, change * self.own[t] - share, self.n_users)

    def shared(self, t: int, change: Floats) -> int:
        """The exact sum of everybody's equal shares of a `change[Z]`, for others than its owners."""
        return self._shared(t, change * self.share(t))

    def _shared(self, t: int, share: Floats) -> int:
        """Sums of people are exact, so that their sum does not depend on how people are dealt into shards."""
        here = exact_sum(sum_by(self.owners, share, self.n_users))
        return here if self.elsewhere is None else here + self.elsewhere.shared[t]

    def share(self, t: int | slice, rows: Ints | slice = slice(None)) -> Floats:
        """An equal share of what disclosing `rows` does for others than their owners: [(T,) rows]."""
        foreign: Floats = self.social[t, rows] - self.own[t, rows]
        others = 0 if self.elsewhere is None else self.elsewhere.people
        return foreign / max(1, self.n_users + others - 1)

    def predicted_losses(self, selections: Bools) -> Floats:
        """Every user's loss under `selections[B, Z]`, predicted by the nearest anchors (eq. 7): [B, N].

        Raises ValueError without `effects`. Predicting several selections at once is cheaper than one by one.
        """
        if not self.effects:
            raise ValueError("predicted losses of single users need estimates with effects")
        nearest = self.nearest(selections)
        predicted = self.losses[nearest]
        for t in np.unique(nearest):
            here = nearest == t
            change = selections[here].astype(np.float32) - self.anchors[t]
            predicted[here] -= (self.effects[t] @ change.T).T
        return predicted

    def predicted_rewards(self, selections: Bools, price: float) -> Floats:
        """Every user's reward under `selections[B, Z]` (eq. 4): [B, N]; needs `effects`."""
        players = self.players(price)
        paid = np.array([players.paid(each) for each in selections])
        return -self.predicted_losses(selections) - price * self.wishes.cost(paid)
