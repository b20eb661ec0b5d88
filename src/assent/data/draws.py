"""Draws that are keyed by ids, and the paper's simulation of unwillingness."""

from typing import Final

import numpy as np
import polars as pl
from scipy.special import expit, ndtri

from assent.support.arrays import Floats, Keys, slices, string_keys, uniforms
from assent.support.errors import AssentError

Sensitivity = tuple[float, float, float]
"""(a1, a2, a3) of `simulated`."""
PAPER_SENSITIVITY: Final[Sensitivity] = (0.5, 1.0, 1.0)
FEATURE_SPREAD: Final = 0.97
"""Standard deviation of a feature; with it the simulator matches the paper's numbers of interactions."""
_AT_ONCE: Final = 2**20
"""Rows whose features are drawn at once, to bound memory."""


def simulated(
    users: pl.Series,
    items: pl.Series,
    seed: int,
    *,
    sensitivity: Sensitivity = PAPER_SENSITIVITY,
    features: int = 4,
) -> pl.Series:
    """The paper's simulation for n pairs of user and item: β = σ(s_u · g(e_u, e_v) + b_u): [n]

    With sensitivity (a1, a2, a3): s_u ~ U[a1, a2] is how much a user's unwillingness differs between items,
    b_u ~ N(0, a3) is its level, with standard deviation a3. g is one fully connected layer,
    w · [e_u, e_v] + c, with w and c standard normal; e_u and e_v are `draw_features` of the ids.
    """
    low, high, spread = sensitivity
    if not (0 <= low <= high < np.inf and 0 <= spread < np.inf):
        accepted = "a1,a2,a3 with 0 <= a1 <= a2, a3 >= 0"
        raise AssentError(f"sensitivity {low:g},{high:g},{spread:g}: accepted: {accepted}")
    layer = ndtri(uniforms(keys_of(pl.Series(["g"]), "layer", seed), 2 * features + 1)[0])
    kinds = ((users, "sensitivity"), (users, "user features"), (items, "item features"))
    of_user, user_keys, item_keys = (keys_of(ids, kind, seed) for ids, kind in kinds)
    found = np.empty(len(users))
    for rows in slices(len(users), _AT_ONCE):
        own = uniforms(of_user[rows], 2)
        scale, level = low + (high - low) * own[:, 0], spread * ndtri(own[:, 1])
        e_u, e_v = (_features(keys[rows], features) for keys in (user_keys, item_keys))
        # Not a matrix product: its rounding would depend on the number of rows.
        g = (np.hstack([e_u, e_v]) * layer[:-1]).sum(axis=1) + layer[-1]
        # A large sensitivity saturates the logistic function, and 1 would mean "never".
        found[rows] = np.minimum(expit(scale * g + level), np.nextafter(1.0, 0.0))
    return pl.Series(found)


def draw_features(ids: pl.Series, kind: str, seed: int, features: int) -> Floats:
    """Draw normal features of ids of a `kind`, "user" or "item": [len(ids), features]."""
    return _features(keys_of(ids, f"{kind} features", seed), features)


def _features(keys: Keys, features: int) -> Floats:
    """Normal features of keys: [len(keys), features]."""
    return FEATURE_SPREAD * np.asarray(ndtri(uniforms(keys, features)))


def keys_of(ids: pl.Series, kind: str, seed: int) -> Keys:
    """A number per row that depends on (seed, kind, id) alone: on no other row, no process, no machine."""
    distinct = ids.unique()
    numbers = pl.Series(string_keys(f"{seed}/{kind}/{name}" for name in distinct))
    return ids.replace_strict(distinct, numbers, return_dtype=pl.UInt64).to_numpy()
