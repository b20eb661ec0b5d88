"""Structure: which interactions carry a recommendation from person to person.

A recommender leads user u to a new item over what u shares with others: over u's interaction a with an item,
another person's interaction b with the same item, and that person's interaction c with item j. On sparse logs
a held-out row is nearly always found if such a path leads to it, and nearly never if not. So an interaction
is worth the paths that would be lost without it.

Which rows will come is unknown. Among pairs (u, j) that a path leads to, those with more paths, and with more
popular items, come true more often. How often is estimated from the training rows, each taken as one that
came true. With that probability w and the number p(o) of paths that a selection o leaves, paths are worth

    Q(o) = Σ_(u,j) w_uj log(1 + p_uj(o)),    ∂Q/∂o_k = Σ_(u,j) w_uj (paths over k) / (1 + p_uj)

The owner of an interaction gets the part whose paths begin with it. No model is needed.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import sparse

from assent.support.arrays import Bools, Floats, Ints, positions, sum_by

_KINDS = 64 * 64
"""Kinds of pairs: 64 powers of two for the number of paths, and 64 for the number of people."""


@dataclass(frozen=True)
class Effort:
    """How much is looked at; larger logs are sampled."""

    walks: float = 100_000_000
    """Most paths to count, and steps to follow (in the mean); beyond that, users or pairs are drawn."""
    pairs: int = 30_000
    """Most pairs to follow; if there are more, they are drawn by their weights."""
    at_once: int = 2_000_000
    """Steps per block, which bounds memory."""


@dataclass(frozen=True)
class Paths:
    """M pairs of a user and an item they may come to, with the N paths between them."""

    weights: Floats
    """[M], w of each pair."""
    pair: Ints
    """[N], the pair of each path."""
    steps: tuple[Ints, Ints, Ints]
    """[N] each, the interactions a, b and c of each path."""
    owners: Ints
    """[Z], the users of the interactions."""
    begins: Bools
    """[n_users], the users whose pairs were looked at."""
    kept: Bools
    """[Z], the interactions that paths may use."""
    drawn: float = 0.0
    """The weight of one draw if pairs were drawn, else 0."""

    def among(self, kept: Bools) -> "Paths":
        """The paths that use only `kept[Z]`."""
        a, b, c = self.steps
        left = kept[a] & kept[b] & kept[c]
        return replace(self, pair=self.pair[left], steps=(a[left], b[left], c[left]), kept=self.kept & kept)

    def own(self) -> Floats:
        """What each interaction is worth to its owner, ∂Q_u/∂o_k: [Z]."""
        return self._completed(sum_by(self.steps[0], self._shares, len(self.owners)))

    def social(self) -> Floats:
        """What each interaction is worth to everybody, ∂Q/∂o_k: [Z]."""
        second, third = (sum_by(step, self._shares, len(self.owners)) for step in self.steps[1:])
        return self.own() + (second + third) / self._stood_for

    def own_variance(self) -> Floats:
        """The variance of `own`, because pairs come true, and were drawn, by chance: [Z].

        A pair comes true with probability w, with all its n_k paths over k at once: Σ w (n_k / (1 + p))².
        For users whose pairs were not looked at, the variance between people is added.
        """
        certain = (1 + self.drawn) * self._squares(self.steps[0])
        known = self.begins[self.owners]
        return self._completed(certain) + np.where(known, 0.0, self.own()[known & self.kept].var())

    def social_variance(self) -> Floats:
        """The variance of `social`: [Z].

        If a share s of the users stands for all, and X_uk is what goes over k for user u, the variance is
        1/s times that of pairs coming true, 1/s² times that of pairs being drawn, plus (1 − s)/s² Σ_u X_uk²
        because users were drawn.
        """
        share = self._stood_for
        second, third = (self._squares(step) for step in self.steps[1:])
        passed = (second + third) * (1 + self.drawn / share) / share
        if share == 1:
            return self.own_variance() + passed
        rows, users = len(self.owners), self.owners[self.steps[0]]
        places = np.concatenate([users * rows + step for step in self.steps[1:]])
        place, which = np.unique(places, return_inverse=True)
        of_user = sum_by(which, np.tile(self._shares, 2), len(place))
        drawn = (1 - share) / share**2 * sum_by(place % rows, of_user**2, rows)
        return self.own_variance() + passed + drawn

    def facts(self) -> dict[str, int]:
        """How many users, pairs and paths the values rest on, for the certificate."""
        return {"users": int(self.begins.sum()), "pairs": len(self.weights), "paths": len(self.pair)}

    def _completed(self, begun: Floats) -> Floats:
        """`begun[Z]`, with the mean of what is disclosed for users whose pairs were not looked at: [Z]."""
        known = self.begins[self.owners]
        typical = begun[known & self.kept]
        return np.where(known, begun, typical.mean() if len(typical) else 0.0)

    @property
    def _stood_for(self) -> float:
        """The share of users whose pairs were looked at; they stand for all."""
        return max(float(self.begins.mean()), 1 / len(self.begins))

    @cached_property
    def _count(self) -> Ints:
        """p of each pair: [M]."""
        return np.bincount(self.pair, minlength=len(self.weights))

    @cached_property
    def _shares(self) -> Floats:
        """w / (1 + p) of each path's pair: [N]."""
        return (self.weights / (1 + self._count))[self.pair]

    def _squares(self, step: Ints) -> Floats:
        """Σ w (n_k / (1 + p))² over pairs, with n_k paths that have k as this step: [Z]."""
        rows = len(self.owners)
        place, times = np.unique(self.pair * rows + step, return_counts=True)
        pair, row = np.divmod(place, rows)
        return sum_by(row, self.weights[pair] * (times / (1 + self._count[pair])) ** 2, rows)


def find_paths(
    users: Ints, items: Ints, n_users: int, n_items: int, *, seed: int, effort: Effort | None = None
) -> Paths:
    """The paths among rows (`users[Z]`, `items[Z]`, no pair twice) to pairs that may come true."""
    effort = effort or Effort()
    rng, log = np.random.default_rng((seed, 8)), _Log(users, items, n_users, n_items)
    order = rng.permutation(n_users)
    few_walks = np.cumsum(log.walks[order]) <= effort.walks
    few_walks[:1] = True
    begins, unit = np.zeros(n_users, dtype=np.bool_), 0.0
    begins[order[few_walks]] = True
    pair_users, pair_items, weights = _pairs(log, np.flatnonzero(begins), effort.at_once)
    if len(weights):
        total, steps = float(weights.sum()), log.beyond[pair_items]
        few = max(1, min(effort.pairs, int(effort.walks * total / (weights @ steps))))
        if len(weights) > few:
            drawn = rng.choice(len(weights), size=few, p=weights / total)
            chosen, times = np.unique(drawn, return_counts=True)
            pair_users, pair_items = pair_users[chosen], pair_items[chosen]
            unit = total / few
            weights = unit * times.astype(np.float64)
    pair, a, b, c = _follow(log, pair_users, pair_items, effort.at_once)
    return Paths(weights, pair, (a, b, c), users, begins, np.ones(len(users), dtype=np.bool_), unit)


class _Log:
    """Rows by user and by item."""

    def __init__(self, users: Ints, items: Ints, n_users: int, n_items: int) -> None:
        self.users, self.items, self.n_users, self.n_items = users, items, n_users, n_items
        self.by_user, self.by_item = _Groups(users, n_users), _Groups(items, n_items)
        length = np.bincount(users, minlength=n_users).astype(np.float64)
        self.beyond = sum_by(items, length[users], n_items)
        """[n_items], how many rows the users of each item have."""
        self.walks = sum_by(users, self.beyond[items], n_users)
        """[n_users], how many steps lead from a user over shared items to items of others."""
        self.keys = np.sort(users * n_items + items)
        """[Z], user · n_items + item of the rows, sorted."""


class _Groups:
    """Rows by a key: the rows of key n are `order[starts[n] : starts[n + 1]]`."""

    def __init__(self, keys: Ints, length: int) -> None:
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=length))])
        self.order = np.argsort(keys, kind="stable")

    def rows(self, keys: Ints) -> tuple[Ints, Ints]:
        """All rows of `keys[n]` one after the other: the place of their key, and the rows."""
        sizes = self.starts[keys + 1] - self.starts[keys]
        which = np.repeat(np.arange(len(keys)), sizes)
        within = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return which, self.order[self.starts[keys][which] + within]


def _pairs(log: _Log, some: Ints, at_once: int) -> tuple[Ints, Ints, Floats]:
    """Users of `some` and items that paths lead them to, and how often such pairs come true: [M] each.

    A training row counts as a pair that came true, with the paths that are left without it. Pairs are of one
    kind if their numbers of paths, and of people who have the item, are equal up to a factor of two.
    """
    shape = log.n_users, log.n_items
    has = sparse.csr_array((np.ones(len(log.users)), (log.users, log.items)), shape=shape)
    parts = np.cumsum(log.walks[some]) // at_once
    came, may = (np.zeros(_KINDS, dtype=np.int64) for _ in range(2))
    users, items, kinds = ([np.zeros(0, dtype=np.int32)] for _ in range(3))
    for here in np.split(some, np.flatnonzero(np.diff(parts)) + 1):
        of_user, item, kind, seen = _led(log, has, here)
        came += np.bincount(kind[seen & (kind >= 0)], minlength=_KINDS)
        may += np.bincount(kind[~seen], minlength=_KINDS)
        for all_of_them, these in ((users, of_user), (items, item), (kinds, kind)):
            all_of_them.append(these[~seen].astype(np.int32))
    weights = (came / np.maximum(came + may, 1))[np.concatenate(kinds)]
    possible = weights > 0
    user, item = (np.concatenate(each)[possible].astype(np.int64) for each in (users, items))
    return user, item, weights[possible]


def _led(log: _Log, has: sparse.csr_array, some: Ints) -> tuple[Ints, Ints, Ints, Bools]:
    """All pairs that paths lead the users `some` to: user, item, kind, and whether it is a training row.

    A training row that no other path leads to has kind −1.
    """
    shared = sparse.coo_array(has[some] @ has.T)
    other = shared.col != some[shared.row]
    entries = shared.data[other], (shared.row[other], shared.col[other])
    led = sparse.coo_array(sparse.csr_array(entries, shape=shared.shape) @ has)
    users, items = some[led.row], led.col.astype(np.int64)
    seen = positions(log.keys, users * log.n_items + items) < len(log.keys)
    people = (log.by_item.starts[1:] - log.by_item.starts[:-1])[items] - seen
    paths = np.rint(led.data).astype(np.int64) - seen * people
    log_paths, log_people = (np.floor(np.log2(np.maximum(n, 1))).astype(np.int64) for n in (paths, people))
    return users, items, np.where(paths > 0, 64 * log_paths + log_people, -1), seen


def _follow(log: _Log, users: Ints, items: Ints, at_once: int) -> tuple[Ints, Ints, Ints, Ints]:
    """All paths from `users[n]` to `items[n]`: their pair, and their interactions a, b and c: [N] each."""
    # Each pair also costs a row of a table of items, at about a sixteenth of a step per item.
    parts = np.cumsum(log.beyond[items] + log.n_items / 16) // at_once
    found = [np.zeros((4, 0), dtype=np.int64)]
    for start, end in pairwise([0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(items)]):
        known, place = np.unique(users[start:end], return_inverse=True)
        which, row = log.by_user.rows(known)
        row_of = np.full((len(known), log.n_items), -1, dtype=np.int32)
        row_of[which, log.items[row]] = row
        pair, c = log.by_item.rows(items[start:end])
        pair, c = (each[log.users[c] != users[start:end][pair]] for each in (pair, c))
        which, b = log.by_user.rows(log.users[c])
        pair, c = pair[which], c[which]
        a = row_of[place[pair], log.items[b]].astype(np.int64)
        there = (a >= 0) & (log.items[b] != items[start:end][pair])
        found.append(np.stack([each[there] for each in (pair + start, a, b, c)]))
    pair, a, b, c = np.concatenate(found, axis=1)
    return pair, a, b, c
