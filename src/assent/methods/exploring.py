"""Methods that learn by trying: they train a model on every selection that they try (Proactive, SCR)."""

from dataclasses import dataclass, field

from pydantic import Field

from assent.data.problem import Problem
from assent.data.wishes import USUAL_PRIOR
from assent.evaluation.evaluate import validation_losses
from assent.evaluation.metrics import RewardForm
from assent.game.estimates import Objective
from assent.lab.anchors import loss_weights
from assent.lab.lab import Lab, Training, everything
from assent.lab.store import Found, Key, digest
from assent.methods.base import Method
from assent.support.arrays import Bools, Floats
from assent.support.cost import NO_COST, Cost
from assent.support.errors import AssentError


class ExploringMethod(Method):
    """A method that tries selections out; everybody plays for their own reward."""

    objectives = (Objective.NASH,)
    retrains = True

    start: float = Field(USUAL_PRIOR, gt=0, lt=1, description="probability of disclosing at the start")
    warm_epochs: int | None = Field(
        None,
        ge=1,
        description="epochs of trainings that go on from the one before; default: each is from scratch",
    )
    reward: RewardForm = Field(
        RewardForm.SUM, description="validation loss that is played for: a user's sum (eq. 1) or mean"
    )

    def check(self, problem: Problem, budget: float | None = None) -> None:
        """Refuse wishes (budgets, floors, ...)."""
        if not problem.wishes.are_plain:
            accepted = "random, threshold, occurrence, worth, ifrqe and ifrqe++"
            raise AssentError(
                f"{self.name}: does not know wishes (budgets, floors, ...); methods that do: {accepted}"
            )


@dataclass
class Explorer:
    """Trains on one selection after another and returns everybody's losses.

    Losses are the binary cross-entropy of validation rows, in the form of the reward. They are kept in the
    store, so that a killed run trains nothing twice; models are not, but for the last one where trainings
    start from it. With warm starts, the losses of a selection depend on all that were explored before it.
    """

    lab: Lab
    method: ExploringMethod
    cost: Cost = NO_COST
    """Of all selections explored so far."""
    _path: list[Training] = field(default_factory=list)

    @property
    def tried(self) -> int:
        """How many selections were explored."""
        return len(self._path)

    def __post_init__(self) -> None:
        self.method.check(self.lab.problem)

    def losses(self, selection: Bools) -> Floats:
        """Return everybody's loss after training on `selection[Z]`, as it counts in the reward: [n_users]."""
        warm, number = self.method.warm_epochs, len(self._path)
        label = f"{self.method.name}: selection {number + 1}"
        if warm:
            before = digest(self._path[-1].key(self.lab)) if self._path else None
            training = Training(
                selection,
                everything(self.lab.problem),
                after=before,
                epochs=warm if before else None,
                label=label,
            )
        else:
            training = Training(selection, label=label)
        self._path.append(training)
        explored = Explored(training)
        if warm and self.lab.store.get(explored.key(self.lab)) is None:
            self._train_path()
        [entry] = self.lab.run([explored])
        self.cost += entry.cost
        return entry.arrays["losses"] * loss_weights(self.lab, self.method.reward)

    def _train_path(self) -> None:
        """Train the last model of the path, from the latest that the store has; keep that one alone."""
        keys = [training.key(self.lab) for training in self._path]
        known = [number for number, key in enumerate(keys) if self.lab.store.get(key) is not None]
        for number in range(known[-1] + 1 if known else 0, len(keys)):
            self.lab.run([self._path[number]])
            if number:
                self.lab.store.remove(keys[number - 1])


@dataclass(frozen=True)
class Explored:
    """A task: everybody's validation loss after a training. Arrays: `losses[n_users]`."""

    training: Training

    @property
    def label(self) -> str:
        """What progress bars call it."""
        return self.training.label

    def key(self, lab: Lab) -> Key:
        """Return the training's key."""
        return lab.rows_key | {"kind": "explored", "training": digest(self.training.key(lab))}

    def run(self, lab: Lab) -> Found:
        """Take the losses of the model; a model from scratch is trained here and thrown away."""
        if self.training.vocabulary is not None:
            [trained] = lab.train([self.training])
            return Found({"losses": validation_losses(lab.problem, trained)}, rests_on=trained.cost)
        trained = self.training.train(lab)
        losses = validation_losses(lab.problem, trained)
        return Found({"losses": losses}, trainings=1, seconds=trained.seconds)
