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

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from assent.data.problem import Rows
from assent.support.arrays import Bools, Floats, Ints, Keys, mix, sum_by
from assent.support.compiled import compiled, grouped
from assent.support.draws import Purpose, by_lot, mixed_key
from assent.support.runtime import row_threads

T = TypeVar("T")

_Short = npt.NDArray[np.int32]
"""int32 array of indices: half the memory, and faster to look up."""
Indices = _Short | Ints
"""Array of indices."""

_PER_USER = 3
"""Fewest pairs per user to draw, in the mean; if fewer are affordable, fewer users stand for all."""
_ROOM = 2**15
"""Pairs that there is room for at first; doubled when needed."""
_PARTS = 64
"""Parts of the users that threads share; results do not depend on how many there are."""
_KINDS = 64 * 64
"""Kinds of pairs: 64 powers of two for the number of paths, and 64 for the number of people."""


@dataclass(frozen=True)
class Effort:
    """How much is looked at; larger logs are sampled."""

    walks: float = 1_000_000_000
    """Most steps to count paths, and to follow them (in the mean); beyond that, users or pairs are drawn."""
    pairs: int = 30_000
    """Most pairs to follow; if there are more, they are drawn by their weights."""
    paths: float = 20_000_000
    """Most paths to keep (in the mean), which bounds memory; beyond that, pairs are drawn."""


@dataclass(frozen=True)
class Paths:
    """M pairs of a user and an item they may come to, with the N paths between them.

    The pairs of a user follow each other, and so do the paths of a pair.
    """

    weights: Floats
    """[M], w of each pair."""
    pair: Indices
    """[N], the pair of each path."""
    steps: tuple[Indices, Indices, Indices]
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
        pair, a, b, c = _remaining(kept, self.pair, *self.steps)
        return replace(self, pair=pair, steps=(a, b, c), kept=self.kept & kept)

    def own(self) -> Floats:
        """What each interaction is worth to its owner, ∂Q_u/∂o_k: [Z]."""
        return self._completed(self._sums(self.steps[0]))

    def social(self) -> Floats:
        """What each interaction is worth to everybody, ∂Q/∂o_k: [Z]."""
        second, third = (self._sums(step) for step in self.steps[1:])
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
        drawn = (1 - share) / share**2 * _squares_by_user(self.owners, self.pair, self.steps, self._shares)
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
        ends = np.searchsorted(self.pair, np.arange(len(self.weights) + 1, dtype=self.pair.dtype))
        return np.diff(ends)

    @cached_property
    def _shares(self) -> Floats:
        """w / (1 + p) of each pair: [M]."""
        return self.weights / (1 + self._count)

    def _sums(self, step: Indices) -> Floats:
        """Σ w / (1 + p) over the paths that have k as this step: [Z]."""
        return _sums_by_step(self.pair, step, self._shares, len(self.owners))

    def _squares(self, step: Indices) -> Floats:
        """Σ w (n_k / (1 + p))² over pairs, with n_k paths that have k as this step: [Z]."""
        return _squares_by_pair(self.pair, step, self.weights, self._count, len(self.owners))


def find_paths(
    rows: Rows, user_keys: Keys, item_keys: Keys, *, seed: int, effort: Effort | None = None
) -> Paths:
    """The paths among `rows` (no pair twice) to pairs that may come true.

    Time is linear in rows plus what `effort` allows, and memory in rows plus pairs and paths to keep: pairs
    are counted once, and drawn while they are counted again, so that there is no list of all. Users and pairs
    are drawn by their keys, so that a row that goes changes only a few draws.
    """
    effort = effort or Effort()
    users, items, n_users, n_items = rows.users, rows.items, len(user_keys), len(item_keys)
    log = _Log.of(users, items, n_users, n_items)
    length = np.diff(log.user_starts).astype(np.float64)
    beyond = sum_by(items, length[users], n_items)  # how many rows the users of each item have
    # A user costs the steps over shared items to others' items, but each other person is visited only once.
    walks = np.minimum(sum_by(users, beyond[items], n_users), len(users))
    some, kinds = _stand_for_all(log, by_lot(user_keys, seed, Purpose.PATHS), walks, beyond, effort)
    few = kinds.affordable(effort)
    drawn = few / kinds.total if kinds.size > few else 0.0
    own = mix(seed, Purpose.PATHS, 1, user_keys)
    drawing = partial(_draw_pairs, log, rates=kinds.rates, drawn=drawn, user_keys=own, item_keys=item_keys)
    parts = zip(*_each_part(drawing, some), strict=True)
    pair_users, pair_items, counts, weights = (np.concatenate(part) for part in parts)
    unit = 1 / drawn if drawn else 0.0
    if drawn:
        weights *= unit
    begins = np.zeros(n_users, dtype=np.bool_)
    begins[some] = True
    pair, a, b, c = _follow(log, pair_users, pair_items, int(counts.sum()))
    return Paths(weights, pair, (a, b, c), users, begins, np.ones(len(users), dtype=np.bool_), unit)


def _stand_for_all(
    log: "_Log", order: Ints, walks: Floats, beyond: Floats, effort: Effort
) -> tuple[Ints, "_Kinds"]:
    """The first users of `order[n_users]` whose `walks[n_users]` are allowed, and their pairs by kind.

    There are fewer if else a user would have hardly any of the pairs that can be followed.
    """
    some = order[: max(1, int(np.searchsorted(np.cumsum(walks[order]), effort.walks, side="right")))]
    kinds = _Kinds.of(log, np.sort(some), beyond)
    few = kinds.affordable(effort)
    is_limited = len(some) < len(order) or few < effort.pairs
    if is_limited and few < min(kinds.size, _PER_USER * len(some)):
        some = some[: max(1, few // _PER_USER)]
        kinds = _Kinds.of(log, np.sort(some), beyond)
    return np.sort(some), kinds


def _each_part(work: Callable[[Ints], T], some: Ints) -> list[T]:
    """Call `work` on parts of the users `some`, in threads; results are in the order of the parts."""
    parts = np.array_split(some, min(_PARTS, len(some)))
    with ThreadPoolExecutor(row_threads()) as pool:
        return list(pool.map(work, parts))


class _Log(NamedTuple):
    """Rows by user, with rising items, and by item, in their order."""

    user_starts: Ints
    """[n_users + 1]; the places of user n are `user_starts[n] : user_starts[n + 1]`."""
    user_rows: _Short
    """[Z], the row at each place."""
    user_items: _Short
    """[Z], its item."""
    item_starts: Ints
    """[n_items + 1], likewise."""
    item_rows: _Short
    item_users: _Short
    """[Z], the user of the row at each place."""

    @classmethod
    def of(cls, users: Ints, items: Ints, n_users: int, n_items: int) -> "_Log":
        item_starts, item_rows = grouped(items, np.arange(len(items), dtype=np.int32), n_items)
        user_starts, user_rows = grouped(users, item_rows, n_users)
        user_items, item_users = items[user_rows].astype(np.int32), users[item_rows].astype(np.int32)
        return cls(user_starts, user_rows, user_items, item_starts, item_rows, item_users)


class _Scratch(NamedTuple):
    """Arrays to count the paths of one user in."""

    met: _Short
    """[n_users], people who share an item."""
    shared: _Short
    """[n_users], how many items they share; 0 between users."""
    led: _Short
    """[n_items], items that paths lead to."""
    paths: Ints
    """[n_items], how many; 0 between users."""
    owner: Ints
    """[n_items], the last user so far who has the item; −1 if nobody."""


@compiled
def _scratch(log: _Log) -> _Scratch:
    n_users, n_items = len(log.user_starts) - 1, len(log.item_starts) - 1
    met, shared = np.zeros(n_users, dtype=np.int32), np.zeros(n_users, dtype=np.int32)
    led, paths = np.zeros(n_items, dtype=np.int32), np.zeros(n_items, dtype=np.int64)
    return _Scratch(met, shared, led, paths, np.full(n_items, -1, dtype=np.int64))


@compiled
def _lead(log: _Log, u: int, scratch: _Scratch) -> int:
    """Count the paths from user u to n items, `led[:n]`, in `paths`; mark what u owns; return n."""
    met, shared, led, paths, owner = scratch
    others, n = 0, 0
    for item in log.user_items[log.user_starts[u] : log.user_starts[u + 1]]:
        owner[item] = u
        for v in log.item_users[log.item_starts[item] : log.item_starts[item + 1]]:
            if shared[v] == 0:
                met[others] = v
                others += 1
            shared[v] += 1
    if 16 * others < len(shared):
        met[:others].sort()
    else:  # many: finding them in order is faster than sorting them
        met[:others] = np.flatnonzero(shared)
    for v in met[:others]:
        times = 0 if v == u else shared[v]
        shared[v] = 0
        if times:
            for item in log.user_items[log.user_starts[v] : log.user_starts[v + 1]]:
                if paths[item] == 0:
                    led[n] = item
                    n += 1
                paths[item] += times
    return n


@compiled
def _powers(count: int) -> int:
    """The powers of two in a number: 0 for 1, 1 for 2 and 3, …"""
    found = 0
    while count > 1:
        count >>= 1
        found += 1
    return found


@compiled
def _kinds_of_items(log: _Log) -> _Short:
    """What the number of people who have an item adds to the kinds of its pairs: [n_items]."""
    starts, found = log.item_starts, np.zeros(len(log.item_starts) - 1, dtype=np.int32)
    for item in range(len(found)):  # np.diff would take seconds to compile
        found[item] = _powers(starts[item + 1] - starts[item])
    return found


class _Kinds(NamedTuple):
    """Sums over pairs by their kind: [_KINDS] each."""

    came: Ints
    """Pairs that came true."""
    may: Ints
    """Pairs that may come true."""
    steps: Floats
    """Steps to follow the latter."""
    paths: Floats
    """Their paths."""

    @classmethod
    def of(cls, log: "_Log", some: Ints, beyond: Floats) -> "_Kinds":
        """Count the pairs of the users `some`."""
        parts = _each_part(partial(_count_kinds, log, beyond=beyond), some)
        return cls(*(np.sum(each, axis=0) for each in zip(*parts, strict=True)))

    @property
    def rates(self) -> Floats:
        """How often pairs come true: w."""
        rates: Floats = self.came / np.maximum(self.came + self.may, 1)
        return rates

    @property
    def size(self) -> int:
        """How many pairs may come true, at a rate above 0."""
        return int(self.may[self.came > 0].sum())

    @property
    def total(self) -> float:
        """The sum of the rates of all pairs."""
        return float(self.rates @ self.may)

    def affordable(self, effort: Effort) -> int:
        """How many pairs, drawn by their rates, `effort` allows: at least one."""
        few = float(effort.pairs)
        for limit, sums in ((effort.walks, self.steps), (effort.paths, self.paths)):
            spent = float(self.rates @ sums)
            few = min(few, limit * self.total / spent) if spent else few
        return max(1, int(few))


@compiled
def _count_kinds(log: _Log, some: Ints, beyond: Floats) -> _Kinds:
    """Count the pairs of the users `some`.

    A training row counts as a pair that came true, with the paths that are left without it. Pairs are of one
    kind if their numbers of paths, and of people who have the item, are equal up to a factor of two.
    """
    scratch, of_items = _scratch(log), _kinds_of_items(log)
    led, paths, owner = scratch.led, scratch.paths, scratch.owner
    came, may = np.zeros(_KINDS, dtype=np.int64), np.zeros(_KINDS, dtype=np.int64)
    all_steps, all_paths = np.zeros(_KINDS), np.zeros(_KINDS)
    for u in some:
        for item in led[: _lead(log, u, scratch)]:
            people, count = log.item_starts[item + 1] - log.item_starts[item], paths[item]
            paths[item] = 0
            if owner[item] != u:
                kind = 64 * _powers(count) + of_items[item]
                may[kind] += 1
                all_steps[kind] += beyond[item]
                all_paths[kind] += count
            elif count > people - 1:  # as many of the paths end where they began: at the row itself
                came[64 * _powers(count - (people - 1)) + _powers(people - 1)] += 1
    return _Kinds(came, may, all_steps, all_paths)


@compiled
def _draw_pairs(
    log: _Log, some: Ints, rates: Floats, drawn: float, user_keys: Keys, item_keys: Keys
) -> tuple[Ints, Ints, Ints, Floats]:
    """Pairs of the users `some`: user, item, number of paths, and weight.

    If `drawn` is 0, all pairs of a positive rate, which is their weight. Else each pair is drawn `drawn`
    times its rate, rounded up or down by a lot of its own, and its weight is how often.
    """
    scratch, of_items = _scratch(log), _kinds_of_items(log)
    led, paths, owner = scratch.led, scratch.paths, scratch.owner
    users, items, counts = np.empty(_ROOM, np.int64), np.empty(_ROOM, np.int64), np.empty(_ROOM, np.int64)
    weights, found = np.empty(_ROOM), 0
    for u in some:
        for item in led[: _lead(log, u, scratch)][::-1]:
            count, paths[item] = paths[item], 0
            rate = 0.0 if owner[item] == u else rates[64 * _powers(count) + of_items[item]]
            weight = rate
            if drawn > 0 and rate > 0:
                lot = mixed_key(user_keys[u] + item_keys[item]) >> np.uint64(12)
                weight = np.floor(drawn * rate + lot * 2.0**-52)
            if weight > 0:
                if found == len(users):
                    users, items = np.append(users, users), np.append(items, items)
                    counts, weights = np.append(counts, counts), np.append(weights, weights)
                users[found], items[found], counts[found], weights[found] = u, item, count, weight
                found += 1
    return users[:found], items[:found], counts[:found], weights[:found]


@compiled
def _follow(log: _Log, users: Ints, items: Ints, n_paths: int) -> _Short:
    """The paths from `users[n]` to `items[n]`: their pair, their interactions a, b and c: [4, n_paths]."""
    row_of = np.full(len(log.item_starts) - 1, -1, dtype=np.int64)
    found, n = np.empty((4, n_paths), dtype=np.int32), 0
    for pair in range(len(users)):
        u, item = users[pair], items[pair]
        mine = slice(log.user_starts[u], log.user_starts[u + 1])
        row_of[log.user_items[mine]] = log.user_rows[mine]
        for there in range(log.item_starts[item], log.item_starts[item + 1]):
            v = log.item_users[there]
            for place in range(log.user_starts[v], log.user_starts[v + 1]):
                a = row_of[log.user_items[place]]
                if a >= 0:
                    found[0, n], found[1, n] = pair, a
                    found[2, n], found[3, n] = log.user_rows[place], log.item_rows[there]
                    n += 1
        row_of[log.user_items[mine]] = -1
    return found


@compiled
def _remaining(
    kept: Bools, pair: Indices, a: Indices, b: Indices, c: Indices
) -> tuple[Indices, Indices, Indices, Indices]:
    """The paths whose three interactions are all in `kept[Z]`: as given, if these are all paths."""
    left = 0
    for n in range(len(pair)):
        left += kept[a[n]] and kept[b[n]] and kept[c[n]]
    if left == len(pair):
        return pair, a, b, c
    pairs, first = np.empty(left, pair.dtype), np.empty(left, a.dtype)
    second, third = np.empty(left, b.dtype), np.empty(left, c.dtype)
    left = 0
    for n in range(len(pair)):
        if kept[a[n]] and kept[b[n]] and kept[c[n]]:
            pairs[left], first[left], second[left], third[left] = pair[n], a[n], b[n], c[n]
            left += 1
    return pairs, first, second, third


@compiled
def _sums_by_step(pair: Indices, step: Indices, shares: Floats, length: int) -> Floats:
    """The sum of `shares[M]` of the pairs of paths over equal values of `step[N]`: [length]."""
    found = np.zeros(length)
    for n in range(len(pair)):
        found[step[n]] += shares[pair[n]]
    return found


@compiled
def _squares_by_pair(pair: Indices, step: Indices, weights: Floats, counts: Ints, length: int) -> Floats:
    """Σ w (n_k / (1 + p))² over pairs, with n_k paths that have k as this step: [length]."""
    found, times = np.zeros(length), np.zeros(length, dtype=np.int32)
    start = 0
    while start < len(pair):
        here, end = pair[start], start
        while end < len(pair) and pair[end] == here:
            times[step[end]] += 1
            end += 1
        for k in step[start:end]:
            share = times[k] / (1 + counts[here])
            found[k] += weights[here] * (share * share)
            times[k] = 0
        start = end
    return found


@compiled
def _squares_by_user(
    owners: Ints, pair: Indices, steps: tuple[Indices, Indices, Indices], shares: Floats
) -> Floats:
    """Σ_u X_uk², where X_uk sums `shares[M]` of the paths of user u that have k as step b or c: [Z]."""
    found, sums = np.zeros(len(owners)), np.zeros(len(owners))
    a, b, c = steps
    start = 0
    while start < len(pair):
        end = start
        while end < len(pair) and owners[a[end]] == owners[a[start]]:
            end += 1
        for step in (b, c):
            for n in range(start, end):
                sums[step[n]] += shares[pair[n]]
        for step in (b, c):
            for k in step[start:end]:
                found[k] += sums[k] * sums[k]
                sums[k] = 0.0
        start = end
    return found
