"""What is predicted of selections that nobody has trained on yet, by every estimator of influence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assent.arrays import Bools, Floats, Ints, sum_by
from assent.hashing import mixed
from assent.influence.estimate import own_influence, social_influence
from assent.influence.linearised import Linearised
from assent.influence.predict import predicted_losses
from assent.influence.settings import Estimator, InfluenceSettings
from assent.progress import Advance
from assent.workbench import Workbench

AVERAGED = "averaged"
"""The workbench's estimator, averaged over the anchors of its folds: what values rest on."""
GRADIENT_DOT_AVERAGED = f"{Estimator.GRADIENT_DOT} {AVERAGED}"
"""Gradient-dot at the same anchors: what averaging alone gives."""


@dataclass(frozen=True)
class Predicted:
    """The losses under R selections."""

    losses: Floats
    """[R, n_users], of each user."""
    total: Floats
    """[R], their sum as the reward weighs it, up to a constant."""


def at_one_anchor(bench: Workbench, estimator: Estimator, drawn: Bools) -> Predicted:
    """By `estimator` at the first anchor alone, as in the paper, under selections `drawn[R, Z]`."""
    settings = bench.settings.influence.model_copy(update={"estimator": estimator})
    return _predict(bench, bench.linearise(0, settings), settings, drawn)


def over_folds(bench: Workbench, drawn: Bools, advance: Advance) -> dict[str, Predicted]:
    """By the values of the workbench, under the name of their source, and by the averages they rest on.

    The averages leave the effect of her own interactions on a user's loss as it was measured on her
    validation rows; the values put theirs in its place (`with_own`).
    """
    values, anchors, owners = bench.estimates(1), bench.resting_on(1), bench.problem.train.users
    plain = bench.settings.linearisation
    by_gradients = plain.model_copy(update={"estimator": Estimator.GRADIENT_DOT})
    averaged, own = [], []
    for t in anchors:
        model = bench.linearise(t)
        averaged.append([_predict(bench, model, settings, drawn) for settings in (plain, by_gradients)])
        weights = bench.weights[model.valid.owners.numpy()]
        own.append(own_influence(model, plain, mixed(bench.seed, t), weights)[0].double())
        advance()
    mean, of_gradients = (_mean(each) for each in zip(*averaged, strict=True))
    measured = np.mean([each.numpy() for each in own], axis=0)
    more = (values.own[0] - measured) / bench.weights[owners]
    valued = Predicted(with_own(mean.losses, drawn, owners, more), -(drawn @ values.social[0]))
    return {
        bench.settings.value.source.value: valued,
        AVERAGED: mean,
        GRADIENT_DOT_AVERAGED: of_gradients,
    }


def with_own(losses: Floats, drawn: Bools, owners: Ints, more: Floats) -> Floats:
    """Predicted `losses[R, n_users]`, if each interaction lowered its owner's by `more[Z]` than they hold.

        L_ru − Σ_{k of u} o_rk more_k

    `drawn[R, Z]` are the selections o, `owners[Z]` the users of the interactions.
    """
    lowered = [sum_by(owners, more * selection, losses.shape[1]) for selection in drawn]
    return losses - np.array(lowered)


def _predict(bench: Workbench, model: Linearised, settings: InfluenceSettings, drawn: Bools) -> Predicted:
    """Around the anchor of `model`, with what `settings` say for the inverse Hessian.

    The total is that of the social influence that the game is played with: a truncated inverse is not linear
    in its right-hand side, so adding up the users' predictions would judge another estimate.
    """
    weights = bench.weights[model.valid.owners.numpy()]
    social, _ = social_influence(model, settings, bench.seed, weights)
    losses = predicted_losses(model, drawn, settings, bench.seed)
    return Predicted(losses, -(drawn @ social.double().numpy()))


def _mean(parts: Sequence[Predicted]) -> Predicted:
    return Predicted(
        np.mean([each.losses for each in parts], axis=0), np.mean([each.total for each in parts], axis=0)
    )
