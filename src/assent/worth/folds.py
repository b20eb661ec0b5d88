"""Cross-fitting: every training row serves as a validation row for a model that was not trained on it.

The rows are split into K folds. Anchor t is trained on everything but fold t. The influence of all rows is
measured on two sets of rows that the anchor has not seen: the validation rows, and fold t. The value of a row
is the mean over the anchors that disclose it; the anchor that withholds it would count what a row does for
itself.

`deal` and `targets` make the folds, `measure` takes the influence at one anchor, `pooled` combines all folds
into one value per interaction.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from assent.data.problem import Rows
from assent.influence.estimate import own_influence, social_influence
from assent.influence.inverse import InfluenceSettings
from assent.influence.linearised import Linearised
from assent.support.arrays import Floats, Ints
from assent.support.hashing import mixed
from assent.worth.shrinkage import Shrunk, Twice, features, shrink


@dataclass(frozen=True)
class Measured:
    """Influence of Z rows at one anchor, on the validation rows (first) and on its fold (second)."""

    own: tuple[Floats, Floats]
    """[Z] each, influence on the owner's loss."""
    social: tuple[Floats, Floats]
    """[Z] each, influence on the sum of losses."""
    losses: Floats
    """[n_users], L_u on the validation rows."""
    n_valid: Floats
    """[n_users], number of validation rows."""
    n_held: Floats
    """[n_users], number of rows in the fold."""
    residual_own: float | None
    residual_social: float | None


def deal(rows: int, folds: int, *, seed: int) -> Ints:
    """The fold of each row, of nearly equal sizes: [rows]."""
    return np.random.default_rng((seed, 6)).permutation(rows) % folds


def targets(fold: Ints, t: int, most: int, *, seed: int) -> Ints:
    """The rows of fold t that influence is measured on: all, or `most` of them drawn at random."""
    rows = np.flatnonzero(fold == t)
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng((seed, 7, t)).choice(rows, size=most, replace=False))


def measure(
    model: Linearised, n_valid: int, weights: Floats, settings: InfluenceSettings, *, seed: int, fold: int
) -> Measured:
    """Influence at the anchor of a fold.

    The first `n_valid` validation rows of `model` are the problem's own, the rest are rows of the fold.
    `weights[n_users]` multiply each user's loss. The seed differs between folds and parts, so that the noise
    of an estimator averages out.
    """
    owners = model.valid.owners.numpy()
    is_valid = np.arange(len(owners)) < n_valid
    parts = [weights[owners] * is_valid, weights[owners] * ~is_valid]
    seeds = [mixed(seed, fold, which) for which in range(2)]
    own = [own_influence(model, settings, *each) for each in zip(seeds, parts, strict=True)]
    social = [social_influence(model, settings, *each) for each in zip(seeds, parts, strict=True)]
    n_users = model.valid.n_users
    return Measured(
        own=_arrays(own),
        social=_arrays(social),
        losses=model.valid.per_user(model.valid_losses() * torch.from_numpy(is_valid)),
        n_valid=np.bincount(owners[is_valid], minlength=n_users).astype(np.float64),
        n_held=np.bincount(owners[~is_valid], minlength=n_users).astype(np.float64),
        residual_own=_largest(own),
        residual_social=_largest(social),
    )


def pool(parts: Sequence[tuple[Floats, Floats]], fold: Ints, n_valid: Floats, n_held: Floats) -> Twice:
    """The mean of both parts over the anchors that disclose a row.

    `n_valid[Z]` and `n_held[folds, Z]` are the numbers of rows that the parts were measured on.
    """
    discloses: Floats = (fold != np.arange(len(parts))[:, None]).astype(np.float64)
    anchors = len(parts) - 1
    valid, held = (np.array([part[which] for part in parts]) * discloses for which in (0, 1))
    sums = valid.sum(axis=0) * held.sum(axis=0)
    joint = (sums - (valid * held).sum(axis=0)) / (anchors * (anchors - 1)) if anchors > 1 else sums
    return Twice(
        valid=valid.sum(axis=0) / anchors,
        held=held.sum(axis=0) / anchors,
        joint=joint,
        n_valid=n_valid,
        n_held=(n_held * discloses).sum(axis=0) / anchors,
    )


def _arrays(solved: Sequence[tuple[Tensor, float | None]]) -> tuple[Floats, Floats]:
    valid, held = (influence.double().numpy() for influence, _ in solved)
    return valid, held


def _largest(solved: Sequence[tuple[Tensor, float | None]]) -> float | None:
    return max((residual for _, residual in solved if residual is not None), default=None)


@dataclass(frozen=True)
class Level:
    """The values of Z interactions to their owners (own) or to everybody (social)."""

    shrunk: Shrunk
    count: float
    """A value added to every interaction alike, in units of `error` (see `pooled`)."""

    @property
    def values(self) -> Floats:
        """[Z], in loss units."""
        return self.shrunk.value(self.shrunk.weight) + self.count * self.error

    @property
    def held_values(self) -> Floats:
        """Values estimated without the validation rows: [Z]."""
        return self.shrunk.held_value + self.count * self.error

    @property
    def errors(self) -> Floats:
        """Standard errors of the values: [Z]."""
        return self.shrunk.error(self.shrunk.weight)

    @property
    def error(self) -> float:
        """Root mean square of `errors`."""
        return float(np.sqrt(np.mean(self.errors**2)))

    def facts(self) -> dict[str, float]:
        """How reliable the values are, for the certificate."""
        return asdict(self.shrunk.reliability) | {"count": self.count, "error": self.error}


@dataclass(frozen=True)
class Pooled:
    """Values to owners and to everybody."""

    own: Level
    social: Level


def pooled(measured: Sequence[Measured], fold: Ints, rows: Rows, *, cost: float) -> Pooled:
    """Values of `rows` from the anchors of all folds; `fold[Z]` is the fold of each row.

    Influence is the effect of one interaction while all others stay. Withholding a whole fold costs more than
    the sum of these: `cost` per interaction, measured by how much worse the folds' models are than one
    trained on everything. The difference is added to all values alike, but at most one standard error: more
    would hide the differences between values, since a loss also grows when scores shrink, which changes no
    ranking.
    """
    placed, clusters = features(rows.users, rows.items), (rows.users, rows.items)
    n_valid, n_held = measured[0].n_valid, np.array([each.n_held for each in measured])

    def level(parts: list[tuple[Floats, Floats]], n_valid: Floats, n_held: Floats) -> Level:
        return Level(shrink(pool(parts, fold, n_valid, n_held), placed, clusters), count=0.0)

    everybody = np.ones(len(fold))
    own = level([each.own for each in measured], n_valid[rows.users], n_held[:, rows.users])
    social = level(
        [each.social for each in measured],
        n_valid.sum() * everybody,
        n_held.sum(axis=1)[:, None] * everybody,
    )
    missing = max(cost - float(social.values.mean()), 0.0)
    count = min(missing / social.error, 1.0) if social.error > 0 else 0.0
    return Pooled(replace(own, count=count), replace(social, count=count))
