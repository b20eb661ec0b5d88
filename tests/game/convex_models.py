"""Ridge and logistic regressions: convex models that train to the last digit, for Theorems 1 and 3."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from assent.game.estimates import Estimates
from assent.support.arrays import Bools, Floats, Ints

from .small_games import make_game

L2 = 1.0
"""Ridge of the regressions, which no selection takes away."""


@dataclass(frozen=True)
class Regression:
    """A model with a convex loss: samples of several users, a parameter vector that they share.

    Training minimises Σ_k o_k ℓ_k(θ) + L2/2 |θ|² over Z samples; every user has a validation sample.
    """

    logistic: bool
    seed: int = 0
    n_users: int = 4
    each: int = 40

    @cached_property
    def owners(self) -> Ints:
        return np.repeat(np.arange(self.n_users), self.each)

    @cached_property
    def data(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Features and labels to train on, [Z, 3] and [Z]; to validate on, a row per user."""
        rng = np.random.default_rng(self.seed)
        x, v = rng.normal(size=(len(self.owners), 3)), rng.normal(size=(self.n_users, 3))
        truth = np.array([1.0, -1.0, 0.5])
        y, w = x @ truth + rng.normal(size=len(x)), v @ truth + rng.normal(size=len(v))
        return (x, (y > 0) * 1.0, v, (w > 0) * 1.0) if self.logistic else (x, y, v, w)

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """∇ℓ_k, [Z, 3], and the curvature of ℓ_k in its score, [Z]."""
        x, y, _, _ = self.data
        score = x @ theta
        mean = expit(score) if self.logistic else score
        return (mean - y)[:, None] * x, mean * (1 - mean) if self.logistic else np.ones(len(x))

    def hessian(self, selection: Bools | Floats, theta: Floats) -> Floats:
        x = self.data[0]
        found: Floats = (x.T * (selection * self.derivatives(theta)[1])) @ x + L2 * np.eye(3)
        return found

    def trained(self, selection: Bools | Floats) -> Floats:
        """θ̂(o), by Newton's method to the last digit."""
        theta = np.zeros(3)
        for _ in range(50):
            slope = selection @ self.derivatives(theta)[0] + L2 * theta
            theta = theta - np.linalg.solve(self.hessian(selection, theta), slope)
        assert np.abs(slope).max() < 1e-11
        return theta

    def valid(self, theta: Floats) -> tuple[Floats, Floats]:
        """Every user's validation loss, [N], and its gradient, [N, 3]."""
        _, _, v, w = self.data
        score = v @ theta
        if self.logistic:
            return np.logaddexp(0, score) - w * score, (expit(score) - w)[:, None] * v
        return (score - w) ** 2 / 2, (score - w)[:, None] * v

    def estimates(self, anchors: Bools) -> Estimates:
        """Theorem 1 at every anchor: g_uk = ∇L_uᵀ H⁻¹ ∇ℓ_k; the paper's 1/Z is in H and cancels."""
        effects, losses = [], []
        for anchor in anchors:
            theta = self.trained(anchor)
            loss, slope = self.valid(theta)
            effects.append(slope @ np.linalg.solve(self.hessian(anchor, theta), self.derivatives(theta)[0].T))
            losses.append(loss)
        return make_game(
            self.owners,
            np.zeros(len(self.owners)),
            anchors,
            np.array(effects),
            np.array(losses),
        )

    def errors(self, anchors: Bools, selections: Bools) -> Floats:
        """|predicted − retrained| of everybody's validation loss: [B, N]."""
        retrained = np.array([self.valid(self.trained(each))[0] for each in selections])
        found: Floats = np.abs(self.estimates(anchors).predicted_losses(selections) - retrained)
        return found
