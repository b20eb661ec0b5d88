"""What is predicted of selections that nobody has trained on yet, by every estimator of influence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from assent.arrays import Bools, Floats, Ints, sum_by
from assent.experiments.store import code_state, digest
from assent.files import write_with
from assent.hashing import mixed, short_name
from assent.influence.estimate import own_influence, social_influence
from assent.influence.linearised import Linearised
from assent.influence.predict import predicted_losses
from assent.influence.settings import Estimator, InfluenceSettings
from assent.progress import Advance
from assent.workbench import Workbench

AVERAGED = "averaged"
"""The estimator of the workbench, averaged over the anchors of its folds and that of everything."""
GRADIENT_DOT_AVERAGED = f"{Estimator.GRADIENT_DOT} {AVERAGED}"
"""Gradient-dot at the same anchors: what averaging alone gives."""


@dataclass(frozen=True)
class Predicted:
    """The losses under R selections."""

    losses: Floats
    """[R, n_users], of each user."""
    total: Floats
    """[R], their sum as the reward weighs it, up to a constant."""


@dataclass(frozen=True)
class Values:
    """What Z interactions are worth, in units of the loss as the reward weighs it."""

    own: Floats
    social: Floats


def at_one_anchor(bench: Workbench, estimator: Estimator, drawn: Bools) -> Predicted:
    """By `estimator` at the first anchor alone, as in the paper, under selections `drawn[R, Z]`."""
    settings = bench.settings.influence.model_copy(update={"estimator": estimator})
    return _Anchor(bench, 0, settings).predict(settings, drawn)


def over_folds(
    bench: Workbench, drawn: Bools, valued: Mapping[str, Values], advance: Advance
) -> dict[str, Predicted]:
    """By the values `valued`, each under its name, and by the averages that they rest on.

    The averages leave the effect of her own interactions on a user's loss as it was measured on her
    validation rows; the values put theirs in its place (`with_own`).
    """
    owners, plain = bench.problem.train.users, bench.settings.linearisation
    by_gradients = plain.model_copy(update={"estimator": Estimator.GRADIENT_DOT})
    averaged, own = [], []
    for t in bench.resting_on(1):
        anchor = _Anchor(bench, t, plain)
        averaged.append([anchor.predict(settings, drawn) for settings in (plain, by_gradients)])
        own.append(anchor.own(plain))
        advance()
    mean, of_gradients = (_mean(each) for each in zip(*averaged, strict=True))
    measured = np.mean(own, axis=0)

    def predicted(values: Values) -> Predicted:
        more = (values.own - measured) / bench.weights[owners]
        return Predicted(with_own(mean.losses, drawn, owners, more), -(drawn @ values.social))

    found = {name: predicted(values) for name, values in valued.items()}
    return {**found, AVERAGED: mean, GRADIENT_DOT_AVERAGED: of_gradients}


def with_own(losses: Floats, drawn: Bools, owners: Ints, more: Floats) -> Floats:
    """Predicted `losses[R, n_users]`, if each interaction lowered its owner's by `more[Z]` than they hold.

        L_ru − Σ_{k of u} o_rk more_k

    `drawn[R, Z]` are the selections o, `owners[Z]` the users of the interactions.
    """
    lowered = [sum_by(owners, more * selection, losses.shape[1]) for selection in drawn]
    return losses - np.array(lowered)


@dataclass(frozen=True)
class _Anchor:
    """One anchor of a bench: what is computed there is kept in the bench's folder."""

    bench: Workbench
    number: int
    settings: InfluenceSettings
    """How the model is linearised: its loss, and whether by Gauss-Newton."""

    @cached_property
    def _model(self) -> Linearised:
        return self.bench.linearise(self.number, self.settings)

    @property
    def _weights(self) -> Floats:
        """Of the validation rows: [n]."""
        found: Floats = self.bench.weights[self._model.valid.owners.numpy()]
        return found

    def predict(self, settings: InfluenceSettings, drawn: Bools) -> Predicted:
        """Under selections `drawn[R, Z]`, with what `settings` say for the inverse Hessian.

        The total is that of the social influence that the game is played with: a truncated inverse is not
        linear in its right-hand side, so adding up the users' predictions would judge another estimate.
        """

        def compute() -> dict[str, Floats]:
            social, _ = social_influence(self._model, settings, self.bench.seed, self._weights)
            losses = predicted_losses(self._model, drawn, settings, self.bench.seed)
            return {"losses": losses, "total": -(drawn @ social.double().numpy())}

        return Predicted(**self._kept("predicted", settings, compute, drawn=short_name(drawn.tobytes())))

    def own(self, settings: InfluenceSettings) -> Floats:
        """What each interaction does to its owner's loss, as it counts in her reward: [Z]."""

        def compute() -> dict[str, Floats]:
            seed = mixed(self.bench.seed, self.number)
            own, _ = own_influence(self._model, settings, seed, self._weights)
            return {"own": own.double().numpy()}

        return self._kept("own", settings, compute)["own"]

    def _kept(
        self, name: str, settings: InfluenceSettings, compute: Callable[[], dict[str, Floats]], **more: str
    ) -> dict[str, Floats]:
        """What `compute` gives, from the folder if it is there."""
        about = {
            "anchor": [self.bench.mark, self.number],
            "influence": settings.model_dump(mode="json"),
            "reward": self.bench.settings.reward,
            "code": code_state(),
            **more,
        }
        file = self.bench.folder and self.bench.folder / f"{name}-{digest(about)}.npz"
        if file and file.exists():
            with np.load(file, allow_pickle=False) as kept:
                return dict(kept)
        found: dict[str, Any] = compute()
        if file:
            write_with(file, lambda path: np.savez(path, **found))
        return found


def _mean(parts: Sequence[Predicted]) -> Predicted:
    return Predicted(
        np.mean([each.losses for each in parts], axis=0), np.mean([each.total for each in parts], axis=0)
    )
