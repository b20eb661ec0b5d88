"""What the game is played with: unwillingness, and the value of every interaction at T anchors."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assent.arrays import Bools, Floats, Ints, sum_by
from assent.game.objective import Objective
from assent.sparse import SparseMatrix


@dataclass(frozen=True)
class Estimates:
    """First-order knowledge of everybody's validation loss around T anchors; no model in sight.

    For Z training interactions of N users, at anchor t:
        anchors[t, k]   whether the anchor discloses interaction k
        own[t, k]       effect of k on its owner's loss (positive: lowers it)
        social[t, k]    effect of k on the sum of all losses
        losses[t, u]    loss of user u at the anchor
        effects[t]      sparse [N, Z], effect of k on user u's loss; its entries at k's owner are `own`.
                        Needed to predict single users' losses; best responses do without.
    `owners[Z]` are the users of the interactions and `unwillingness[Z]` their β.
    """

    owners: Ints
    n_users: int
    unwillingness: Floats
    anchors: Bools
    own: Floats
    social: Floats
    losses: Floats
    effects: tuple[SparseMatrix, ...] = ()

    @cached_property
    def alike(self) -> Ints:
        """A number per anchor, [T], counted from 0, that anchors with the same selection share."""
        numbers: dict[bytes, int] = {}
        return np.array([numbers.setdefault(anchor.tobytes(), len(numbers)) for anchor in self.anchors])

    @property
    def n_anchors(self) -> int:
        """T."""
        return len(self.anchors)

    def values(self, objective: Objective) -> Floats:
        """The influence that the objective counts: [T, Z]."""
        return self.own if objective is Objective.NASH else self.social

    def distances(self, strategy: Floats) -> Floats:
        """Expected Hamming distance of `strategy[Z]` (probabilities, or a selection) to each anchor: [T]."""
        total: Floats = np.where(self.anchors, 1 - strategy, strategy).sum(axis=1)
        return total

    def nearest(self, selections: Bools) -> Ints:
        """The anchor nearest to each of `selections[B, Z]`; of equally near ones the first: [B]."""
        distances = np.array([(selections != anchor).sum(axis=1) for anchor in self.anchors])
        nearest: Ints = distances.argmin(axis=0)
        return nearest

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
        disclosed = [sum_by(self.owners, self.unwillingness * each, self.n_users) for each in selections]
        return -self.predicted_losses(selections) - price * np.array(disclosed)
