"""Anchors: models trained on chosen selections, and the influence of every interaction there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assent.data.problem import Problem
from assent.evaluation.metrics import RewardForm
from assent.influence.closed_form import Curvature
from assent.influence.estimate import Influence, effects, influence, linearise
from assent.influence.inverse import InfluenceSettings
from assent.influence.linearised import Linearised
from assent.lab.lab import Lab, Training, everything
from assent.lab.store import Entry, Found, Key, digest
from assent.support.arrays import Bools, Floats, Ints, sum_by
from assent.support.cost import Clock
from assent.support.draws import Purpose, lots
from assent.support.errors import AssentError
from assent.support.sparse import SparseMatrix
from assent.training import Trained


def random_anchors(lab: Lab, count: int, *, rate: float) -> list[Training]:
    """Return the trainings of the paper's anchors: selections that disclose each row with probability `rate`.

    They start from the same parameters and differ by their selections alone. The first anchors do not depend
    on how many follow, so that those of IFRQE++ include the one of IFRQE.
    """
    drawn = [lots(lab.problem.row_keys, lab.seed, Purpose.ANCHORS, t) < rate for t in range(count)]
    return [anchor_at(lab, selection, f"anchor {t + 1}") for t, selection in enumerate(drawn)]


def anchor_at(lab: Lab, selection: Bools, label: str, seed: int | None = None) -> Training:
    """Return the training of an anchor at `selection[Z]`, which knows the users and items of all rows.

    Rows that judge are left out of the selection: what is measured on them would be learnt by heart.
    """
    known = everything(lab.problem)
    return Training(selection & lab.problem.measurable, known, seed=seed, label=label)


def linearised(
    lab: Lab, anchor: Training, trained: Trained, settings: InfluenceSettings, targets: Ints | None = None
) -> Linearised:
    """Return an anchor's model, ready to be differentiated.

    The training rows `targets`, which the anchor withholds, serve as further validation rows.
    """
    return linearise(
        lab.problem,
        anchor.selection,
        trained,
        negatives=lab.settings.training.negatives,
        settings=settings,
        seed=lab.seed if anchor.seed is None else anchor.seed,
        targets=targets,
    )


def loss_weights(lab: Lab, reward: RewardForm) -> Floats:
    """Return what one unit of each user's summed validation loss counts in the reward: [n_users]."""
    return reward.weights(lab.problem.valid_samples())


@dataclass(frozen=True, eq=False)
class InfluenceAt:
    """A task: own and social influence of all rows at one anchor, and everybody's loss there.

    Arrays: `own[Z]` on the owner's loss, `social[Z]` on the weighted sum of losses, `losses[n_users]`; with
    `effects`, also the sparse matrix of effects on every user. Facts: the residuals of the solves. For rows
    that judge, the mean of their owners' other rows stands.
    """

    anchor: Training
    settings: InfluenceSettings
    reward: RewardForm
    effects: bool = False

    @property
    def label(self) -> str:
        """What progress bars call it."""
        return f"influence at {self.anchor.label}"

    def key(self, lab: Lab) -> Key:
        """Return the anchor's key and the settings of influence and reward."""
        return lab.rows_key | {
            "kind": "effects" if self.effects else "influence",
            "anchor": digest(self.anchor.key(lab)),
            "influence": self.settings.model_dump(mode="json"),
            "reward": self.reward.value,
            "seed": lab.seed,
        }

    def run(self, lab: Lab) -> Found:
        """Train the anchor, an entry of its own, and differentiate it; effects are available for mf alone."""
        [trained] = lab.train([self.anchor])
        with lab.progress.task(self.label, 1), Clock() as clock:
            model = linearised(lab, self.anchor, trained, self.settings)
            weights = loss_weights(lab, self.reward)
            if self.effects:
                if not isinstance(model, Curvature):
                    name = lab.settings.model
                    raise AssentError(f"effects on others: not available for model {name}; accepted: mf")
                [known] = lab.run([replace(self, effects=False)])
                matrix = effects(lab.problem, model, known.arrays["own"], self.settings, lab.seed)
                scaled = matrix if self.reward is RewardForm.SUM else matrix.scaled(weights)
                return Found(scaled.parts(), rests_on=known.cost)
            found = influence(model, self.settings, lab.seed, weights)
        arrays = {"own": found.own, "social": found.social, "losses": found.losses}
        if lab.problem.judges is not None:
            arrays |= _of_judges(lab.problem, found)
        facts = {"residual_own": found.residual_own, "residual_social": found.residual_social}
        return Found(arrays, facts, rests_on=trained.cost, seconds=clock.seconds)


def _of_judges(problem: Problem, found: Influence) -> dict[str, Floats]:
    """Own and social influence, that of rows which judge taken from their owners' other rows, on average.

    What such a row does to the losses is mostly what it does for itself, which cannot be told apart.
    """
    others, owners, n_users = problem.measurable, problem.train.users, problem.n_users
    counts = np.bincount(owners[others], minlength=n_users)
    arrays = {}
    for level, values in (("own", found.own), ("social", found.social)):
        sums = sum_by(owners[others], values[others], n_users)
        usual = float(values[others].mean()) if others.any() else 0.0
        means = np.divide(sums, counts, out=np.full(n_users, usual), where=counts > 0)
        arrays[level] = np.where(others, values, means[owners])
    return arrays


def residuals(facts: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Return the largest residual of each kind of system that was solved."""
    found = {name: [each[name] for each in facts if each[name] is not None]
             for name in ("residual_own", "residual_social")}  # fmt: skip
    return {name: max(known) for name, known in found.items() if known}


def effects_in(entry: Entry) -> SparseMatrix:
    """Return the matrix of effects that a task with `effects` stored."""
    return SparseMatrix.from_parts(entry.arrays)
