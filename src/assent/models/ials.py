"""Implicit-feedback alternating least squares (iALS): s(u, i) = w_u · h_i, trained on all pairs at once."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from scipy.special import expit
from torch import Tensor, nn

from assent.models.contract import Draws, Evidence, ModelSettings, Recommender, Sizes
from assent.models.layers import dot, lookup, mean_row, squares, with_ones
from assent.support.arrays import Floats, Ints, Keys, mix
from assent.support.draws import Purpose, Urn, some_by_lot
from assent.support.ridge import (
    Array,
    Entries,
    Regressions,
    gram_parts,
    improve,
    inverse_times,
    solve_rows,
    summed,
)

CALIBRATING = 2000
"""Interactions that the logits are calibrated on."""
_PRIOR = 1e-3
"""Weight of the L2 penalty of a, per sample: it keeps a finite where scores tell the labels apart."""
_LEAST_SLOPE = 1e-3
"""Least a, in units of the deviation of the scores: scores that tell nothing keep their order."""
_NO_SPREAD = 1e-6
"""Deviation of the scores below which they tell nothing: their vectors have collapsed to 0."""
_NEWTON_STEPS = 12


class IALSSettings(ModelSettings):
    """Settings of iALS; both weights are in units of the log, so that one default serves logs of any size."""

    dimension: int = Field(64, ge=1, description="length of the vectors")
    strength: float = Field(0.2, gt=0, description="of the L2 penalty, in units of the data's noise")
    unobserved: float = Field(
        1.0, gt=0, description="weight of all pairs together, in units of that of the disclosed ones"
    )
    initial_scale: float = Field(0.1, gt=0, description="standard deviation of the initial scores")


class IALS(Recommender):
    """iALS (Hu et al., 2008; Rendle et al., 2021), trained by alternating ridge regressions.

    An epoch improves the solution of every regression by a few conjugate gradients (Takács et al., 2011).

    With the disclosed interactions k of weight o_k, all pairs of a user and an item, and |θ|² = |w|² + |h|²,

        F = ½ Σ_k o_k ((1 − s_k)² + λ |θ_k|²) + ½ α Σ_(u,i) (s_ui² + λ |θ_ui|²)

    so that a user with n interactions among |I| items has the penalty λ (n + α |I|). The weight of all pairs
    is α = `unobserved` · rows / (users · items). λ is `strength` times the value at which pure noise
    collapses to zero, (1/√(rows per user) + 1/√(rows per item)) / (1 + `unobserved`).

    The logit is a s + b; a > 0 and b are fitted to the scores of interactions that are left out, one at a
    time, from their user's vector, and of as many other pairs. Unknown users get the mean vector, items
    without a disclosed interaction the solution 0.
    """

    name: ClassVar[str] = "ials"
    Settings: ClassVar[type[ModelSettings]] = IALSSettings
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "training": {"epochs": 36, "evaluate_every": 6, "patience": 1},
        "influence": {"damping": 0.02},
    }
    search: ClassVar[Sequence[tuple[str, Sequence[float]]]] = (
        ("strength", (0.25, 0.5, 2.0, 4.0)),
        ("unobserved", (0.3, 3.0, 10.0)),
        ("strength", (0.6, 1.6)),
        ("dimension", (0.5, 2.0)),
        ("strength", (0.75, 1.35)),
    )
    settings: IALSSettings

    def __init__(self, sizes: Sizes, settings: IALSSettings) -> None:
        super().__init__(sizes, settings)
        self.weigh(sizes)
        self.user_table = nn.Parameter(torch.zeros(sizes.users + 1, settings.dimension))
        self.item_table = nn.Parameter(torch.zeros(sizes.items + 1, settings.dimension))
        self.calibration: Tensor
        self.register_buffer("calibration", torch.tensor([1.0, 0.0]))  # a and b
        self._grouped: tuple[Evidence, Entries, Entries] | None = None
        self._draws = Draws.numbered(sizes)

    def weigh(self, sizes: Sizes) -> None:
        """Set α and λ to those of a training of these sizes."""
        pairs, rows = max(1, sizes.users * sizes.items), max(1, sizes.rows)
        self.alpha = self.settings.unobserved * rows / pairs
        noise = math.sqrt(sizes.users / rows) + math.sqrt(sizes.items / rows)
        self.l2 = self.settings.strength * noise / (1 + self.settings.unobserved)
        self.weighed_by = sizes

    @torch.no_grad()
    def with_people(self, vectors: Tensor, rows: int) -> "IALS":
        """Return the model with other people, `vectors[n, d]`, who disclose so many rows.

        Items, weights and calibration stay those of the training, so that people can be folded in. The
        unknown user gets the mean of the vectors.
        """
        made = IALS(replace(self.sizes, users=len(vectors), rows=rows), self.settings)
        made.weigh(self.weighed_by)
        made.item_table, made.calibration = self.item_table, self.calibration
        made.user_table[:-1] = vectors
        made.user_table[-1] = mean_row(vectors)
        return made.eval()

    @torch.no_grad()
    def initialise(self, draws: Draws) -> None:
        """Draw the users' and items' vectors so that scores have the deviation `initial_scale`."""
        scale = math.sqrt(self.settings.initial_scale / math.sqrt(self.settings.dimension))
        draws.users(self.user_table, std=scale)
        draws.items(self.item_table, std=scale)
        self._draws = draws

    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> tuple[Tensor, Tensor]:
        """Return a w_u · h_i + b of `users[n]`, `items[n, m]`, and penalties of 0: two tensors [n, m]."""
        w, h = lookup(self.user_table, users), lookup(self.item_table, items)
        logits = self.calibrated(dot(h, w.unsqueeze(1)))
        return logits, torch.zeros_like(logits)

    def score_all(self, users: Tensor, prepared: None = None) -> Tensor:
        """Return the logits of every item, the unknown one last: [n, n_items + 1]."""
        return self.score_vectors(lookup(self.user_table, users))

    def score_vectors(self, vectors: Tensor) -> Tensor:
        """Return the logits of every item for users with the given `vectors[n, d]`: [n, n_items + 1]."""
        a, b = self.calibration
        return torch.addmm(b, a * vectors, self.item_table.T)  # no pass over all scores to calibrate them

    def calibrated(self, scores: Tensor) -> Tensor:
        """Return the logits a s + b of scores w_u · h_i."""
        return self.calibration[0] * scores + self.calibration[1]

    def vectors(self, prepared: None = None) -> tuple[Tensor, Tensor]:
        """Return [a w_u, b] and [h_i, 1]."""
        a, b = self.calibration
        users = torch.cat([a * self.user_table, b.expand(self.n_users + 1, 1)], dim=1)
        return users, with_ones(self.item_table)

    def objective(self, evidence: Evidence) -> Tensor:
        """Return F."""
        w, h = self.user_table[:-1], self.item_table[:-1]
        own, theirs = lookup(w, evidence.users), lookup(h, evidence.items)
        rows = (1 - dot(own, theirs)).square() + self.l2 * (squares(own) + squares(theirs))
        every = (w.T @ w * (h.T @ h)).sum()
        penalty = self.l2 * (len(h) * squares(w).sum() + len(w) * squares(h).sum())
        return 0.5 * (evidence.weights @ rows + self.alpha * (every + penalty))

    @torch.no_grad()
    def step(self, evidence: Evidence) -> None:
        """Improve the items given the users, then the users given the items."""
        by_user, by_item = self._groups(evidence)
        w, h = self.user_table[:-1].numpy(), self.item_table[:-1].numpy()
        improve(self.regressions(by_item, w), h)
        improve(self.regressions(by_user, h), w)

    def fold_in(self, people: list[Tensor]) -> Tensor:
        """Return the vectors of people who disclose these items (indices): exact, given the items: [n, d].

        Who discloses nothing gets the vector of an unknown user.
        """
        counts = torch.tensor([len(items) for items in people], dtype=torch.long)
        users = torch.repeat_interleave(torch.arange(len(people)), counts)
        items = torch.cat([*people, counts[:0]])
        h = self.item_table[:-1].detach().numpy()
        entries = Entries.of(users.numpy(), items.numpy(), np.ones(len(items), h.dtype), len(people))
        found = np.zeros((len(people), h.shape[1]), h.dtype)
        solve_rows(self.regressions(entries, h), found)
        found[counts.numpy() == 0] = self.user_table[-1].detach().numpy()
        return torch.from_numpy(found)

    def _groups(self, evidence: Evidence) -> tuple[Entries, Entries]:
        """The evidence by user and by item, made once for all steps."""
        if self._grouped is None or self._grouped[0] is not evidence:
            users, items = evidence.users.numpy(), evidence.items.numpy()
            weights = evidence.weights.to(self.user_table.dtype).numpy()
            self._grouped = (
                evidence,
                Entries.of(users, items, weights, self.n_users),
                Entries.of(items, users, weights, self.n_items),
            )
        return self._grouped[1:]

    def regressions(self, entries: Entries, table: Array) -> Regressions:
        """Return the regressions of users on the items' vectors, or of items on the users': A = α TᵀT + …"""
        gram = self.gram(summed(gram_parts(table), table.shape[1])).astype(table.dtype)
        return entries.regressions(table, gram, self.ridge(entries, len(table)))

    def gram(self, inner: Array) -> Array:
        """Return G = α TᵀT, given TᵀT: [d, d]."""
        return np.asarray(self.alpha * inner)

    def ridge(self, entries: Entries, columns: int) -> Array:
        """Return ρ of every row, in a table with so many columns: [n]."""
        return np.asarray(self.l2 * (entries.sums + entries.weights.dtype.type(self.alpha * columns)))

    def _calibrate(self, evidence: Evidence, by_user: Entries, system: Regressions) -> None:
        """Fit a and b by logistic regression on interactions that their user's vector does not know.

        Without interaction k, the score is (s − q) / (1 − q) with q = h_kᵀ A_u⁻¹ h_k, up to the ridge of one
        row. The other pairs are those users with other items. Which these are depends on ids alone.
        """
        rows = np.flatnonzero(evidence.weights.numpy())
        if not len(rows):
            return
        users_of, items_of = evidence.users.numpy()[rows], evidence.items.numpy()[rows]
        keys = mix(self._draws.user_keys[users_of], self._draws.item_keys[items_of])
        drawn = some_by_lot(keys, CALIBRATING, 0, Purpose.CALIBRATION)
        some, keys = rows[drawn], keys[drawn]
        users, items = evidence.users.numpy()[some], evidence.items.numpy()[some]
        self.calibrate_on(users, items, keys, by_user.take(users), system.gram, system.ridge[users])

    def calibrate_on(
        self, users: Ints, items: Ints, keys: Keys, entries: Entries, gram: Array, ridge: Array
    ) -> None:
        """Fit a and b on interactions of `users[n]` with `items[n]`; `entries` are those of the users."""
        w, h = self.user_table[:-1].numpy(), self.item_table[:-1].numpy()
        own, theirs = w[users], h[items]
        few = entries.regressions(h, gram, ridge)
        along = inverse_times(few, theirs)
        score, leverage = (own * theirs).sum(1), (along * theirs).sum(1)
        left_out = (score - leverage) / np.maximum(1 - leverage, 1e-3)
        others = Urn.of(self._draws.item_keys).draw(mix(Purpose.CALIBRATION, keys))
        scores = np.concatenate([left_out, (own * h[others]).sum(1)]).astype(np.float64)
        self.calibration.copy_(torch.tensor(_logistic(scores, len(items))))

    @torch.no_grad()
    def finish(self) -> None:
        """Solve for the users given the items, calibrate, and give the unknown user the mean vector.

        Users are solved for exactly, so that fold-in gives the same vectors. The unknown item stays 0.
        """
        if self._grouped is not None:
            evidence, by_user, _ = self._grouped
            users = self.regressions(by_user, self.item_table[:-1].numpy())
            solve_rows(users, self.user_table[:-1].numpy())
            self._calibrate(evidence, by_user, users)
        self.user_table[-1] = mean_row(self.user_table[:-1])


def _logistic(scores: Floats, positives: int) -> tuple[float, float]:
    """Return a > 0 and b that fit σ(a s + b) to `scores[n]`, the first of which are positives."""
    centre, size = float(scores.mean()), float(scores.std())
    if size < _NO_SPREAD:
        return 1.0, 0.0
    design = np.stack([(scores - centre) / size, np.ones(len(scores))], axis=1)
    labels = (np.arange(len(scores)) < positives).astype(np.float64)
    prior = np.array([_PRIOR * len(scores), 0.0])
    found = np.zeros(2)
    for _ in range(_NEWTON_STEPS):
        p = expit(design @ found)
        slope = design.T @ (p - labels) + prior * found
        bend = (design * (p * (1 - p))[:, None]).T @ design + np.diag(prior)
        found -= np.linalg.solve(bend, slope)
    a = max(float(found[0]), _LEAST_SLOPE)
    return a / size, float(found[1]) - a * centre / size
