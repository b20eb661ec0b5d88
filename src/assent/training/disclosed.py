"""What training may see: the disclosed rows, and nothing derived from withheld ones.

`disclose` drops the withheld rows before it computes anything. Vocabulary, order, negatives and early
stopping are functions of its result, so a withheld row cannot change the model.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from assent.data.problem import Problem, Rows
from assent.support.arrays import Bools, Ints, Keys, Strings, hash_arrays, mix
from assent.support.compiled import grouped_twice
from assent.support.draws import Urn

_ATTEMPTS = 8
"""Draws per negative; the last one is kept even if it is a positive, for users with nearly every item."""


@dataclass(frozen=True)
class Disclosed:
    """Training input, in the indices of its own vocabulary."""

    user_ids: Strings  # sorted: [n_users]
    item_ids: Strings  # sorted: [n_items]
    user_keys: Keys  # hashes of the users' ids: [n_users]
    item_keys: Keys  # hashes of the items' ids: [n_items]
    rows: Rows  # the disclosed interactions
    row_keys: Keys  # hashes of the rows' ids: [len(rows)]
    valid: Rows  # the validation rows; index `n_users` or `n_items` is an unknown one
    valid_keys: Keys  # hashes of the validation rows' ids: [len(valid)]

    @cached_property
    def urn(self) -> Urn:
        """The items, to draw from."""
        return Urn.of(self.item_keys)

    @cached_property
    def owned(self) -> tuple[Ints, Ints]:
        """Where each user's items start, [n_users + 2] with the unknown user; their rising items, [rows]."""
        starts, order = grouped_twice(self.rows.users, self.rows.items, self.n_users + 1, self.n_items)
        return starts, self.rows.items[order]

    @cached_property
    def content(self) -> str:
        """A short name for all that a training may see: two that are equal have equal names."""
        rows = (self.rows.users, self.rows.items, self.valid.users, self.valid.items, self.valid_keys)
        ids = ("\0".join(each).encode() for each in (self.user_ids, self.item_ids))  # no id has a NUL
        return hash_arrays(*ids, *rows)

    def unjudged(self) -> "Disclosed":
        """Return the same without validation rows: nothing tells when to stop early."""
        return replace(self, valid=self.valid[:0], valid_keys=self.valid_keys[:0])

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)


def disclose(problem: Problem, selection: Bools, vocabulary: Bools | None = None) -> Disclosed:
    """Return the training input of the rows in `selection[len(train)]`.

    Its vocabulary is that of these rows, or of the rows in `vocabulary[len(train)]`: an anchor needs
    parameters for interactions that it was not trained on. A final model never gets a `vocabulary`.
    """
    defining = problem.train[selection if vocabulary is None else vocabulary]
    users, user_places = _known(defining.users, problem.n_users)
    items, item_places = _known(defining.items, problem.n_items)
    rows, valid = problem.train[selection], problem.valid
    return Disclosed(
        user_ids=problem.user_ids[users],
        item_ids=problem.item_ids[items],
        rows=Rows(user_places[rows.users], item_places[rows.items]),
        user_keys=problem.user_keys[users],
        item_keys=problem.item_keys[items],
        row_keys=problem.row_keys[selection],
        valid=Rows(user_places[valid.users], item_places[valid.items]),
        valid_keys=problem.keys_of(valid),
    )


def _known(index: Ints, length: int) -> tuple[Ints, Ints]:
    """The distinct values of `index[n]`, rising: [m]; the place of each in it, m if it has none: [length]."""
    known = np.flatnonzero(np.bincount(index, minlength=length))
    places = np.full(length, len(known))
    places[known] = np.arange(len(known))
    return known, places


def negatives(data: Disclosed, *, seed: int, epoch: int, count: int, rows: Ints | None = None) -> Ints:
    """Draw `count` items that the row's user has not disclosed, for each disclosed row or for `rows`.

    The result is [len(rows), count], uniform over the vocabulary. A row's draws are a function of the seed,
    the epoch and the row's ids alone. A withheld item is drawn like any item that the user never had.
    """
    some = slice(None) if rows is None else rows
    keys = mix(mix(seed, epoch), data.row_keys[some, None], np.arange(count))
    return _undisclosed(data, data.rows.users[some], keys)


def monitor_candidates(data: Disclosed, *, seed: int, count: int) -> Ints:
    """Draw `count` items that its user has not disclosed, for each validation row: [len(valid), count].

    The validation item itself may be drawn; it then ties with itself, for every model alike.
    """
    return _undisclosed(data, data.valid.users, mix(seed, data.valid_keys[:, None], np.arange(count)))


def _undisclosed(data: Disclosed, users: Ints, keys: Keys) -> Ints:
    """Draw an item per key, [n, count], that `users[n]` have not disclosed if there is one."""
    return data.urn.draw_other(keys, users, *data.owned, attempts=_ATTEMPTS)
