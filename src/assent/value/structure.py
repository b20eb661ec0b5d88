"""What an interaction's place among the others says: who else has the item, and whom that leads to.

A recommender carries knowledge from a user to an item, to others who have it, and to their items. Of an item
that nobody else has, nothing leads on.
"""

import numpy as np

from assent.arrays import Bools, Floats, Ints

FEATURES = ("shared", "others", "reached", "history")
RISING: Bools = np.array([True, True, True, False])
"""Those that nothing is worth less for. Interactions with one item stand in for each other: of many, each is
worth little while all others stay, though together they are worth most. So that more people share an item is
never taken for a sign that it is worth less."""


def features(users: Ints, items: Ints) -> Floats:
    """The `FEATURES` of rows (`users[Z]`, `items[Z]`), each log(1 + count): [Z, 4].

    shared   whether anybody else has the item (0 or 1, no logarithm)
    others   how many others have it
    reached  how many further interactions those others have: what one step from the item leads to
    history  how many other interactions the user has
    """
    of_user, of_item = np.bincount(users), np.bincount(items)
    further = np.bincount(items, weights=of_user[users] - 1.0)
    others, history = of_item[items] - 1.0, of_user[users] - 1.0
    reached = further[items] - history
    return np.stack([others > 0, np.log1p(others), np.log1p(reached), np.log1p(history)], axis=1)
