"""SCR: the game with a model trained on every explored selection, as the paper compares itself with.

IFRQE predicts what a user's loss would be; SCR retrains. In each of M rounds, L / M joint selections are
drawn from everybody's strategy (at first: disclose with probability 0.9), and a model is trained on each.
From all selections so far, a user's loss is estimated as linear in their own bits; the others' bits are
averaged over:

    L_u(o) ≈ c_um − Σ_k v_k o_k,     v by least squares with a ridge, c_um in round m

The intercept of each round takes up that everybody withholds more from round to round. The user's response
is to disclose k iff v_k > price · β_k. The next round's strategy is the average of all responses and the
prior: fictitious play.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from pydantic import Field

from assent.game.budget import Budget
from assent.game.prices import price_path, worth_disclosing
from assent.lab.lab import Lab
from assent.methods.base import Choice
from assent.methods.exploring import Explorer, ExploringMethod
from assent.support.arrays import Bools, Floats, Ints
from assent.support.draws import Purpose, lots


class Scratch(ExploringMethod):
    """The equilibrium of true rewards, as far as L explored selections show it."""

    name: ClassVar[str] = "scratch"

    selections: int = Field(100, ge=2, description="L, joint selections that are explored, a training each")
    rounds: int = Field(4, ge=1, description="responses to what the others do; L is divided among them")
    ridge: float = Field(
        1.0, gt=0, description="shrinks values, as if so many selections had shown no effect"
    )

    def at_price(self, lab: Lab, price: float) -> Choice:
        """The responses at a price."""
        unwillingness = lab.problem.unwillingness
        values, explorer = play(lab, self, lambda values: worth_disclosing(values, unwillingness, price))
        return _choice(worth_disclosing(values, unwillingness, price), price, values, explorer)

    def within(self, lab: Lab, budget: float) -> Choice:
        """Everybody responds to the one price at which the budget is used up, in every round."""
        unwillingness, most = lab.problem.unwillingness, Budget.of(lab.problem, budget)
        values, explorer = play(lab, self, lambda values: price_path(values, unwillingness).within(most))
        path = price_path(values, unwillingness)
        return _choice(path.within(most), path.price_within(most), values, explorer)


def play(lab: Lab, settings: Scratch, respond: Callable[[Floats], Bools]) -> tuple[Floats, Explorer]:
    """The values, [Z], after all rounds in which everybody follows `respond`; who explored them."""
    owners, keys, n_rows = lab.problem.train.users, lab.problem.row_keys, len(lab.problem.train)
    explorer = Explorer(lab, settings)
    strategy = np.full(n_rows, settings.start)
    tried: list[Bools] = []
    losses: list[Floats] = []
    values = np.zeros(n_rows)
    rounds = min(settings.rounds, settings.selections)
    shares = np.linspace(0, settings.selections, rounds + 1).round().astype(int)
    with lab.progress.task("exploring", settings.selections) as advance:
        for played in range(rounds):
            for number in range(shares[played], shares[played + 1]):
                drawn = lots(keys, lab.seed, Purpose.SCRATCH, number) < strategy
                tried.append(drawn)
                losses.append(explorer.losses(drawn))
                advance()
            rounds_of = np.searchsorted(shares, np.arange(len(tried)), side="right")
            values = own_values(owners, np.array(tried), np.array(losses), rounds_of, ridge=settings.ridge)
            strategy += (respond(values) - strategy) / (played + 2)
    return values, explorer


def own_values(owners: Ints, tried: Bools, losses: Floats, rounds: Ints, *, ridge: float) -> Floats:
    """What each interaction takes off its owner's loss, from joint selections `tried[L, Z]`: [Z].

    A ridge regression per user, of their column of `losses[L, n_users]` on their own bits, both centred in
    each of the `rounds[L]`. A bit that never changed within a round has value 0. `owners[Z]` are sorted.
    """
    _, number = np.unique(rounds, return_inverse=True)
    sizes = np.bincount(number)[:, None]
    in_round = np.eye(len(sizes))[number]
    centred = losses - (in_round.T @ losses / sizes)[number]
    values = np.zeros(len(owners))
    users, starts = np.unique(owners, return_index=True)
    for user, start, end in zip(users, starts, np.append(starts[1:], len(owners)), strict=True):
        bits = tried[:, start:end].astype(np.float64)
        x, y = bits - (in_round.T @ bits / sizes)[number], centred[:, user]
        if end - start <= len(x):
            slopes = np.linalg.solve(x.T @ x + ridge * np.eye(end - start), x.T @ y)
        else:
            slopes = x.T @ np.linalg.solve(x @ x.T + ridge * np.eye(len(x)), y)
        values[start:end] = -slopes
    return values


def _choice(selection: Bools, price: float, values: Floats, explorer: Explorer) -> Choice:
    certificate = {"explored": float(explorer.tried)}
    return Choice(selection, price, certificate, values=values, worth_owner=values, cost=explorer.cost)
