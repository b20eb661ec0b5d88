"""Where the anchors of a workbench are, and what interactions are worth there: the input of the game."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from assent.game.estimates import Estimates, Objective
from assent.influence.estimate import Influence
from assent.support.arrays import Bools, Floats
from assent.support.sparse import SparseMatrix
from assent.worth.folds import Measured

if TYPE_CHECKING:
    from assent.workbench import Workbench


@dataclass(frozen=True)
class AtPlace:
    """What is known around one anchor that was placed on purpose."""

    estimates: Estimates
    """With that anchor alone."""
    influence: Influence
    owed: float
    """Seconds of its training that were spent before it was asked for."""


class Valuer(Protocol):
    """Places anchors and values interactions at them."""

    @property
    def layout(self) -> dict[str, float]:
        """What decides where anchors lie; sources that agree on it share them."""

    def place(self, t: int) -> Bools:
        """The selection of the t-th anchor: [Z]."""

    def seed_of(self, t: int) -> int:
        """What the t-th anchor is trained with."""

    def estimates(self, anchors: int, objective: Objective, *, effects: bool) -> Estimates:
        """The game's input at the first `anchors` anchors, for people who play for `objective`."""

    def at(self, selection: Bools, *, effects: bool) -> AtPlace:
        """The game's input at one more anchor, which discloses `selection[Z]`."""

    def errors(self, estimates: Estimates, objective: Objective) -> Floats | None:
        """How far the truth may be from each value, as a standard deviation: [Z]; None where unknown."""

    def resting_on(self, anchors: int, objective: Objective) -> Sequence[int]:
        """The numbers of the anchors, trials among them, that this input rests on."""

    def trust(self, anchors: int, objective: Objective, placed: Sequence[AtPlace]) -> dict[str, object]:
        """How far it can be trusted, with further anchors that were `placed`, for the certificate."""


def game(
    bench: "Workbench",
    *,
    anchors: Bools,
    own: Floats,
    social: Floats,
    losses: Floats,
    effects: tuple[SparseMatrix, ...] = (),
) -> Estimates:
    """Estimates of the workbench's problem, whose `losses[T, n_users]` are plain sums."""
    return Estimates(
        owners=bench.problem.train.users,
        n_users=bench.problem.n_users,
        unwillingness=bench.problem.unwillingness,
        anchors=anchors,
        own=own,
        social=social,
        losses=losses * bench.weights,
        effects=effects,
        wishes=bench.problem.wishes,
    )


def residuals(known: Sequence[Influence | Measured]) -> dict[str, object]:
    """The largest residual of each kind of system, if any was solved."""
    solved = {
        "residual_own": [each.residual_own for each in known if each.residual_own is not None],
        "residual_social": [each.residual_social for each in known if each.residual_social is not None],
    }
    return {name: max(residuals) for name, residuals in solved.items() if residuals}
