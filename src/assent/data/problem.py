"""A problem: a split log as integer arrays, with unwillingness and candidates. Methods start from it."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b

import numpy as np

from assent.data.wishes import PLAIN, Wishes
from assent.support.arrays import Bools, Floats, Ints, Strings
from assent.support.errors import AssentError
from assent.support.hashing import Keys, string_keys


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

    `user_ids` and `item_ids` are the sorted ids of all rows that are not "never". `unwillingness[len(train)]`
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
        digest = blake2b(f"{self.name}/{self.protocol}".encode(), digest_size=16)
        tests = () if self.test_candidates is None else (self.test_candidates,)
        for rows in (self.train, self.valid, self.test):
            digest.update(rows.users.tobytes() + rows.items.tobytes())
        for array in (self.user_ids, self.item_ids, self.unwillingness, self.valid_candidates, *tests):
            digest.update(array.tobytes())
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
