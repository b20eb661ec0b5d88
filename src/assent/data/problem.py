"""A problem: a split log as integer arrays, with unwillingness and candidates; how a log is split."""

import json
import warnings
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from assent.data.interactions import PARTS, Interactions
from assent.data.wishes import PLAIN, Wishes
from assent.support.arrays import Bools, Floats, Ints, Keys, Strings, hash_arrays, mix, string_keys
from assent.support.draws import Purpose, Urn
from assent.support.errors import AssentError

TRAIN, VALID, TEST = range(3)
NEEDED: Final = 3
"""Fewest rows of a user who has one in each part."""


class Protocol(StrEnum):
    """How a log is split and how test rows are ranked."""

    PAPER_TEXT = "paper-text"
    """70/10/20 per user in order of time; ranking over all items.

    The boundaries move with a user's number of rows, withheld ones included."""
    PAPER_TABLES = "paper-tables"
    """Leave-one-out (last = test, the one before = validation); 1 positive among 99 sampled negatives.

    Which rows are held out does not depend on how many others a user has."""
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
    `valid_candidates[len(valid), 1 + n]` holds each validation row's own item, then its n sampled negatives
    (`make_problem` says which): the samples of the loss L(T^u) in eq. 1. `test_candidates` is the same for
    test rows, or None if the protocol ranks all items.
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
    negatives: int = 99
    """Negatives of each held-out row that were asked for; rows have fewer where nobody has so many."""
    wishes: Wishes = PLAIN
    judges: Bools | None = None
    """Training rows, [len(train)], that are validation rows too; None: there is none (`data.live`)."""

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

    @cached_property
    def row_keys(self) -> Keys:
        """A key per training row, made of its user's and its item's ids: [len(train)]."""
        return self.keys_of(self.train)

    def keys_of(self, rows: Rows) -> Keys:
        """A key per row, made of its user's and its item's ids: [len(rows)]."""
        return mix(self.user_keys[rows.users], self.item_keys[rows.items])

    def valid_samples(self) -> Ints:
        """Number of validation samples |T^u| of each user: [n_users]."""
        return samples_of(self.valid, self.valid_candidates, self.n_users)

    def fingerprint(self) -> str:
        """Hash of this problem, the same on every machine."""
        named = json.dumps([self.name, self.protocol, self.negatives, self.rows_fingerprint]).encode()
        return hash_arrays(named + self.wishes.mark(), self.unwillingness)

    @cached_property
    def rows_fingerprint(self) -> str:
        """Hash of all rows and candidates: of the problem without its name and what people wish."""
        parts = [array for rows in (self.train, self.valid, self.test) for array in (rows.users, rows.items)]
        given = [each for each in (self.test_candidates, self.judges) if each is not None]
        return hash_arrays(
            f"{self.seed}".encode(), *parts, self.user_ids, self.item_ids, self.valid_candidates, *given
        )

    @property
    def measurable(self) -> Bools:
        """Training rows that models which measure something may be trained on: all that do not judge: [Z]."""
        return np.ones(len(self.train), dtype=np.bool_) if self.judges is None else ~self.judges

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

    Rows with equal or unknown times keep the order of the file. A user with two rows has none in training,
    one with a single row has it in training; `too_short` counts such users. So under leave-one-out a training
    row that goes moves no other row to another part.

    `seed` draws the `negatives` of each validation row, and of each test row if the protocol ranks those
    among sampled items. The draws of a row depend on the seed, its ids and the items of its user. If nobody
    has so many unseen items, rows get as many as the person with the most of them has. Who has fewer than
    others is ranked among theirs, each repeated to make up the number; who has every item, against the row's
    own item, a tie for every model alike. Each of these is told by a warning.
    """
    protocol = Protocol(protocol)
    kept = with_unwillingness(interactions)
    longest = kept.table.group_by("user").len()["len"].to_numpy().max(initial=0)
    if longest < NEEDED:
        accepted = f"at least one user with {NEEDED}, to train, validate and test on"
        nobody = f"no user has more than {longest} interactions that are not 'never'"
        raise AssentError(f"{kept.name}: {nobody}; accepted: {accepted}")
    place, count = pl.int_range(pl.len()).over("user"), pl.len().over("user").cast(pl.Int64)
    test = valid = pl.lit(1)
    if protocol is Protocol.PAPER_TEXT:  # 20 % and 10 %, halves rounded up, at least one
        test, valid = pl.max_horizontal((2 * count + 5) // 10, 1), pl.max_horizontal((count + 5) // 10, 1)
    is_train = (count - place > test + valid) | (count == 1)
    part = pl.when(is_train).then(TRAIN).when(count - place > test).then(VALID).otherwise(TEST)
    table = in_order(kept.table).with_columns(part=part)
    return build(kept.name, table, protocol, label=protocol.value, seed=seed, negatives=negatives)


def make_problem_from_parts(
    train: Interactions,
    valid: Interactions,
    test: Interactions,
    protocol: Protocol | str = Protocol.FULL,
    *,
    seed: int = 0,
    negatives: int = 99,
) -> Problem:
    """Make a problem of given parts, such as those of `parts_of`; `protocol` says how tests are ranked.

    `negatives` are drawn as by `make_problem`.
    """
    protocol = Protocol(protocol)
    kept = [with_unwillingness(part).table for part in (train, valid, test)]
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
    return build(train.name, in_order(table), protocol, label=label, seed=seed, negatives=negatives)


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


def with_unwillingness(interactions: Interactions) -> Interactions:
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


def too_short(interactions: Interactions) -> tuple[int, int]:
    """Numbers of users who are in training only, and who are not in training.

    The former have one row, the latter two.
    """
    rows = interactions.table.group_by("user").len()["len"]
    return int((rows == 1).sum()), int((rows == 2).sum())


def sample_unseen(users: Ints, keys: Keys, log: Rows, item_keys: Keys, count: int) -> Ints:
    """Sample `count` distinct items per key that `users[n]` have not in `log`: [len(users), count].

    Every order of such items is equally likely, and a function of `keys[n]`, the user's items and the keys of
    items. Where a user has fewer unseen items, those are repeated; where they have none, all are −1.
    """
    order = np.argsort(log.users, kind="stable")
    starts = np.searchsorted(log.users[order], np.arange(users.max(initial=-1) + 2))
    return Urn.of(item_keys).draw_distinct(keys, users, starts, log.items[order], count)


def in_order(table: pl.DataFrame) -> pl.DataFrame:
    """Sort rows by user, then time; ties and unknown times keep the order of the file."""
    return table.sort("user", "time", maintain_order=True)


def build(
    name: str, table: pl.DataFrame, protocol: Protocol, *, label: str, seed: int, negatives: int
) -> Problem:
    """Make the problem of a sorted table with the columns user, item, unwillingness and part."""
    (user_ids, users), (item_ids, items) = _indexed(table["user"]), _indexed(table["item"])
    log, part = Rows(users, items), table["part"].to_numpy()
    train, valid, test = (log[part == number] for number in (TRAIN, VALID, TEST))
    user_keys, item_keys = string_keys(user_ids), string_keys(item_ids)
    unseen = len(item_ids) - np.bincount(users)
    if len(test) and not unseen[test.users].any():
        nothing = "everybody has every item, so that there is none to rank theirs among"
        raise AssentError(f"{name}: {nothing}; accepted: a log with more items")
    count = _affordable(name, negatives, unseen[log[part != TRAIN].users])

    def candidates(rows: Rows, number: int) -> Ints:
        """Each row's own item, then items that its user has not had by then: later rows are not looked at."""
        own = mix(user_keys[rows.users], item_keys[rows.items])
        keys = mix(seed, Purpose.CANDIDATES, number, own)
        sampled = sample_unseen(rows.users, keys, log[part <= number], item_keys, count)
        rivals = np.where(sampled < 0, rows.items[:, None], sampled)
        return np.column_stack([rows.items, rivals])

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
        negatives=negatives,
    )


def _affordable(name: str, negatives: int, unseen: Ints) -> int:
    """The number of negatives of each held-out row, whose users have so many `unseen[n]` items.

    It is `negatives`, or the most that anybody has: nobody who has many items lowers it for others.
    """
    if negatives < 1:
        raise AssentError(f"{name}: negatives={negatives}; accepted: a whole number from 1 on")
    if not len(unseen):
        return negatives
    most = int(unseen.max())
    count = max(1, min(negatives, most))
    if count < negatives:
        only = f"nobody has more than {most} unseen items, so that rows are ranked among {count}"
        warnings.warn(f"{name}: negatives={negatives}, but {only}", stacklevel=4)
    if few := int((unseen < count).sum()):
        fewer = f"{few} of {len(unseen)} held-out rows are of people with fewer unseen items"
        repeated = f"these are repeated to make up {count}"
        warnings.warn(f"{name}: negatives={count}, but {fewer}: {repeated}", stacklevel=4)
    return count


def _indexed(ids: pl.Series) -> tuple[Strings, Ints]:
    """The sorted distinct ids, and the index of each row's id among them."""
    return ids.unique().sort().to_numpy().astype(np.str_), (ids.rank("dense") - 1).cast(pl.Int64).to_numpy()
