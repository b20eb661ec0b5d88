"""Proactive: people learn by trial what to disclose. A re-implementation: its authors published no code.

After Chen et al., "Proactively Control Privacy in Recommender Systems" (arXiv 2204.00279), as far as known.
Each interaction is disclosed with a probability of its own, σ(φ_k), which starts at 0.9. In every round all
users draw what they disclose, a model is trained on it, and each user's reward is compared with its running
mean (REINFORCE):

    φ_k ← φ_k + Adam(A_u (o_k − σ(φ_k))),     A_u = −(L_u − L̄_u) − price · (c_u − c̄_u)

L_u is the user's validation loss and c_u the unwillingness that they disclosed. Learning stops when the mean
reward of a window of rounds has hardly risen above that of the window before, three times in a row. Disclosed
is what has a probability above one half.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from pydantic import Field

from assent.game.players import cheapest_first
from assent.lab.lab import Lab
from assent.methods.base import Choice
from assent.methods.exploring import Explorer, ExploringMethod
from assent.support.arrays import Bools, Floats, sum_by
from assent.support.draws import Purpose, lots

_STEP = 0.3
"""How fast the price follows the violation, where a budget has to be kept."""


@dataclass(frozen=True)
class Learnt:
    """Where the learning ended."""

    probabilities: Floats
    """[Z], of disclosing."""
    price: float
    explorer: Explorer
    converged: bool

    def choice(self, selection: Bools) -> Choice:
        """The decision, with how it was reached."""
        certificate = {"rounds": float(self.explorer.tried), "converged": float(self.converged)}
        return Choice(selection, self.price, certificate, cost=self.explorer.cost)


class Proactive(ExploringMethod):
    """REINFORCE on everybody's true reward, a training per round (a re-implementation; docs/methods.md)."""

    name: ClassVar[str] = "proactive"

    rounds: int = Field(300, ge=1, description="largest number of rounds, each of which trains a model")
    learning_rate: float = Field(0.2, gt=0, description="Adam's, on the log-odds of disclosing")
    memory: float = Field(
        0.9, ge=0, lt=1, description="decay of the running mean that a reward is compared with"
    )
    window: int = Field(10, ge=1, description="rounds whose mean reward is compared to tell convergence")
    patience: int = Field(3, ge=1, description="windows without a gain before it has converged")
    tolerance: float = Field(
        0.02, ge=0, description="a gain is more than this share of what all windows gained"
    )

    def at_price(self, lab: Lab, price: float) -> Choice:
        """What is disclosed with a probability above one half in the end."""
        found = learn(lab, self, price=price)
        return found.choice(found.probabilities > 0.5)

    def within(self, lab: Lab, budget: float) -> Choice:
        """By falling probability until the budget is used up.

        While learning, the price, 1 at first, is multiplied by exp(0.3 · (share − budget)) after each round,
        with the share of All's violation that the policy would disclose on average.
        """
        found = learn(lab, self, price=1.0, budget=budget)
        return found.choice(cheapest_first(found.probabilities, lab.problem, budget))


def learn(lab: Lab, settings: Proactive, *, price: float, budget: float | None = None) -> Learnt:
    """Play rounds until the reward stops rising; with `budget`, the price moves until it is kept."""
    problem, n_rows, keys = lab.problem, len(lab.problem.train), lab.problem.row_keys
    explorer = Explorer(lab, settings)
    odds = float(np.log(settings.start / (1 - settings.start)))
    logits = torch.full((n_rows,), odds, dtype=torch.float64)
    optimizer = torch.optim.Adam([logits], lr=settings.learning_rate)
    total = float(problem.unwillingness.sum())
    seen: list[tuple[float, float]] = []
    usual: tuple[Floats, Floats] | None = None
    converged = False
    with lab.progress.task("rounds of Proactive", settings.rounds) as advance:
        for number in range(settings.rounds):
            policy = torch.sigmoid(logits).numpy()
            drawn = lots(keys, lab.seed, Purpose.PROACTIVE, number) < policy
            losses = explorer.losses(drawn)
            paid = sum_by(problem.train.users, problem.unwillingness * drawn, problem.n_users)
            seen.append((float(losses.mean()), float(paid.mean())))
            usual = usual or (losses, paid)
            advantage = -(losses - usual[0]) - price * (paid - usual[1])
            usual = _moved(usual[0], losses, settings.memory), _moved(usual[1], paid, settings.memory)
            logits.grad = torch.from_numpy(-advantage[problem.train.users] * (drawn - policy))
            optimizer.step()
            if budget is not None and total:
                price *= float(np.exp(_STEP * (policy @ problem.unwillingness / total - budget)))
            advance()
            if converged := has_converged(seen, price, settings):
                break
    return Learnt(torch.sigmoid(logits).numpy(), price, explorer, converged)


def has_converged(seen: list[tuple[float, float]], price: float, settings: Proactive) -> bool:
    """Whether the last `patience` windows of rounds each gained next to nothing over the one before.

    `seen` has the mean loss and the mean unwillingness disclosed of each round so far. Next to nothing is
    up to `tolerance` of what the last window is above the first.
    """
    if len(seen) % settings.window:
        return False
    rewards = np.array([-loss - price * paid for loss, paid in seen])
    windows = rewards.reshape(-1, settings.window).mean(axis=1)
    gains = np.diff(windows)[-settings.patience :]
    enough = settings.tolerance * max(windows[-1] - windows[0], 0.0)
    return len(gains) == settings.patience and bool((gains <= enough).all())


def _moved(mean: Floats, value: Floats, memory: float) -> Floats:
    """A running mean after one more value."""
    return memory * mean + (1 - memory) * value
