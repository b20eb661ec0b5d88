"""Simulated logs: the paper's simulation, and one with preferences that a recommender can learn."""

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
"""Number of items that a user is shown: uniform between these."""
TASTE: Final = 15.0
"""Weight of cos(e_u, e_v) in what the learnable simulation shows a user."""
POPULARITY: Final = 1.5
"""Standard deviation of an item's popularity, on the same scale."""
LAST: Final = 1e6
"""Subtracted from a score, this puts an item behind all others."""
BLOCK: Final = 2**22
"""Number of (user, item) pairs that are scored at once, to bound memory."""


def simulate(
    *,
    preference: Preference = "learnable",
    users: int = 1000,
    items: int = 1000,
    features: int = 4,
    eta: float = 0.5,
    noise: float = 0.2,
    sensitivity: Sensitivity = PAPER_SENSITIVITY,
    seed: int = 0,
) -> Interactions:
    """Simulate a log, with unwillingness `simulated` from the features e_u, e_v that also make preferences.

    Each user is shown 5 to 20 items:

    - "paper": they are drawn uniformly, and the user interacts with those where σ(e_u · e_v) >= `eta`. There
      is next to nothing to learn, since what users see is chance. `noise` is not used.
    - "learnable": they are drawn with weights exp(TASTE · cos(e_u, e_v) + popularity_v), where those with
      σ(e_u · e_v) < `eta` come last, and the user interacts with all of them. A share `noise` is drawn
      uniformly from all items instead.

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
        accepted = "a smaller eta or more users"
        raise AssentError(f"simulation with eta {eta:g} has no interaction; accepted: {accepted}")
    table = pl.DataFrame({"user": user_ids[owners], "item": item_ids[chosen[owners, slots]]})
    table = table.with_columns(time=pl.int_range(pl.len()).over("user").cast(pl.Float64))
    known = {
        "item": item_ids,
        "title": [f"item {number}" for number in range(1, items + 1)],
        "category": [[f"genre-{largest + 1}"] for largest in e_v.argmax(axis=1)],
    }
    log = Interactions(f"simulated-{preference}", table, pl.DataFrame(known))
    return log.with_unwillingness(simulated(log, seed, sensitivity=sensitivity, features=features))


def _met_by_chance(is_liked: Bools, rng: np.random.Generator) -> Ints:
    """The items that each user of "paper" interacts with, in order of time, padded with -1: [users, MOST]."""
    is_shown = _first(rng.integers(FEWEST, MOST, len(is_liked), endpoint=True))
    shown = _largest(rng.random(is_liked.shape))
    is_kept = is_shown & np.take_along_axis(is_liked, shown, axis=1)
    return np.where(is_kept, shown, -1)


def _met_by_taste(pull: Floats, noise: float, rng: np.random.Generator) -> Ints:
    """The items that each user of "learnable" interacts with, for log-weights `pull[users, items]`."""
    counts = rng.integers(FEWEST, MOST, len(pull), endpoint=True)
    accidents = _largest(rng.random(pull.shape))
    is_accident = _first(rng.binomial(counts, noise))
    # The largest log-weights with Gumbel noise are a draw without replacement (Gumbel top-k).
    scores = pull + rng.gumbel(size=pull.shape)
    scores[np.nonzero(is_accident)[0], accidents[is_accident]] = np.inf
    shown = np.where(_first(counts), _largest(scores), -1)
    return rng.permuted(shown, axis=1)


def _first(counts: Ints) -> Bools:
    """True for the first `counts[n]` slots of row n: [len(counts), MOST]."""
    is_first: Bools = np.arange(MOST) < counts[:, None]
    return is_first


def _largest(scores: Floats) -> Ints:
    """Indices of the MOST largest scores of each row, largest first."""
    places = np.argpartition(scores, -MOST, axis=1)[:, -MOST:]
    order = np.argsort(np.take_along_axis(scores, places, axis=1), axis=1)[:, ::-1]
    return np.take_along_axis(places, order, axis=1)


def _ids(letter: str, count: int) -> pl.Series:
    """Ids from 1 on, padded with zeros so that text and numbers have the same order."""
    width = len(str(count))
    return pl.Series([f"{letter}{number:0{width}}" for number in range(1, count + 1)])


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
