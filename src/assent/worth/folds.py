"""Cross-fitting: every training row serves as a validation row for a model that was not trained on it.

The rows are split into K folds. Anchor t is trained on everything but fold t. The influence of all rows is
measured on two sets of rows that the anchor has not seen: the validation rows, and fold t. The value of a row
is the mean over the anchors that disclose it; the anchor that withholds it would count what a row does for
itself.

In a live problem the validation rows are training rows too, which are valued like the others. They are in no
fold (`NO_FOLD`): no anchor is trained on them. They are valued by what they do to the rows of folds alone, as
what they do to validation rows is mostly what they do for themselves.

`deal` and `targets` make the folds, `measure` takes the influence at one anchor, `pooled` combines all folds
into one value per interaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from assent.data.problem import Rows
from assent.influence.estimate import own_influence, social_influence
from assent.influence.inverse import InfluenceSettings
from assent.influence.linearised import Linearised
from assent.support.arrays import Bools, Floats, Ints, Keys, below, mix, mixed
from assent.support.draws import Purpose, by_lot, some_by_lot
from assent.worth.shrinkage import Shrunk, Twice, features, shrink

Array = npt.NDArray[np.floating] | npt.NDArray[np.int32]
"""Array of numbers."""
NO_FOLD = -1
"""The fold of rows that no anchor is trained on."""


@dataclass(frozen=True)
class Measured:
    """Influence of Z rows at one anchor, on the validation rows (`valid`) and on its fold (`held`)."""

    own_valid: Array
    """[Z], influence on the owner's loss, in the precision of the model."""
    own_held: Array
    social_valid: Array
    """[Z], influence on the sum of losses."""
    social_held: Array
    losses: Floats
    """[n_users], L_u on the validation rows."""
    n_valid: Floats
    """[n_users], number of validation rows."""
    n_held: Floats
    """[n_users], number of rows in the fold."""


def deal(keys: Keys, folds: int, *, seed: int, dealt: Bools | None = None) -> Ints:
    """The fold of each row, by its key alone: [len(keys)]; those that are not `dealt[len(keys)]` are in none.

    On a log so small that a fold would be empty, the rows are dealt out in the order of their lots.
    """
    which = np.arange(len(keys)) if dealt is None else np.flatnonzero(dealt)
    fold, some = np.full(len(keys), NO_FOLD), keys[which]
    fold[which] = below(mix(seed, Purpose.FOLDS, some), folds)
    if len(np.unique(fold[which])) < folds:
        fold[which[by_lot(some, seed, Purpose.FOLDS)]] = np.arange(len(some)) % folds
    return fold


def targets(keys: Keys, fold: Ints, t: int, most: int, *, seed: int) -> Ints:
    """The rows of fold t that influence is measured on: all, or `most` of them, drawn by their keys."""
    rows = np.flatnonzero(fold == t)
    return rows[some_by_lot(keys[rows], most, seed, Purpose.TARGETS)]


def measure(
    model: Linearised, n_valid: int, weights: Floats, settings: InfluenceSettings, *, seed: int, fold: int
) -> tuple[Measured, dict[str, float | None]]:
    """Influence at the anchor of a fold, and the largest residual of the systems solved for each level.

    The first `n_valid` validation rows of `model` are the problem's own, the rest are rows of the fold.
    `weights[n_users]` multiply each user's loss. The seed differs between folds and parts, so that the noise
    of an estimator averages out.
    """
    owners, n_users = model.valid.owners.numpy(), model.valid.n_users
    is_valid = np.arange(len(owners)) < n_valid
    influence: dict[str, Array] = {}
    residuals: dict[str, float | None] = {}
    for level, compute in (("own", own_influence), ("social", social_influence)):
        known = []
        for k, (part, rows) in enumerate((("valid", is_valid), ("held", ~is_valid))):
            found, residual = compute(model, settings, mixed(seed, fold, k), weights[owners] * rows)
            influence[f"{level}_{part}"] = found.numpy()
            known += [] if residual is None else [residual]
        residuals[f"residual_{level}"] = max(known, default=None)
    measured = Measured(
        **influence,
        losses=model.valid.per_user(model.valid_losses() * torch.from_numpy(is_valid)),
        n_valid=np.bincount(owners[is_valid], minlength=n_users).astype(np.float64),
        n_held=np.bincount(owners[~is_valid], minlength=n_users).astype(np.float64),
    )
    return measured, residuals


def pool(
    parts: Sequence[tuple[Array, Array]],
    fold: Ints,
    n_valid: Floats,
    n_held: Array,
    counted: Floats | None = None,
) -> Twice:
    """The mean of both parts over the anchors that disclose a row; of a row in no fold, over all anchors.

    `n_valid[Z]` and `n_held[folds, Z]` are the numbers of rows that the parts were measured on, `counted[Z]`
    the number of rows that a value is for, by default `n_valid`.
    """
    anchors, zeros = np.where(fold == NO_FOLD, len(parts), len(parts) - 1), np.zeros(len(fold))
    valid, held, both, n_withheld = zeros, zeros.copy(), zeros.copy(), zeros.copy()
    for t, (on_valid, on_held) in enumerate(parts):
        discloses = fold != t
        valid += on_valid * discloses
        held += on_held * discloses
        both += np.multiply(on_valid, on_held, dtype=np.float64) * discloses
        n_withheld += n_held[t] * discloses
    pairs = anchors * (anchors - 1)
    sums = valid * held
    joint = np.divide(sums - both, pairs, out=sums, where=pairs > 0)
    valid /= anchors
    held /= anchors
    n_withheld /= anchors
    return Twice(valid, held, joint, n_valid, n_withheld, n_valid if counted is None else counted)


def _of_judges(
    parts: Sequence[tuple[Array, Array]], fold: Ints, n_valid: Floats, n_held: Array
) -> list[tuple[Array, Array]]:
    """Both parts at each anchor, comparable for rows in no fold: nothing on validation rows, and on the fold

        m + s/s' (x − m'),

    where x is what was measured, per row that it was measured on. A model fits the rows that it was trained
    on, so that they pull less than rows it has not seen, and x is too large. Rows of the anchor's own fold
    are unseen too: on validation rows, which the rows of a fold are taken to be like, they have the mean m'
    and the standard deviation s', seen ones m and s.
    """
    judges, found = fold == NO_FOLD, []
    for t, (on_valid, on_held) in enumerate(parts):
        rates = np.divide(on_valid, n_valid, out=np.zeros(len(fold)), where=n_valid > 0)
        (mean, spread), (unseen_mean, unseen_spread) = (
            (float(rates[which].mean()), float(rates[which].std())) if which.any() else (0.0, 0.0)
            for which in ((fold != t) & ~judges & (n_valid > 0), (fold == t) & (n_valid > 0))
        )
        scale = spread / unseen_spread if unseen_spread > 0 else 1.0
        alike = n_held[t] * (mean - scale * unseen_mean) + scale * on_held
        found.append((np.where(judges, 0.0, on_valid), np.where(judges, alike, on_held)))
    return found


def pooled(measured: Sequence[Measured], fold: Ints, rows: Rows, *, cost: float) -> tuple[Shrunk, Shrunk]:
    """Values of `rows` to their owners and to everybody; `fold[Z]` is the fold of each row.

    Influence is the effect of one interaction while all others stay. Withholding a whole fold costs more than
    the sum of these: `cost` per interaction, measured by how much worse the folds' models are than one
    trained on everything. The difference is added to all values alike, but at most one standard error: more
    would hide the differences between values, since a loss also grows when scores shrink, which changes no
    ranking.
    """
    n_valid, n_held = measured[0].n_valid, np.array([each.n_held for each in measured])
    placed, judges = features(rows.users, rows.items), fold == NO_FOLD

    def level(parts: Sequence[tuple[Array, Array]], n_valid: Floats, n_held: Array) -> Shrunk:
        if judges.any():
            parts = _of_judges(parts, fold, n_valid, n_held)
        twice = pool(parts, fold, np.where(judges, 0.0, n_valid), n_held, n_valid)
        return shrink(twice, placed, (rows.users, rows.items))

    owns = [(each.own_valid, each.own_held) for each in measured]
    own = level(owns, n_valid[rows.users], n_held.astype(np.int32)[:, rows.users])
    socials = [(each.social_valid, each.social_held) for each in measured]
    in_all = np.broadcast_to(n_held.sum(axis=1)[:, None], (len(measured), len(fold)))
    social = level(socials, np.full(len(fold), n_valid.sum()), in_all)
    missing = max(cost - float(social.values.mean()), 0.0)
    count = min(missing / social.error, 1.0) if social.error > 0 else 0.0
    return replace(own, count=count), replace(social, count=count)
