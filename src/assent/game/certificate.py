"""A certificate: how far a solution can be trusted, in figures that anybody can check.

Losses and prices are costs, so rewards are negative and the price of anarchy is a ratio of costs,

    price of anarchy = C(nash) / C(welfare),     C = −Σ_u reward_u

at least 1 where both are solved exactly. Since losses have an arbitrary zero, the difference per user is
given too. Both rest on what the nearest anchor predicts for the sum of rewards: social influence is enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assent.game.estimates import Estimates, Objective
from assent.game.players import Players
from assent.game.prices import fits_into
from assent.game.regret import regret_of
from assent.game.solve import Equilibrium, solve
from assent.support.arrays import Bools, Floats


@dataclass(frozen=True)
class Certificate:
    """What is known of a solution at a price."""

    objective: Objective
    """What gains are counted in: a player's own reward, or the sum of all."""
    price: float
    rounds: int
    """Joint selections that were played."""
    nearest_anchor: int
    """The anchor, counted from 1, that is nearest to the selection and predicts for it."""
    rounds_nearest: list[int]
    """[T], to how many of the joint selections that were played (tables: L draws from the final strategies)
    each anchor was nearest; anchors at solutions come last."""
    largest_gain: float
    """At most what a player could gain by deviating alone, in units of the loss; of players whom
    `regret.unsure` names, an estimate. With `welfare`, what she could add to the sum of rewards."""
    mean_gain: float
    """Its mean over players."""
    largest_gain_share: float
    """The largest, as a share of the mean absolute reward."""
    largest_own_gain: float
    """At most what a player could gain for herself alone, whoever loses by it: with `nash` the same."""
    mean_own_gain: float
    """Its mean over players."""
    own_gainers: int
    """Players who could gain for themselves."""
    predicted_reward: float
    """Mean over users, as the nearest anchor predicts it."""
    price_of_anarchy: float | None
    """Cost of the equilibrium over that of the welfare optimum; None where that is not positive."""
    anarchy_cost: float
    """How much more predicted reward per user the welfare optimum has than the equilibrium."""


def certify(
    estimates: Estimates,
    found: Equilibrium,
    *,
    objective: Objective,
    price: float,
    rounds: int,
    is_solved: bool = False,
) -> Certificate:
    """The certificate of a solution that was found for `objective`.

    For the anarchy, the game is played with either objective by `solve`; but for that of `found`, if it
    `is_solved`: what `solve` returned at this price. What tables and budgets lead to is not.
    """
    selection = found.selection
    reward = estimates.predicted_total(selection, price) / estimates.n_users

    def cost(of: Objective) -> float:
        if is_solved and of is objective:
            return -reward * estimates.n_users
        played = solve(estimates, objective=of, price=price, rounds=rounds)
        return -estimates.predicted_total(played.selection, price)

    nash, welfare = cost(Objective.NASH), cost(Objective.WELFARE)
    own = found.regret
    if objective is not Objective.NASH:
        own = regret_of(estimates, selection, objective=Objective.NASH, price=price)
    return Certificate(
        objective=objective,
        price=price,
        rounds=found.rounds,
        nearest_anchor=int(estimates.distances_of(selection).argmin()) + 1,
        rounds_nearest=found.nearest.tolist(),
        largest_gain=float(found.regret.max(initial=0)),
        mean_gain=float(found.regret.mean()),
        largest_gain_share=float(found.regret.max(initial=0)) / abs(reward) if reward else 0.0,
        largest_own_gain=float(own.max(initial=0)),
        mean_own_gain=float(own.mean()),
        own_gainers=int((own > 0).sum()),
        predicted_reward=reward,
        price_of_anarchy=nash / welfare if welfare > 0 else None,
        anarchy_cost=(nash - welfare) / estimates.n_users,
    )


def wishes_broken(players: Players, selection: Bools) -> dict[str, int]:
    """Of how many users fewer interactions are disclosed than their floor, or more than their budget."""
    number = np.bincount(players.owners[selection], minlength=players.n_users)
    return {
        "floors_missed": int((number < players.floor).sum()),
        "budgets_exceeded": int((~fits_into(players.paid(selection), players.budget)).sum()),
    }


def with_truth(
    certificate: Mapping[str, object], losses: Floats, costs: Floats, price: float
) -> dict[str, object]:
    """The certificate with the true reward: of the trained model's `losses[N]` and `costs[N]` of disclosing.

    `prediction_error` is how far off the predicted reward was, as a share of the true one.
    """
    true = -float((losses + price * costs).mean())
    predicted = certificate.get("predicted_reward")
    off = None if not isinstance(predicted, float) or not true else abs(predicted - true) / abs(true)
    return {**certificate, "true_reward": true, "prediction_error": off}
