"""A certificate: how far a solution can be trusted, in figures that anybody can check.

Losses and prices are costs, so rewards are negative and the price of anarchy is a ratio of costs,

    price of anarchy = C(nash) / C(welfare),     C = −Σ_u reward_u

at least 1 where both are solved exactly. Since losses have an arbitrary zero, the difference per user is
given too. Both rest on what the nearest anchor predicts for the sum of rewards: social influence is enough.
"""

from collections.abc import Mapping

import numpy as np

from assent.arrays import Floats
from assent.game.estimates import Estimates
from assent.game.objective import Objective
from assent.game.players import Players
from assent.game.solve import Equilibrium, solve


def certify(
    estimates: Estimates, found: Equilibrium, *, objective: Objective, price: float, rounds: int
) -> dict[str, object]:
    """The certificate of a solution at a price.

    rounds                    joint selections that were played
    nearest_anchor            the anchor, from 1, that predicts for the selection
    rounds_nearest            in how many rounds each anchor was nearest
    largest_gain, mean_gain   at most what a player could gain by deviating alone
    largest_gain_share        the largest, as a share of the mean absolute reward
    predicted_reward          mean over users of the predicted reward
    price_of_anarchy          cost of the equilibrium / cost of the welfare optimum, at this price
    anarchy_cost              how much more reward per user the welfare optimum has
    floors_missed, budgets_exceeded   users whose wish the selection does not keep
    """
    reward = estimates.predicted_total(found.selection, price) / estimates.n_users
    largest = float(found.regret.max(initial=0))
    return {
        "rounds": found.rounds,
        "nearest_anchor": int(estimates.nearest(found.selection[None])[0]) + 1,
        "rounds_nearest": found.nearest.tolist(),
        "largest_gain": largest,
        "mean_gain": float(found.regret.mean()),
        "largest_gain_share": largest / abs(reward) if reward else None,
        "predicted_reward": reward,
        **_anarchy(estimates, price, rounds),
        **_wishes_kept(estimates.players(price), found),
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


def _anarchy(estimates: Estimates, price: float, rounds: int) -> dict[str, float | None]:
    """What the users lose together by playing each for herself."""
    nash, welfare = (
        -estimates.predicted_total(
            solve(estimates, objective=objective, price=price, rounds=rounds).selection, price
        )
        for objective in (Objective.NASH, Objective.WELFARE)
    )
    return {
        "price_of_anarchy": nash / welfare if welfare > 0 else None,
        "anarchy_cost": (nash - welfare) / estimates.n_users,
    }


def _wishes_kept(players: Players, found: Equilibrium) -> dict[str, int]:
    if players.wishes.are_plain:
        return {}
    number = np.bincount(players.owners[found.selection], minlength=players.n_users)
    exceeded = players.paid(found.selection) > players.budget * (1 + 1e-9)
    return {"floors_missed": int((number < players.floor).sum()), "budgets_exceeded": int(exceeded.sum())}
