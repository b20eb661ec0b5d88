"""Unwillingness where people gave none: stated for part of a history, it has to hold for the rest somehow.

Never silently 0: who said nothing of an interaction did not say "use it freely". Nor 1: only a person can say
"never".

Where unwillingness comes from: a column, a file, a rule, or a draw.

Each source is a function from a log to one Float64 series in [0, 1]; `assign` alone reads them from text.
Draws are keyed by ids instead of taken from a stream, so that a row keeps its unwillingness however the log
is sorted, filtered or cut. They are below 1: only a person can say "never".
"""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from scipy.special import expit, ndtri

from assent.data.interactions import Interactions
from assent.data.readers import read_interactions
from assent.data.rules import EVERYTHING_ELSE, Quantity, Rules, parse_unwillingness, read_rules
from assent.support.arrays import Floats
from assent.support.errors import AssentError
from assent.support.hashing import Keys, string_keys, uniforms

RESTS: Final = "own-mean, mean, or a number such as 0.5"
_WEIGHT: Final = 2.0
"""So many of her own interactions count as much as everybody's mean."""


def fill_rest(users: pl.Series, values: pl.Series, rest: str | None) -> pl.Series:
    """The unwillingness `values` of interactions of `users`, with `rest`, one of `RESTS`, where it is null.

    With m the mean of all that is given and Σ_u the sum of what user u gave for n_u interactions:
        own-mean   (Σ_u + 2 m) / (n_u + 2): her own mean, drawn towards everybody's where she gave little
        mean       m
    """
    if rest not in (None, "mean", "own-mean"):
        values = values.fill_null(Quantity("unwillingness", 1, RESTS).parse(rest, "--rest"))
    if not values.null_count():
        return values
    if rest is None:
        raise AssentError(
            f"unwillingness: {values.null_count()} interactions have none; accepted: one each, or --rest: "
            f"{RESTS}"
        )
    everybody = values.mean()
    if not isinstance(everybody, float):
        raise AssentError(
            f"--rest {rest}: nobody gave any unwillingness to take a mean of; accepted: a number"
        )
    if rest == "mean":
        filled = values.fill_null(everybody)
    else:
        table = pl.DataFrame({"user": users, "value": values})
        given, total = pl.col("value").count().over("user"), pl.col("value").sum().over("user")
        own = (total + _WEIGHT * everybody) / (given + _WEIGHT)
        filled = table.select(pl.col("value").fill_null(own))["value"]
    below = pl.Series(np.minimum(filled.to_numpy(), np.nextafter(1.0, 0.0)))
    return values.zip_with(values.is_not_null(), below)


COLUMN: Final = "unwillingness"
SOURCES: Final = (
    "column, constant:0.3, file:PATH, category:PATH, category:Action=0.9,*=0.2, user:PATH, user:ann=1,*=0, "
    "random, random-category, simulated, simulated:0.5,1,1"
)
Sensitivity = tuple[float, float, float]
"""(a1, a2, a3) of `simulated`."""
PAPER_SENSITIVITY: Final[Sensitivity] = (0.5, 1.0, 1.0)
FEATURE_SPREAD: Final = 0.97
"""Standard deviation of a feature; with it the simulator matches the paper's numbers of interactions."""


def assign(interactions: Interactions, source: str, seed: int, rest: str | None = None) -> Interactions:
    """The log with the unwillingness that `source`, one of `SOURCES`, gives it; `seed` is for the draws.

    `rest`, one of `RESTS`, is for interactions of which the source says nothing; without it that is an error.
    The log remembers which those are (`given`).
    """
    kind, _, argument = source.partition(":")
    match kind, argument:
        case "column", "":
            values = column(interactions)
        case "constant", _:
            values = constant(interactions, parse_unwillingness(argument, f"unwillingness {source!r}"))
        case "file", path if path:
            values = from_file(interactions, Path(path), is_partial=bool(rest))
        case "category", text if text:
            values = by_category(interactions, read_rules(text, "category"), is_partial=bool(rest))
        case "user", text if text:
            values = by_user(interactions, read_rules(text, "user"), is_partial=bool(rest))
        case "random", "":
            values = random(interactions, seed)
        case "random-category", "":
            values = random_category(interactions, seed)
        case "simulated", text:
            values = simulated(interactions, seed, sensitivity=_sensitivity(text, source))
        case _:
            raise AssentError(f"unwillingness {source!r}: not a source; accepted: {SOURCES}")
    filled = fill_rest(interactions.table["user"], values, rest)
    return interactions.with_unwillingness(filled, values.is_not_null() if values.null_count() else None)


def default_source(interactions: Interactions) -> str:
    """The source to use where none is named: the log's own column if it has one, else a draw."""
    return "column" if COLUMN in interactions.table.columns else "random"


def without_never(interactions: Interactions) -> tuple[Interactions, int]:
    """The log without the rows of unwillingness 1, and how many those were."""
    kept = interactions.table.filter(column(interactions) < 1.0)
    return replace(interactions, table=kept), len(interactions) - kept.height


def column(interactions: Interactions) -> pl.Series:
    """The unwillingness that the log itself carries."""
    if COLUMN not in interactions.table.columns:
        raise AssentError(
            f"{interactions.name}: no column {COLUMN!r}; accepted: that, or another source: {SOURCES}"
        )
    return interactions.table[COLUMN]


def constant(interactions: Interactions, value: float) -> pl.Series:
    """The same `value` for every row."""
    return pl.repeat(value, len(interactions), dtype=pl.Float64, eager=True)


def from_file(interactions: Interactions, path: Path, *, is_partial: bool = False) -> pl.Series:
    """Unwillingness from a file with the columns user, item and unwillingness, read like a log.

    A row with user * and item * speaks for all pairs that the file does not name. Pairs that are not in the
    log are ignored, with a warning. Where the file `is_partial`, all others are null.
    """
    pair = ["user", "item"]
    side = read_interactions(path).table
    if COLUMN not in side.columns:
        raise AssentError(f"{path}: no column {COLUMN!r}; accepted: the columns user, item and {COLUMN}")
    speaks_for_all = (side["user"] == EVERYTHING_ELSE) & (side["item"] == EVERYTHING_ELSE)
    otherwise, named = side.filter(speaks_for_all)[COLUMN], side.filter(~speaks_for_all)
    log = interactions.table.select(pair)
    unknown = named.join(log, on=pair, how="anti", maintain_order="left")
    if unknown.height:
        _warn(f"{path}: ignored {unknown.height} pairs not in {interactions.name}, first {_pair(unknown)}")
    values = log.join(named, on=pair, how="left", maintain_order="left")[COLUMN]
    if otherwise.len():
        return values.fill_null(otherwise.item())
    missing = log.filter(values.is_null())
    if missing.height and not is_partial:
        raise AssentError(
            f"{path}: no unwillingness for {missing.height} of the {log.height} rows of {interactions.name}, "
            f"first {_pair(missing)}; accepted: one for each row, or a row *,*,VALUE for all others"
        )
    return values


def by_category(interactions: Interactions, rules: Rules, *, is_partial: bool = False) -> pl.Series:
    """Unwillingness by the item's category; an item of several categories takes the largest of theirs.

    Where the rules are `is_partial`, an item with a category that has none is null.
    """
    items = interactions.table.select("item")
    category = pl.when(pl.col("category").list.len() > 0).then("category").alias("category")
    pairs = (
        items.unique(maintain_order=True)
        .join(interactions.items.select("item", category), on="item", how="left", maintain_order="left")
        .explode("category")
    )
    pairs = pairs.with_columns(_apply(rules, pairs["category"], "category").alias(COLUMN))
    unruled = pairs.filter(pl.col(COLUMN).is_null())
    if unruled.height and not is_partial:
        item, name, _ = unruled.row(0)
        has = "no category" if name is None else f"category {name!r}, which has no rule"
        raise AssentError(
            f"{rules.origin}: item {item!r} has {has}; accepted: a rule for it, or * for everything else"
        )
    known = pl.col(COLUMN).null_count() == 0
    largest = pairs.group_by("item").agg(pl.when(known).then(pl.col(COLUMN).max()))
    return items.join(largest, on="item", how="left", maintain_order="left")[COLUMN]


def by_user(interactions: Interactions, rules: Rules, *, is_partial: bool = False) -> pl.Series:
    """Unwillingness by user, the same for all rows of one; null for one without a rule if `is_partial`."""
    users = interactions.table["user"]
    values = _apply(rules, users, "user")
    if values.null_count() and not is_partial:
        unruled = users.filter(values.is_null()).unique(maintain_order=True)
        raise AssentError(
            f"{rules.origin}: no rule for {len(unruled)} users of {interactions.name}, first {unruled[0]!r}; "
            "accepted: a rule for each of them, or * for everyone else"
        )
    return values


def random(interactions: Interactions, seed: int) -> pl.Series:
    """A uniform draw per (user, item)."""
    users, items = interactions.table["user"], interactions.table["item"]
    return _draw(_keys(users, "user", seed) ^ _keys(items, "item", seed))


def random_category(interactions: Interactions, seed: int) -> pl.Series:
    """A uniform draw per user and category: people hide whole categories.

    An item counts under the first of its categories; one without any is a category of its own.
    """
    users, items = interactions.table["user"], interactions.table["item"]
    first = interactions.items.select("item", first=pl.col("category").list.first())
    categories = items.to_frame().join(first, on="item", how="left", maintain_order="left")["first"]
    if categories.null_count() == len(items):
        raise AssentError(
            f"{interactions.name}: no item has a category; accepted: a log whose items do, or random"
        )
    shared = np.where(
        categories.is_null(), _keys(items, "item", seed), _keys(categories.fill_null(""), "category", seed)
    )
    return _draw(_keys(users, "user", seed) ^ shared)


def simulated(
    interactions: Interactions,
    seed: int,
    *,
    sensitivity: Sensitivity = PAPER_SENSITIVITY,
    features: int = 4,
) -> pl.Series:
    """The paper's simulation: β = σ(s_u · g(e_u, e_v) + b_u).

    With sensitivity (a1, a2, a3): s_u ~ U[a1, a2] is how much a user's unwillingness differs between items
    and b_u ~ N(0, a3) is its level; a3 is taken as the standard deviation. g is one fully connected layer,
    w · [e_u, e_v] + c, with w and c standard normal; e_u and e_v are the `draw_features` of the ids.
    """
    low, high, spread = sensitivity
    if not (0 <= low <= high < np.inf and 0 <= spread < np.inf):
        raise AssentError(
            f"sensitivity {low:g},{high:g},{spread:g}: accepted: a1,a2,a3 with 0 <= a1 <= a2, a3 >= 0"
        )
    users, items = interactions.table["user"], interactions.table["item"]
    own = uniforms(_keys(users, "sensitivity", seed), 2)
    scale, level = low + (high - low) * own[:, 0], spread * ndtri(own[:, 1])
    layer = ndtri(uniforms(_keys(pl.Series(["g"]), "layer", seed), 2 * features + 1)[0])
    e_u, e_v = draw_features(users, "user", seed, features), draw_features(items, "item", seed, features)
    # Not a matrix product: its rounding would depend on the number of rows.
    g = (np.hstack([e_u, e_v]) * layer[:-1]).sum(axis=1) + layer[-1]
    # A large sensitivity saturates the logistic function, and 1 would mean "never".
    return pl.Series(np.minimum(expit(scale * g + level), np.nextafter(1.0, 0.0)))


def draw_features(ids: pl.Series, kind: str, seed: int, features: int) -> Floats:
    """Simulated features [len(ids), features] of "user" or "item" ids: normal with `FEATURE_SPREAD`."""
    return FEATURE_SPREAD * np.asarray(ndtri(uniforms(_keys(ids, f"{kind} features", seed), features)))


def _sensitivity(text: str, source: str) -> Sensitivity:
    if not text:
        return PAPER_SENSITIVITY
    try:
        low, high, spread = map(float, text.split(","))
    except ValueError:
        raise AssentError(f"unwillingness {source!r}: accepted: three numbers, simulated:a1,a2,a3") from None
    return low, high, spread


def _apply(rules: Rules, keys: pl.Series, kind: str) -> pl.Series:
    """The rule of each key, null where there is none."""
    unused = sorted(rules.values.keys() - set(keys))
    if unused:
        _warn(
            f"{rules.origin}: ignored {len(unused)} rules whose {kind} is not in the log, first {unused[0]!r}"
        )
    return keys.replace_strict(rules.values, default=rules.otherwise, return_dtype=pl.Float64)


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=4)


def _pair(rows: pl.DataFrame) -> str:
    return "user {!r}, item {!r}".format(*rows.row(0)[:2])


def _keys(ids: pl.Series, kind: str, seed: int) -> Keys:
    """A number per row that depends on (seed, kind, id) alone: on no other row, no process, no machine."""
    distinct = ids.unique()
    numbers = pl.Series(string_keys(f"{seed}/{kind}/{name}" for name in distinct))
    return ids.replace_strict(distinct, numbers, return_dtype=pl.UInt64).to_numpy()


def _draw(keys: Keys) -> pl.Series:
    return pl.Series(uniforms(keys, 1)[:, 0])
