"""Whose reward an interaction is weighed by.

Where the anchors are: random selections, as in the paper.

What the game is played with: unwillingness, and the value of every interaction at T anchors.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from assent.data.wishes import PLAIN, Wishes
from assent.game.players import Players
from assent.support.arrays import Bools, Floats, Ints, slices, sum_by
from assent.support.sparse import SparseMatrix


class Objective(StrEnum):
    """What a player maximises."""

    NASH = "nash"
    """Her own reward: the paper's equilibrium (eq. 2)."""
    WELFARE = "welfare"
    """The sum of all rewards: what she does for others counts in full."""


def draw_anchors(n_rows: int, count: int, *, rate: float, seed: int) -> Bools:
    """`count` selections, [count, n_rows], that disclose each interaction with probability `rate`.

    The first anchors do not depend on how many follow, so that those of IFRQE++ include the one of IFRQE.
    """
    draws = [np.random.default_rng((seed, 0, t)).random(n_rows) < rate for t in range(count)]
    return np.array(draws, dtype=np.bool_)


BLOCK = 2**17
"""Interactions looked at together, so that no array of floats is as large as all the anchors."""


def hamming(anchors: Bools, selection: Bools) -> Ints:
    """The distance of `selection[Z]` to each of `anchors[T, Z]`: [T]."""
    return np.array([np.count_nonzero(selection != anchor) for anchor in anchors])


@dataclass(frozen=True)
class Estimates:
    """First-order knowledge of everybody's validation loss around T anchors; no model in sight.

    For Z training interactions of N users, at anchor t:
        anchors[t, k]   whether the anchor discloses interaction k
        own[t, k]       effect of k on its owner's loss (positive: lowers it)
        social[t, k]    effect of k on the sum of all losses
        losses[t, u]    loss of user u at the anchor
        effects[t]      sparse [N, Z], effect of k on user u's loss; its entries at k's owner are `own`.
                        Needed to predict single users' losses; games do without (`felt`).
    `owners[Z]` are the users of the interactions and `unwillingness[Z]` their β; `wishes` is what people ask
    for beyond it.
    """

    owners: Ints
    n_users: int
    unwillingness: Floats
    anchors: Bools
    own: Floats
    social: Floats
    losses: Floats
    effects: tuple[SparseMatrix, ...] = ()
    wishes: Wishes = PLAIN

    @cached_property
    def alike(self) -> Ints:
        """A number per anchor, [T], counted from 0, that anchors with the same selection share."""
        numbers: dict[bytes, int] = {}
        return np.array([numbers.setdefault(anchor.tobytes(), len(numbers)) for anchor in self.anchors])

    @property
    def n_anchors(self) -> int:
        """T."""
        return len(self.anchors)

    def joined(self, others: "Estimates") -> "Estimates":
        """What is known around these anchors and around `others` of the same game."""
        return replace(
            self,
            anchors=np.concatenate([self.anchors, others.anchors]),
            own=np.concatenate([self.own, others.own]),
            social=np.concatenate([self.social, others.social]),
            losses=np.concatenate([self.losses, others.losses]),
            effects=self.effects + others.effects,
        )

    def values(self, objective: Objective) -> Floats:
        """The influence that the objective counts: [T, Z]."""
        return self.own if objective is Objective.NASH else self.social

    def players(self, price: float) -> Players:
        """Those who play, at a price."""
        return Players(self.owners, self.n_users, self.unwillingness, price, self.wishes)

    def moments(self, strategy: Floats) -> tuple[Floats, Floats]:
        """Mean, [T], and covariance, [T, T], of the distances if all decide by `strategy[Z]`."""
        mean, cov = np.zeros(self.n_anchors), np.zeros((self.n_anchors, self.n_anchors))
        for here in slices(len(strategy), BLOCK):
            p, anchors = strategy[here], self.anchors[:, here]
            sign = np.where(anchors, -1.0, 1.0)
            mean += sign @ p + anchors.sum(axis=1)
            cov += (sign * (p * (1 - p))) @ sign.T
        return mean, cov

    def distances_of(self, selection: Bools) -> Ints:
        """Hamming distance of `selection[Z]` to each anchor: [T]."""
        return hamming(self.anchors, selection)

    def nearest(self, selections: Bools) -> Ints:
        """The anchor nearest to each of `selections[B, Z]`; of equally near ones the first: [B]."""
        distances = np.array([self.distances_of(each) for each in selections])
        nearest: Ints = distances.argmin(axis=1)
        return nearest

    def predicted_total(self, selection: Bools, price: float, anchor: int | None = None) -> float:
        """The sum of all rewards under a joint `selection[Z]`, as its nearest anchor predicts it.

        Social influence is enough for that. With `anchor`, that one predicts instead.
        """
        t = int(self.distances_of(selection).argmin()) if anchor is None else anchor
        gain = float(np.dot(selection.astype(np.float64) - self.anchors[t], self.social[t]))
        players = self.players(price)
        return (
            gain
            - float(self.losses[t].sum())
            - price * float(self.wishes.cost(players.paid(selection)).sum())
        )

    def payoffs(self, strategy: Floats | Bools, objective: Objective) -> Floats:
        """What each player expects under `strategy[Z]` if anchor t is nearest: [N, T]; welfare: [1, T].

        What does not depend on t (the price paid) is left out: only differences between cells matter.
        """
        columns = []
        for t, anchor in enumerate(self.anchors):
            change = strategy - anchor.astype(np.float64)
            if objective is Objective.WELFARE:
                columns.append(np.array([np.dot(change, self.social[t]) - self.losses[t].sum()]))
            else:
                columns.append(self.felt(t, change) - self.losses[t])
        return np.array(columns).T

    def felt(self, t: int, change: Floats) -> Floats:
        """What a `change[Z]` of the joint selection gains each user, by anchor t: [N].

        Without `effects`, what an interaction does to others is known in total alone, (social − own)_tk, and
        divided equally among them:

            Σ_{k of u} change_k own_tk + Σ_{k not of u} change_k (social − own)_tk / (N − 1)

        The sum over users is exact, Σ_k change_k social_tk.
        """
        if self.effects:
            return self.effects[t] @ change
        share = change * self.share(t)
        return float(share.sum()) + sum_by(self.owners, change * self.own[t] - share, self.n_users)

    def share(self, t: int | slice, rows: Ints | slice = slice(None)) -> Floats:
        """What disclosing `rows` gains each who does not own them, if all alike, by anchor t: [(T,) rows]."""
        foreign: Floats = self.social[t, rows] - self.own[t, rows]
        return foreign / max(1, self.n_users - 1)

    def predicted_losses(self, selections: Bools) -> Floats:
        """Every user's loss under joint selections `selections[B, Z]` (eq. 7, nearest anchor): [B, N].

        Several at once are cheaper than one by one: the effects are read once for all of them.
        """
        if not self.effects:
            raise ValueError("predicted losses: these estimates came without effects; ask for them")
        nearest = self.nearest(selections)
        predicted = self.losses[nearest]
        for t in np.unique(nearest):
            here = nearest == t
            change = selections[here].astype(np.float32) - self.anchors[t]
            predicted[here] -= (self.effects[t] @ change.T).T
        return predicted

    def predicted_rewards(self, selections: Bools, price: float) -> Floats:
        """Every user's reward under joint selections `selections[B, Z]` (eq. 4): [B, N]."""
        paid = np.array([self.players(price).paid(each) for each in selections])
        return -self.predicted_losses(selections) - price * self.wishes.cost(paid)
