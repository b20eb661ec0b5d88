"""What training may see: the disclosed rows, and nothing derived from withheld ones.

`disclose` drops the withheld rows before it computes anything. Vocabulary, order, negatives and early
stopping are functions of its result, so a withheld row cannot change the model.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assent.data.problem import Problem, Rows
from assent.support.arrays import Bools, Ints, Keys, Strings, below, mix, positions

_ATTEMPTS = 8
"""Draws per negative; the last one is kept even if it is a positive, for users with nearly every item."""


@dataclass(frozen=True)
class Disclosed:
    """Training input, in the indices of its own vocabulary."""

    user_ids: Strings  # sorted: [n_users]
    item_ids: Strings  # sorted: [n_items]
    rows: Rows  # the disclosed interactions
    row_keys: Keys  # hashes of the rows' ids: [len(rows)]
    valid: Rows  # the validation rows; index `n_users` or `n_items` is an unknown one
    valid_keys: Keys  # hashes of the validation rows' ids: [len(valid)]

    @cached_property
    def pairs(self) -> Ints:
        """The disclosed pairs as sorted numbers user · n_items + item: [len(rows)]."""
        return np.sort(self.rows.users * self.n_items + self.rows.items)

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
    drawn = below(keys, data.n_items)
    flat, flat_keys = drawn.reshape(-1), keys.reshape(-1)  # views
    places = np.arange(drawn.size) if len(data.pairs) else np.zeros(0, dtype=np.int64)
    for _ in range(_ATTEMPTS - 1):
        wanted = users[places // keys.shape[1]] * data.n_items + flat[places]
        found = data.pairs[np.minimum(np.searchsorted(data.pairs, wanted), len(data.pairs) - 1)] == wanted
        places = places[found]
        if not len(places):
            break
        flat_keys[places] = mix(flat_keys[places])
        flat[places] = below(flat_keys[places], data.n_items)
    return drawn


def _keys(problem: Problem, rows: Rows) -> Keys:
    """Return a hash of each row's user id and item id: [len(rows)]."""
    return mix(problem.user_keys[rows.users], problem.item_keys[rows.items])
