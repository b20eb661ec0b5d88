"""Made-up logs: the paper's simulation, and one in which there is something to learn."""

from typing import Final, Literal, get_args

import numpy as np
import polars as pl
from scipy.special import expit

from assent.data.interactions import Interactions
from assent.data.unwillingness import PAPER_SENSITIVITY, Sensitivity, draw_features, simulated
from assent.support.arrays import Bools, Floats, Ints
from assent.support.errors import AssentError

Preference = Literal["paper", "learnable"]

FEWEST, MOST = 5, 20
"""How many items a user is shown: uniform between these."""
TASTE: Final = 15.0
"""How strongly the learnable setting shows items in the direction of a user's features (a cosine)."""
POPULARITY: Final = 1.5
"""Standard deviation of an item's popularity there, on the same scale."""
LAST: Final = 1e6
"""Taken from a score, this puts an item behind all others."""
BLOCK: Final = 2**22
"""How many pairs of users and items are scored at once: it bounds the memory."""


def simulate(
    *,
    preference: Preference,
    users: int = 1000,
    items: int = 1000,
    features: int = 4,
    eta: float = 0.5,
    noise: float = 0.2,
    sensitivity: Sensitivity = PAPER_SENSITIVITY,
    seed: int = 0,
) -> Interactions:
    """A made-up log, with unwillingness `simulated` from the same features e_u, e_v that drive taste.

    Each user is shown 5 to 20 items:

    - "paper": they are drawn uniformly, and the user interacts with those where σ(e_u · e_v) >= `eta`. What
      users meet is chance, so that a recommender finds next to nothing to learn. There is no `noise`.
    - "learnable": they are drawn with weights exp(TASTE · cos(e_u, e_v) + popularity_v), where those with
      σ(e_u · e_v) < `eta` come last, and the user interacts with all of them. A share `noise` are accidents,
      drawn uniformly from all items.

    Time counts the interactions of a user. The category of an item is the largest of its features.
    """
    _refuse_impossible(preference, users=users, items=items, features=features, eta=eta, noise=noise)
    user_ids, item_ids = _ids("u", users), _ids("i", items)
    e_u = draw_features(user_ids, "user", seed, features)
    e_v = draw_features(item_ids, "item", seed, features)
    rng = np.random.default_rng(seed)
    popularity = POPULARITY * rng.standard_normal(items)
    met = []
    for some in np.array_split(e_u, -(-users * items // BLOCK)):
        match = some @ e_v.T
        is_liked = expit(match) >= eta
        if preference == "paper":
            met.append(_met_by_chance(is_liked, rng))
        else:
            cosine = match / np.linalg.norm(some, axis=1)[:, None] / np.linalg.norm(e_v, axis=1)
            met.append(_met_by_taste(TASTE * cosine + popularity - LAST * ~is_liked, noise, rng))
    chosen = np.vstack(met)
    owners, slots = np.nonzero(chosen >= 0)
    if not len(owners):
        raise AssentError(
            f"simulation with eta {eta:g} has no interaction; accepted: a smaller eta or more users"
        )
    table = pl.DataFrame({"user": user_ids[owners], "item": item_ids[chosen[owners, slots]]})
    table = table.with_columns(time=pl.int_range(pl.len()).over("user").cast(pl.Float64))
    log = Interactions(f"simulated-{preference}", table, _items(item_ids, e_v))
    return log.with_unwillingness(simulated(log, seed, sensitivity=sensitivity, features=features))


def _met_by_chance(is_liked: Bools, rng: np.random.Generator) -> Ints:
    """The items that each user interacts with, [users, MOST] in order of time, -1 where there is none."""
    is_shown = _first(rng.integers(FEWEST, MOST, len(is_liked), endpoint=True))
    shown = _largest(rng.random(is_liked.shape))
    is_kept = is_shown & np.take_along_axis(is_liked, shown, axis=1)
    return np.where(is_kept, shown, -1)


def _met_by_taste(pull: Floats, noise: float, rng: np.random.Generator) -> Ints:
    """The same where the log-weights `pull` [users, items] draw users to items, but for accidents."""
    counts = rng.integers(FEWEST, MOST, len(pull), endpoint=True)
    accidents = _largest(rng.random(pull.shape))
    is_accident = _first(rng.binomial(counts, noise))
    # The largest of log-weights with Gumbel noise are a draw without replacement (Gumbel top-k).
    scores = pull + rng.gumbel(size=pull.shape)
    scores[np.nonzero(is_accident)[0], accidents[is_accident]] = np.inf
    shown = np.where(_first(counts), _largest(scores), -1)
    return rng.permuted(shown, axis=1)


def _first(counts: Ints) -> Bools:
    """Whether a slot is one of the first `counts` of its row, [len(counts), MOST]."""
    is_first: Bools = np.arange(MOST) < counts[:, None]
    return is_first


def _largest(scores: Floats) -> Ints:
    """The places of the MOST largest scores of each row, largest first."""
    places = np.argpartition(scores, -MOST, axis=1)[:, -MOST:]
    order = np.argsort(np.take_along_axis(scores, places, axis=1), axis=1)[:, ::-1]
    return np.take_along_axis(places, order, axis=1)


def _ids(letter: str, count: int) -> pl.Series:
    """Ids from 1 on, padded so that their order is that of the numbers."""
    width = len(str(count))
    return pl.Series([f"{letter}{number:0{width}}" for number in range(1, count + 1)])


def _items(ids: pl.Series, features: Floats) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "item": ids,
            "title": [f"item {number}" for number in range(1, len(ids) + 1)],
            "category": [[f"genre-{largest + 1}"] for largest in features.argmax(axis=1)],
        }
    )


def _refuse_impossible(
    preference: str, *, users: int, items: int, features: int, eta: float, noise: float
) -> None:
    accepted = {
        f"preference {preference!r}": (preference in get_args(Preference), " or ".join(get_args(Preference))),
        f"{users} users": (users >= 1, "1 or more"),
        f"{items} items": (items >= MOST, f"{MOST} or more"),
        f"{features} features": (features >= 1, "1 or more"),
        f"eta {eta:g}": (0 <= eta < 1, "from 0 to below 1"),
        f"noise {noise:g}": (0 <= noise <= 1, "from 0 to 1"),
    }
    for setting, (is_possible, what) in accepted.items():
        if not is_possible:
            raise AssentError(f"simulation with {setting}; accepted: {what}")
