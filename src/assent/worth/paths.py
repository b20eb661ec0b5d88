"""Structure: which interactions carry a recommendation from person to person.

A recommender takes somebody to what she has not seen over what she shares with others: from user u over her
interaction a with an item to another's interaction b with the same item, and over that other's interaction c
with item j. On sparse logs a held-out row is found nearly always if such a path leads to it, and nearly never
if not. So an interaction is worth what paths lose with it, and what it is worth falls with the other two:
those who share it, and what they share.

Which rows are to come is not known. Of all pairs (u, j) that a path leads to, those with more paths, and with
items that more people have, turn up more often; how much more often is read off the training rows
themselves, each taken for one that is to come. With that probability w and the number p(o) of paths that a
selection o leaves, the paths to come are worth

    Q(o) = Σ_(u,j) w_uj log(1 + p_uj(o)),    ∂Q/∂o_k = Σ_(u,j) w_uj (paths over k) / (1 + p_uj)

of which an interaction's owner has what begins with her. Nothing of this needs a model.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import sparse

from assent.support.arrays import Bools, Floats, Ints, positions, sum_by

_WALKS = 100_000_000
"""Paths that are counted to find pairs, and steps to follow them, at most (in the mean). Where there are
more, those of some users, and of some pairs, are taken."""
_PAIRS = 30_000
"""Pairs that are followed, at most; where there are more, they are drawn by their weights."""
_AT_ONCE = 2_000_000
"""Steps that are looked at together, which bounds memory."""
_KINDS = 64 * 64
"""Of pairs: 64 scales of how many paths, and as many of how many people."""


@dataclass(frozen=True)
class Paths:
    """M pairs of a user and an item that she may come to, with the N paths between them."""

    weights: Floats
    """w of each pair: [M]."""
    pair: Ints
    """That each path belongs to: [N]."""
    steps: tuple[Ints, Ints, Ints]
    """Its interactions a, b and c: [N] each."""
    owners: Ints
    """The users of the interactions: [Z]."""
    begins: Bools
    """The users whose pairs are known: [n_users]."""
    kept: Bools
    """The interactions that the paths may lead over: [Z]."""
    drawn: float = 0.0
    """What each draw of a pair counts, where not all pairs are followed."""

    def among(self, kept: Bools) -> "Paths":
        """The paths that `kept[Z]` leaves."""
        a, b, c = self.steps
        left = kept[a] & kept[b] & kept[c]
        return replace(self, pair=self.pair[left], steps=(a[left], b[left], c[left]), kept=self.kept & kept)

    def own(self) -> Floats:
        """What each interaction is worth to its owner, ∂Q_u/∂o_k: [Z]."""
        return self._begun

    def social(self) -> Floats:
        """What each interaction is worth to everybody, ∂Q/∂o_k: [Z]."""
        return self._begun + self._passed

    def own_variance(self) -> Floats:
        """Of `own`, because each pair comes true, or was drawn, by chance: [Z].

        With probability w a pair comes true as a whole, with all its n_k paths over k: Σ w (n_k / (1 + p))².
        Where nothing is known of a user's pairs, people differ as well.
        """
        certain = (1 + self.drawn) * self._squares(self.steps[0])
        return self._completed(certain) + np.where(self._known, 0.0, self._begun[self._typical].var())

    def social_variance(self) -> Floats:
        """The same of `social`; over no interaction a pair has paths of two kinds: [Z].

        Where a share s of the users stands for all, X_uk being what goes over k for user u, all of them have
        1/s of what comes true by chance, 1/s² of what pairs were drawn by, and (1 − s)/s² Σ_u X_uk² because
        users were drawn.
        """
        share = self._stood_for
        second, third = (self._squares(step) for step in self.steps[1:])
        passed = (second + third) * (1 + self.drawn / share) / share
        drawn = (1 - share) / share**2 * self._passed_squares if share < 1 else 0.0
        return self.own_variance() + passed + drawn

    def facts(self) -> dict[str, int]:
        """How much it rests on, for the certificate."""
        return {"users": int(self.begins.sum()), "pairs": len(self.weights), "paths": len(self.pair)}

    @property
    def _begun(self) -> Floats:
        """What begins with each interaction; where nothing is known, the mean: [Z]."""
        return self._completed(sum_by(self.steps[0], self._shares, len(self.owners)))

    def _completed(self, begun: Floats) -> Floats:
        """`begun[Z]`, with the mean for those whose pairs are not known."""
        typical = self._typical
        return np.where(self._known, begun, begun[typical].mean() if typical.any() else 0.0)

    @property
    def _known(self) -> Bools:
        """Interactions of users whose pairs are known: [Z]."""
        known: Bools = self.begins[self.owners]
        return known

    @property
    def _typical(self) -> Bools:
        """Those of them that are disclosed, which stand for the others: [Z]."""
        return self._known & self.kept

    @property
    def _passed(self) -> Floats:
        """What goes over each as second or third: [Z]."""
        second, third = (sum_by(step, self._shares, len(self.owners)) for step in self.steps[1:])
        return (second + third) / self._stood_for

    @property
    def _passed_squares(self) -> Floats:
        """Σ_u X_uk²: [Z]."""
        rows, users = len(self.owners), self.owners[self.steps[0]]
        places = np.concatenate([users * rows + step for step in self.steps[1:]])
        place, which = np.unique(places, return_inverse=True)
        of_user = sum_by(which, np.tile(self._shares, 2), len(place))
        return sum_by(place % rows, of_user**2, rows)

    @property
    def _stood_for(self) -> float:
        """The share of users whose pairs are known; they stand for all."""
        return max(float(self.begins.mean()), 1 / len(self.begins))

    @cached_property
    def _shares(self) -> Floats:
        """w / (1 + p) of each path's pair: [N]."""
        return (self.weights / (1 + self._count))[self.pair]

    def _squares(self, step: Ints) -> Floats:
        """Σ w (n_k / (1 + p))² over the pairs with paths over each interaction as this step: [Z]."""
        rows = len(self.owners)
        place, times = np.unique(self.pair * rows + step, return_counts=True)
        pair, row = np.divmod(place, rows)
        return sum_by(row, self.weights[pair] * (times / (1 + self._count[pair])) ** 2, rows)

    @property
    def _count(self) -> Ints:
        """p of each pair: [M]."""
        return np.bincount(self.pair, minlength=len(self.weights))


def find_paths(users: Ints, items: Ints, *, n_users: int, n_items: int, seed: int) -> Paths:
    """The paths among rows (`users[Z]`, `items[Z]`, no pair twice) to what is to come."""
    rng, log = np.random.default_rng((seed, 8)), _Log.of(users, items, n_users, n_items)
    begins, unit = _sampled(log, rng), 0.0
    pair_users, pair_items, weights = _pairs(log, np.flatnonzero(begins))
    if len(weights):
        total, steps = float(weights.sum()), log.beyond[pair_items]
        few = max(1, min(_PAIRS, int(_WALKS * total / (weights @ steps))))
        if len(weights) > few:
            drawn = rng.choice(len(weights), size=few, p=weights / total)
            chosen, times = np.unique(drawn, return_counts=True)
            pair_users, pair_items = pair_users[chosen], pair_items[chosen]
            unit = total / few
            weights = unit * times.astype(np.float64)
    pair, a, b, c = _follow_all(log, pair_users, pair_items)
    every = np.ones(len(users), dtype=np.bool_)
    return Paths(weights, pair, (a, b, c), users, begins, kept=every, drawn=unit)


@dataclass(frozen=True)
class _Log:
    """Rows by user and by item."""

    users: Ints
    items: Ints
    n_users: int
    n_items: int
    by_user: "_Groups"
    by_item: "_Groups"
    beyond: Floats
    """How many rows the users of each item have: [n_items]."""
    walks: Floats
    """How many steps lead from each user over her items to those of others: [n_users]."""
    keys: Ints
    """user · n_items + item of the rows, sorted: [Z]."""

    @classmethod
    def of(cls, users: Ints, items: Ints, n_users: int, n_items: int) -> "_Log":
        length = np.bincount(users, minlength=n_users).astype(np.float64)
        groups = _Groups.of(users, n_users), _Groups.of(items, n_items)
        beyond = sum_by(items, length[users], n_items)
        walks, keys = sum_by(users, beyond[items], n_users), np.sort(users * n_items + items)
        return cls(users, items, n_users, n_items, *groups, beyond, walks, keys)


@dataclass(frozen=True)
class _Groups:
    """Rows by a key: those of key n are `order[starts[n] : starts[n + 1]]`."""

    order: Ints
    starts: Ints

    @classmethod
    def of(cls, keys: Ints, length: int) -> "_Groups":
        starts = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=length))])
        return cls(np.argsort(keys, kind="stable"), starts)

    def rows(self, keys: Ints) -> tuple[Ints, Ints]:
        """All rows of `keys[n]` one after the other: which key (by its place), which row."""
        sizes = self.starts[keys + 1] - self.starts[keys]
        which = np.repeat(np.arange(len(keys)), sizes)
        within = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return which, self.order[self.starts[keys][which] + within]


def _sampled(log: _Log, rng: np.random.Generator) -> Bools:
    """Users, as many of all as `_WALKS` allows and at least one: [n_users]."""
    order = rng.permutation(log.n_users)
    few = np.cumsum(log.walks[order]) <= _WALKS
    few[:1] = True
    sampled = np.zeros(log.n_users, dtype=np.bool_)
    sampled[order[few]] = True
    return sampled


def _pairs(log: _Log, some: Ints) -> tuple[Ints, Ints, Floats]:
    """Pairs of the users `some` and the items that paths lead them to, and how often such come true.

    A training row is one that came true: without it, it has the paths that are left. Pairs count together
    whose numbers of paths, and of people who have the item, are the same up to a factor of two.
    """
    shape = log.n_users, log.n_items
    has = sparse.csr_array((np.ones(len(log.users)), (log.users, log.items)), shape=shape)
    parts = np.cumsum(log.walks[some]) // _AT_ONCE
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
    """All pairs of the users `some` that paths lead to: user, item, kind, and whether it is a row already.

    The kind of a row that no other path leads to is −1.
    """
    shared = sparse.coo_array(has[some] @ has.T)
    other = shared.col != some[shared.row]
    entries = shared.data[other], (shared.row[other], shared.col[other])
    led = sparse.coo_array(sparse.csr_array(entries, shape=shared.shape) @ has)
    users, items = some[led.row], led.col.astype(np.int64)
    seen = positions(log.keys, users * log.n_items + items) < len(log.keys)
    people = (log.by_item.starts[1:] - log.by_item.starts[:-1])[items] - seen
    paths = np.rint(led.data).astype(np.int64) - seen * people
    return users, items, np.where(paths > 0, 64 * _scale(paths) + _scale(people), -1), seen


def _scale(counts: Ints) -> Ints:
    """The power of two that each count reaches: [n]."""
    return np.floor(np.log2(np.maximum(counts, 1))).astype(np.int64)


def _follow_all(log: _Log, users: Ints, items: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """All paths from `users[n]` to `items[n]`: of which pair, and their interactions a, b and c."""
    parts = np.cumsum(log.beyond[items] + log.n_items / 16) // _AT_ONCE  # a table of items, too, takes time
    found = [np.zeros((4, 0), dtype=np.int64)]
    for start, end in pairwise([0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(items)]):
        pair, a, b, c = _follow(log, users[start:end], items[start:end])
        found.append(np.stack([pair + start, a, b, c]))
    pair, a, b, c = np.concatenate(found, axis=1)
    return pair, a, b, c


def _follow(log: _Log, users: Ints, items: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The same, all at once."""
    known, place = np.unique(users, return_inverse=True)
    which, row = log.by_user.rows(known)
    row_of = np.full((len(known), log.n_items), -1, dtype=np.int32)
    row_of[which, log.items[row]] = row
    pair, c = log.by_item.rows(items)
    pair, c = (each[log.users[c] != users[pair]] for each in (pair, c))
    which, b = log.by_user.rows(log.users[c])
    a = row_of[place[pair[which]], log.items[b]].astype(np.int64)
    there = (a >= 0) & (log.items[b] != items[pair[which]])
    return pair[which][there], a[there], b[there], c[which][there]
