"""What an interaction's place among the others says: who else has the item, and whom that leads to.

A recommender carries knowledge from a user to an item, to others who have it, and to their items (`paths`).
These counts are what influence is expected to follow. More of each is never taken for a sign of less worth:
interactions with one item stand in for each other, so that of many each is worth little while all others
stay, though together they are worth most.
"""

import numpy as np

from assent.arrays import Floats, Ints, sum_by

FEATURES = ("shared", "others", "reached", "linked")


def features(users: Ints, items: Ints) -> Floats:
    """The `FEATURES` of rows (`users[Z]`, `items[Z]`), each log(1 + count): [Z, 4].

    shared   whether anybody else has the item (0 or 1, no logarithm)
    others   how many others have it
    reached  how many further interactions those others have: what one step from the item leads to
    linked   how many others share the user's other items: whom the item can be recommended to because of her
    """
    of_user, of_item = (np.bincount(each).astype(np.float64) for each in (users, items))
    others, history = of_item[items] - 1, of_user[users] - 1
    reached = sum_by(items, history, len(of_item))[items] - history
    linked = sum_by(users, others, len(of_user))[users] - others
    return np.stack([others > 0, np.log1p(others), np.log1p(reached), np.log1p(linked)], axis=1)
