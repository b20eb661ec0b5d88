"""What the game is played with: unwillingness, and the value of every interaction at T anchors."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from assent.arrays import Bools, Floats, Ints, sum_by
from assent.game.objective import Objective


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
    effects: tuple[sparse.csr_array, ...] = ()

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

    def nearest(self, selection: Bools) -> int:
        """The anchor nearest to a joint selection; of equally near ones the first."""
        return int(self.distances(selection.astype(np.float64)).argmin())

    def predicted_losses(self, selection: Bools) -> Floats:
        """Every user's loss under a joint selection (eq. 7, centred at the nearest anchor): [N]."""
        t = self.nearest(selection)
        change = selection.astype(np.float64) - self.anchors[t]
        predicted: Floats = self.losses[t] - self.effects[t] @ change
        return predicted

    def predicted_rewards(self, selection: Bools, price: float) -> Floats:
        """Every user's reward under a joint selection (eq. 4): [N]."""
        disclosed = sum_by(self.owners, self.unwillingness * selection, self.n_users)
        return -self.predicted_losses(selection) - price * disclosed
