"""Cross-fitting: every training row serves as a validation row for a model that was not trained on it.

The rows are dealt into K folds. The anchor of fold t withholds it, and the influence of all rows is taken on
two sets of rows that the anchor has not seen: the validation rows, and fold t. The value of a row is the mean
over the anchors that disclose it; the one that withholds it would count what a row does for itself.

One measured value for each interaction from all folds.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from assent.data.problem import Rows
from assent.influence.estimate import own_influence, social_influence
from assent.influence.linearised import Linearised
from assent.influence.settings import InfluenceSettings
from assent.support.arrays import Floats, Ints
from assent.support.hashing import mixed
from assent.worth.shrinkage import Shrunk, Twice, features, shrink


@dataclass(frozen=True)
class Measured:
    """Influence of Z rows at the anchor of one fold, on validation rows and on the fold."""

    own: tuple[Floats, Floats]
    """[Z] each, on the owner's loss."""
    social: tuple[Floats, Floats]
    """[Z] each, on the sum of losses."""
    losses: Floats
    """[n_users], L_u of the validation rows."""
    n_valid: Floats
    """[n_users], how many validation rows each user has."""
    n_held: Floats
    """[n_users], how many rows of the fold."""
    residual_own: float | None
    residual_social: float | None


def deal(rows: int, folds: int, *, seed: int) -> Ints:
    """The fold of each row, [rows], of nearly equal sizes."""
    return np.random.default_rng((seed, 6)).permutation(rows) % folds


def targets(fold: Ints, t: int, most: int, *, seed: int) -> Ints:
    """The rows of fold t that its anchor is judged on: all, or `most` of them drawn at random."""
    rows = np.flatnonzero(fold == t)
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng((seed, 7, t)).choice(rows, size=most, replace=False))


def measure(
    model: Linearised, n_valid: int, weights: Floats, settings: InfluenceSettings, *, seed: int, fold: int
) -> Measured:
    """Influence at the anchor of a fold whose first `n_valid` validation rows are the problem's own.

    The rest are of its fold. `weights[n_users]` say what a unit of each user's loss counts. Whatever an
    estimator draws is drawn anew for every fold and part, so that its noise is averaged.
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
    """The mean of each part over the anchors that disclose a row.

    `n_valid[Z]` and `n_held[folds, Z]` say how many rows the parts are about.
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
    """The values of Z interactions on one level, own or social, with what they rest on."""

    shrunk: Shrunk
    count: float
    """What each interaction is worth beyond that for being one more, in units of `error`."""

    @property
    def values(self) -> Floats:
        """[Z], in units of the loss."""
        return self.shrunk.value(self.shrunk.weight) + self.count * self.error

    @property
    def held_values(self) -> Floats:
        """The same as far as they can be known without the validation rows: [Z]."""
        return self.shrunk.held_value + self.count * self.error

    @property
    def errors(self) -> Floats:
        """How far the truth may be from them, as a standard deviation: [Z]."""
        return self.shrunk.error(self.shrunk.weight)

    @property
    def error(self) -> float:
        """The same of all of them together."""
        return float(np.sqrt(np.mean(self.errors**2)))

    def facts(self) -> dict[str, float]:
        """How reliable they are, for the certificate."""
        return asdict(self.shrunk.reliability) | {"count": self.count, "error": self.error}


@dataclass(frozen=True)
class Pooled:
    """Values on both levels."""

    own: Level
    social: Level


def pooled(measured: Sequence[Measured], fold: Ints, rows: Rows, *, cost: float) -> Pooled:
    """Values of `rows` from the anchors of all folds; `fold[Z]` is that of each.

    Influence is what one interaction does while all others stay. Withholding a fold of them costs more than
    the sum of that: `cost` an interaction, by how much the models of the folds fall behind one of everything.
    What is missing is added to all of them alike, but at most as much as values may be wrong: the benefit of
    the doubt. More would drown them: a loss also grows because scores shrink, which changes no ranking.
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
