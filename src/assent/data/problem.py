"""A problem: a split log as integer arrays, with unwillingness and candidates; how a log is split."""

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from typing import Final

import numpy as np
import polars as pl

from assent.data.interactions import PARTS, Interactions
from assent.data.wishes import PLAIN, Wishes
from assent.support.arrays import Bools, Floats, Ints, Keys, Strings, string_keys
from assent.support.errors import AssentError

TRAIN, VALID, TEST = range(3)
NEEDED: Final = 3
"""Fewest rows of a user who has one in each part."""


class Protocol(StrEnum):
    """How a log is split and how test rows are ranked."""

    PAPER_TEXT = "paper-text"
    """70/10/20 per user in order of time; ranking over all items."""
    PAPER_TABLES = "paper-tables"
    """Leave-one-out (last = test, the one before = validation); 1 positive among 99 sampled negatives."""
    FULL = "full"
    """Leave-one-out; ranking over all items."""

    @classmethod
    def _missing_(cls, value: object) -> "Protocol":
        raise AssentError(f"protocol {value!r}: unknown; accepted: {', '.join(cls)}")


@dataclass(frozen=True)
class Rows:
    """Interactions as indices: `users[n]` into `Problem.user_ids`, `items[n]` into `Problem.item_ids`."""

    users: Ints
    items: Ints

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, which: Bools | Ints | slice) -> "Rows":
        """The rows of a mask, an index array or a slice."""
        return Rows(self.users[which], self.items[which])


@dataclass(frozen=True)
class Problem:
    """A split log: the input of every method.

    `user_ids` and `item_ids` are the sorted ids of all rows. `unwillingness[len(train)]`
    is that of the training rows, which are sorted by user and, within a user, by time.
    `valid_candidates[len(valid), 1 + n]` holds each validation row's own item, then its n sampled negatives:
    the samples of the loss L(T^u) in eq. 1. `test_candidates` is the same for test rows, or None if the
    protocol ranks all items.
    """

    name: str
    protocol: str
    seed: int
    user_ids: Strings
    item_ids: Strings
    train: Rows
    valid: Rows
    test: Rows
    unwillingness: Floats
    valid_candidates: Ints
    test_candidates: Ints | None
    wishes: Wishes = PLAIN

    def __post_init__(self) -> None:
        if not ((self.unwillingness >= 0) & (self.unwillingness < 1)).all():
            raise AssentError(
                f"{self.name}: unwillingness of a training row is not a number from 0 to below 1; "
                "accepted: from 0 to below 1 (rows of 1 are not trained on)"
            )
        self.wishes.check(self.train.users, self.n_users)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @cached_property
    def user_keys(self) -> Keys:
        """A key per user, made of the id alone: [n_users]."""
        return string_keys(self.user_ids)

    @cached_property
    def item_keys(self) -> Keys:
        """A key per item, made of the id alone: [n_items]."""
        return string_keys(self.item_ids)

    def valid_samples(self) -> Ints:
        """Number of validation samples |T^u| of each user: [n_users]."""
        return samples_of(self.valid, self.valid_candidates, self.n_users)

    def fingerprint(self) -> str:
        """Hash of this problem, the same on every machine."""
        digest = blake2b(json.dumps([self.name, self.protocol, self.seed]).encode(), digest_size=16)
        parts = [array for rows in (self.train, self.valid, self.test) for array in (rows.users, rows.items)]
        tests = [] if self.test_candidates is None else [self.test_candidates]
        rest = [self.user_ids, self.item_ids, self.unwillingness, self.valid_candidates, *tests]
        for array in (*parts, *rest):
            digest.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
        digest.update(self.wishes.mark())
        return digest.hexdigest()

    def violation(self, selection: Bools | None = None) -> float:
        """Mean over users of the unwillingness that a selection discloses (the paper's wv); None is all."""
        disclosed = self.unwillingness if selection is None else self.unwillingness[selection]
        return float(disclosed.sum()) / self.n_users


def samples_of(rows: Rows, candidates: Ints, n_users: int) -> Ints:
    """Number of samples of each user: m for each of their `rows[n]` with `candidates[n, m]`: [n_users]."""
    samples: Ints = candidates.shape[1] * np.bincount(rows.users, minlength=n_users)
    return samples


def make_problem(
    interactions: Interactions, protocol: Protocol | str, *, seed: int = 0, negatives: int = 99
) -> Problem:
    """Split a log that has unwillingness, by `protocol`.

    A user with fewer than three rows has all of them in training; `too_short` counts such users. `seed` draws
    the `negatives` of each validation row, and of each test row if the protocol ranks those among sampled
    items.
    """
    protocol = Protocol(protocol)
    kept = _minded(interactions)
    longest = kept.table.group_by("user").len()["len"].to_numpy().max(initial=0)
    if longest < NEEDED:
        accepted = f"at least one user with {NEEDED}, to train, validate and test on"
        nobody = f"no user has more than {longest} interactions that are not 'never'"
        raise AssentError(f"{kept.name}: {nobody}; accepted: {accepted}")
    place, count = pl.int_range(pl.len()).over("user"), pl.len().over("user").cast(pl.Int64)
    test = valid = pl.lit(1)
    if protocol is Protocol.PAPER_TEXT:  # 20 % and 10 %, halves rounded up, at least one
        test, valid = pl.max_horizontal((2 * count + 5) // 10, 1), pl.max_horizontal((count + 5) // 10, 1)
    is_train = (count - place > test + valid) | (count < NEEDED)
    part = pl.when(is_train).then(TRAIN).when(count - place > test).then(VALID).otherwise(TEST)
    table = _in_order(kept.table).with_columns(part=part)
    return _build(kept.name, table, protocol, label=protocol.value, seed=seed, negatives=negatives)


def make_problem_from_parts(
    train: Interactions,
    valid: Interactions,
    test: Interactions,
    protocol: Protocol | str = Protocol.FULL,
    *,
    seed: int = 0,
    negatives: int = 99,
) -> Problem:
    """Make a problem of given parts, such as those of `parts_of`; `protocol` says how tests are ranked."""
    protocol = Protocol(protocol)
    kept = [_minded(part).table for part in (train, valid, test)]
    for name, rows in zip(PARTS, kept, strict=True):
        if rows.is_empty():
            raise AssentError(f"{train.name}: no {name} row that is not 'never'; accepted: at least one")
    columns = ["user", "item", "time", "unwillingness"]
    table = pl.concat(rows.select(columns).with_columns(part=part) for part, rows in enumerate(kept))
    repeated = table.filter(table.select("user", "item").is_duplicated())
    if repeated.height:
        user, item = repeated.row(0)[:2]
        first, second = (PARTS[part] for part in repeated.filter(user=user, item=item)["part"].head(2))
        both = f"user {user!r}, item {item!r} is in {first} and in {second}"
        raise AssentError(f"{train.name}: {both}; accepted: each pair in one part only")
    label = f"given, {protocol}"
    return _build(train.name, _in_order(table), protocol, label=label, seed=seed, negatives=negatives)


def parts_of(interactions: Interactions) -> tuple[Interactions, Interactions, Interactions]:
    """Cut a log into train, valid and test rows by its column `split`."""
    accepted = ", ".join(PARTS)
    if "split" not in interactions.table.columns:
        raise AssentError(f"{interactions.name}: no column 'split'; accepted: one that holds {accepted}")
    split = interactions.table["split"]
    wrong = (~split.is_in(PARTS)).fill_null(True).arg_true()
    if len(wrong):
        place = f"{interactions.name}: row {wrong[0] + 1}, column 'split'"
        raise AssentError(f"{place} is {split[wrong[0]]!r}; accepted: {accepted}")
    train, valid, test = (
        replace(interactions, table=interactions.table.filter(split == part).drop("split")) for part in PARTS
    )
    return train, valid, test


def too_short(interactions: Interactions) -> int:
    """Number of users in training only: they have one or two rows."""
    return int((interactions.table.group_by("user").len()["len"] < NEEDED).sum())


def _minded(interactions: Interactions) -> Interactions:
    """Return a log whose rows all have unwillingness; any other is an error: no consent is invented."""
    from assent.data.unwillingness import SOURCES  # sources read rules, and rules are about problems

    name, table = interactions.name, interactions.table
    if "unwillingness" not in table.columns:
        accepted = f"a log that is read with unwillingness=SOURCE, one of: {SOURCES}"
        raise AssentError(f"{name}: no unwillingness is given; accepted: {accepted}")
    if missing := table["unwillingness"].null_count():
        accepted = "one each, or a log that is read with rest=RULE"
        raise AssentError(f"{name}: {missing} interactions have no unwillingness; accepted: {accepted}")
    return interactions


def sample_unseen(users: Ints, log: Rows, n_items: int, count: int, rng: np.random.Generator) -> Ints:
    """Sample `count` distinct items per entry of `users` that the user has not in `log`: [len(users), count].

    Every set of such items is equally likely. Each user must have at least `count` of them.
    """
    order = np.lexsort((log.items, log.users))
    owners, seen = log.users[order], log.items[order]
    start = np.searchsorted(owners, users)
    unseen = n_items - (np.searchsorted(owners, users, side="right") - start)
    places = np.empty((count, len(users)), dtype=np.int64)
    # Floyd's algorithm for all users at once, among the places 0 .. unseen - 1 of the unseen items.
    for step in range(count):
        last = unseen - count + step
        place = rng.integers(last + 1)
        places[step] = np.where((places[:step] == place).any(axis=0), last, place)
    # The item at a place is the place plus the number of seen items before it. The i-th seen item s_i comes
    # before the item at `place` iff s_i - i <= place, and s_i - i never falls within a user.
    nth = np.arange(len(owners)) - np.searchsorted(owners, owners)
    before = np.searchsorted(owners * n_items + seen - nth, users * n_items + places, side="right") - start
    return (places + before).T


def _in_order(table: pl.DataFrame) -> pl.DataFrame:
    """Sort rows by user, then time; ties and unknown times keep the order of the file."""
    return table.sort("user", "time", maintain_order=True)


def _build(
    name: str, table: pl.DataFrame, protocol: Protocol, *, label: str, seed: int, negatives: int
) -> Problem:
    """Make the problem of a sorted table with the columns user, item, unwillingness and part."""
    (user_ids, users), (item_ids, items) = _indexed(table["user"]), _indexed(table["item"])
    log, part = Rows(users, items), table["part"].to_numpy()
    train, valid, test = (log[part == number] for number in (TRAIN, VALID, TEST))

    def candidates(rows: Rows, number: int) -> Ints:
        """Each row's own item, then items that its user has not had by then: later rows are not looked at."""
        most = (len(item_ids) - np.bincount(users)[rows.users]).min()
        if not 1 <= negatives <= most:
            accepted = f"from 1 to {most}" if most else "a log with more items"
            too_many = f"negatives={negatives}, and some user has only {most} unseen items"
            raise AssentError(f"{name}: {too_many}; accepted: {accepted}")
        past, rng = log[part <= number], np.random.default_rng([seed, number])
        return np.column_stack([rows.items, sample_unseen(rows.users, past, len(item_ids), negatives, rng)])

    return Problem(
        name=name,
        protocol=label,
        seed=seed,
        user_ids=user_ids,
        item_ids=item_ids,
        train=train,
        valid=valid,
        test=test,
        unwillingness=table["unwillingness"].to_numpy()[part == TRAIN],
        valid_candidates=candidates(valid, VALID),
        test_candidates=candidates(test, TEST) if protocol is Protocol.PAPER_TABLES else None,
    )


def _indexed(ids: pl.Series) -> tuple[Strings, Ints]:
    """The sorted distinct ids, and the index of each row's id among them."""
    return ids.unique().sort().to_numpy().astype(np.str_), (ids.rank("dense") - 1).cast(pl.Int64).to_numpy()
