"""How far a solution can be trusted, in figures that anybody can check.

Losses and prices are costs, so rewards are negative and the price of anarchy is a ratio of costs,

    price of anarchy = C(nash) / C(welfare),     C = −Σ_u reward_u

at least 1 if both are solved exactly. Losses have an arbitrary zero, so the difference per user is given
too. Both use the sum of rewards that the nearest anchor predicts, for which social influence is enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assent.game.budget import up_to_rounding
from assent.game.estimates import Estimates, Objective
from assent.game.nearest import regret_of
from assent.game.players import Players
from assent.game.solve import Equilibrium, solve
from assent.support.arrays import Bools, Floats


@dataclass(frozen=True)
class Certificate:
    """What is known of a solution at a price; gains and rewards in loss units."""

    objective: Objective
    """What gains count: a player's own reward (`nash`), or the sum of all (`welfare`)."""
    price: float
    rounds: int
    """How many joint selections were played."""
    nearest_anchor: int
    """The anchor nearest to the selection, counted from 1; its predictions are used."""
    rounds_nearest: list[int]
    """[T], how many of the joint selections played (tables: of L draws from the final strategies) had this
    nearest anchor; anchors at solutions come last."""
    largest_gain: float
    """At most what a player could gain by deviating alone; an estimate for players in `nearest.unsure`."""
    mean_gain: float
    """Its mean over players."""
    largest_gain_share: float
    """The largest gain as a share of the mean absolute reward."""
    largest_own_gain: float
    """At most what a player could add to their own reward; with `nash` equal to `largest_gain`."""
    mean_own_gain: float
    """Its mean over players."""
    own_gainers: int
    """How many players could add to their own reward."""
    predicted_reward: float
    """Mean over users, predicted by the nearest anchor."""
    price_of_anarchy: float | None
    """Cost of the equilibrium over cost of the welfare optimum; None if the latter is not positive."""
    anarchy_cost: float
    """Predicted reward per user at the welfare optimum minus that at the equilibrium."""


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

    The price of anarchy needs the game solved for both objectives. If `found` `is_solved` (it is what
    `solve` returned at this price, not a result of tables or a budget), it is used for its own objective.
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
    """How many users disclose fewer interactions than their floor, or more than their budget."""
    number = np.bincount(players.owners[selection], minlength=players.n_users)
    return {
        "floors_missed": int((number < players.floor).sum()),
        "budgets_exceeded": int((players.paid(selection) > up_to_rounding(players.budget)).sum()),
    }


def with_truth(
    certificate: Mapping[str, object], losses: Floats, costs: Floats, price: float
) -> dict[str, object]:
    """Add the true mean reward to a certificate, from the trained model's `losses[N]` and `costs[N]`.

    `prediction_error` is |predicted − true| as a share of |true|.
    """
    true = -float((losses + price * costs).mean())
    predicted = certificate.get("predicted_reward")
    off = None if not isinstance(predicted, float) or not true else abs(predicted - true) / abs(true)
    return {**certificate, "true_reward": true, "prediction_error": off}
