"""The equilibrium in factored strategies: a probability per interaction, best responses in closed form.

A player's payoff couples her to the others only through which anchor is nearest (`cells`). With the
probabilities π of the cells and their slopes, disclosing interaction k adds to her payoff

    v_k − price · β_k,     v_k = Σ_t π_t g_tk + Σ_s (Σ_t c_t ∂π_t/∂D_s) (1 − 2õ_sk)

where g is the influence that the objective counts and c_t her expected payoff if anchor t is nearest. The
first sum is the value of k, the second what she gains by moving everybody towards a cell that suits her. With
one anchor this is g_k, nothing else, and the solution is exact: disclose k iff g_k > price · β_k. With more,
rounds of fictitious play respond to the average of what everybody did so far, as Algorithm 2 responds to the
strategies of the round before, until a selection is a best response to itself.
"""

from dataclasses import dataclass, replace

import numpy as np

from assent.arrays import Bools, Floats, sum_by
from assent.game.cells import cells
from assent.game.estimates import Estimates
from assent.game.objective import Objective

PRIOR = 0.9
"""Probability of disclosing at the start: the mean of the paper's binomial prior."""


@dataclass(frozen=True)
class Equilibrium:
    """A joint selection with what it rests on."""

    selection: Bools
    """[Z]"""
    values: Floats
    """[Z], v_k: what disclosing k is worth to the objective; compare with price · unwillingness."""
    cell_probability: Floats
    """[T], how likely each anchor is nearest where the values were taken."""
    rounds: int
    """Rounds until the selection was a best response to itself, or the limit."""
    regret: Floats
    """[N], what each player could still gain by deviating from `selection` alone, to first order."""


def solve(
    estimates: Estimates, *, objective: Objective, price: float, rounds: int = 40, prior: float = PRIOR
) -> Equilibrium:
    """Play until a best response is one to itself; after `rounds`, that with the least regret is taken."""
    strategy = np.full(len(estimates.owners), prior)
    best: Equilibrium | None = None
    for played in range(1, rounds + 1):
        values, probability = response_values(estimates, strategy, objective)
        selection = worth_disclosing(values, estimates.unwillingness, price)
        at_selection = response_values(estimates, selection.astype(np.float64), objective)
        answer = worth_disclosing(at_selection[0], estimates.unwillingness, price)
        regret = _gains(estimates, selection, answer, at_selection[0], price)
        if np.array_equal(answer, selection):
            return Equilibrium(selection, *at_selection, played, regret)
        if best is None or regret.sum() < best.regret.sum():
            best = Equilibrium(selection, values, probability, played, regret)
        strategy += (selection - strategy) / (played + 1)
    assert best is not None
    return replace(best, rounds=rounds)


def response_values(estimates: Estimates, strategy: Floats, objective: Objective) -> tuple[Floats, Floats]:
    """v_k of every interaction, [Z], when the others play `strategy[Z]`; the cells' probabilities, [T]."""
    values = estimates.values(objective)
    if estimates.n_anchors == 1:
        return values[0], np.ones(1)
    here = cells(estimates, strategy)
    if not here.slopes.any():
        return here.probability @ values, here.probability
    incentive = _payoffs(estimates, strategy, objective) @ here.slopes
    sign = np.where(estimates.anchors, -1.0, 1.0)
    owners = estimates.owners if objective is Objective.NASH else np.zeros_like(estimates.owners)
    steering = (incentive[owners].T * sign).sum(axis=0)
    return here.probability @ values + steering, here.probability


def regret_of(estimates: Estimates, selection: Bools, *, objective: Objective, price: float) -> Floats:
    """What each player could gain by deviating from `selection[Z]` alone, to first order: at least 0, [N]."""
    values, _ = response_values(estimates, selection.astype(np.float64), objective)
    return _gains(
        estimates, selection, worth_disclosing(values, estimates.unwillingness, price), values, price
    )


def _gains(estimates: Estimates, selection: Bools, answer: Bools, values: Floats, price: float) -> Floats:
    """Σ_k (answer_k − o_k)(v_k − price · β_k) of each player: [N]."""
    gain = (answer.astype(np.float64) - selection) * (values - price * estimates.unwillingness)
    return sum_by(estimates.owners, gain, estimates.n_users)


def worth_disclosing(values: Floats, unwillingness: Floats, price: float) -> Bools:
    """Disclose k iff its value exceeds its price: v_k > price · β_k."""
    return values > price * unwillingness


def _payoffs(estimates: Estimates, strategy: Floats, objective: Objective) -> Floats:
    """The expected payoff of each player if anchor t is nearest: [N, T] for nash, [1, T] for welfare.

    What does not depend on t (the price paid) is left out: only differences between cells matter. Without
    `effects`, what the others do to a player is taken to be the same in every cell.
    """
    change = strategy - estimates.anchors
    if objective is Objective.WELFARE:
        return np.array([-estimates.losses.sum(axis=1) + (change * estimates.social).sum(axis=1)])
    if estimates.effects:
        gains = [effect @ moved for effect, moved in zip(estimates.effects, change, strict=True)]
    else:
        gains = [sum_by(estimates.owners, row, estimates.n_users) for row in change * estimates.own]
    return (np.array(gains) - estimates.losses).T
