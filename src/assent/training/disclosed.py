"""All that training may see: the disclosed rows, and nothing derived from any other training row.

Non-interference is had by construction. Ids, vocabulary, order, negatives and early stopping are functions of
a `Disclosed`, and `disclose` drops the withheld rows before it computes anything.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assent.data.problem import Problem, Rows
from assent.support.arrays import Bools, Ints, Strings, positions
from assent.support.hashing import Keys, below, mix

_ATTEMPTS = 8
"""Draws per negative; the last is kept even if it is a positive, for users who have nearly every item."""


@dataclass(frozen=True)
class Disclosed:
    """Training input in the indices of its own vocabulary.

    `user_ids` and `item_ids` are the sorted ids of the vocabulary; `rows` the disclosed interactions;
    `valid` the validation rows, where index `n_users` or `n_items` stands for an unknown one.
    `row_keys[len(rows)]` and `valid_keys[len(valid)]` hash the rows' ids.
    """

    user_ids: Strings
    item_ids: Strings
    rows: Rows
    row_keys: Keys
    valid: Rows
    valid_keys: Keys

    @cached_property
    def pairs(self) -> Ints:
        """The disclosed (user, item) pairs as sorted numbers user · n_items + item: [len(rows)]."""
        return np.sort(self.rows.users * self.n_items + self.rows.items)

    @property
    def n_users(self) -> int:
        """Users in the vocabulary."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Items in the vocabulary."""
        return len(self.item_ids)


def disclose(problem: Problem, selection: Bools, vocabulary: Bools | None = None) -> Disclosed:
    """Keep the training rows of `selection[len(train)]`.

    The vocabulary is that of the rows kept; with `vocabulary[len(train)]` that of those rows instead, so that
    an anchor has parameters for interactions that it was not trained on. A final model never asks for that.
    """
    defining = problem.train[selection if vocabulary is None else vocabulary]
    users, items = np.unique(defining.users), np.unique(defining.items)
    user_ids, item_ids = problem.user_ids[users], problem.item_ids[items]
    rows = problem.train[selection]
    valid = problem.valid
    return Disclosed(
        user_ids=user_ids,
        item_ids=item_ids,
        rows=Rows(positions(users, rows.users), positions(items, rows.items)),
        row_keys=_keys(problem, rows),
        valid=Rows(positions(users, valid.users), positions(items, valid.items)),
        valid_keys=_keys(problem, valid),
    )


def negatives(data: Disclosed, *, seed: int, epoch: int, count: int, rows: Ints | None = None) -> Ints:
    """`count` items for each disclosed row, [len(rows), count], that its user has not disclosed.

    With `rows`, for these disclosed rows alone. Uniform over the vocabulary. Each row owns its draws: they
    are a function of the seed, the epoch and the row's ids, so they leave with it. A withheld item is
    drawn like any other that the user never had.
    """
    some = slice(None) if rows is None else rows
    keys = mix(mix(seed, epoch), data.row_keys[some, None], np.arange(count))
    return _undisclosed(data, data.rows.users[some], keys)


def monitor_candidates(data: Disclosed, *, seed: int, count: int) -> Ints:
    """`count` items to rank each validation item among, [len(valid), count], that its user has not disclosed.

    The validation item itself may be among them and then ties with itself, which costs every model the same.
    """
    return _undisclosed(data, data.valid.users, mix(seed, data.valid_keys[:, None], np.arange(count)))


def _undisclosed(data: Disclosed, users: Ints, keys: Keys) -> Ints:
    """An item of the vocabulary per key, [n, count], that `users[n]` have not disclosed, if they lack any."""
    drawn = below(keys, data.n_items).ravel()
    if not len(data.pairs):
        return drawn.reshape(keys.shape)
    owners = np.repeat(users, keys.shape[1]) * data.n_items
    keys = keys.ravel()
    again = np.arange(len(drawn))
    for _ in range(_ATTEMPTS - 1):
        wanted = owners[again] + drawn[again]
        found = data.pairs[np.minimum(np.searchsorted(data.pairs, wanted), len(data.pairs) - 1)] == wanted
        again = again[found]
        if not len(again):
            break
        keys[again] = mix(keys[again])
        drawn[again] = below(keys[again], data.n_items)
    return drawn.reshape(len(users), -1)


def _keys(problem: Problem, rows: Rows) -> Keys:
    """A key per row, of its user's and its item's id: [len(rows)]."""
    return mix(problem.user_keys[rows.users], problem.item_keys[rows.items])
