"""Where unwillingness comes from: a column, a file, rules, or a draw.

A new source is a function from a `Request` to one Float64 series in [0, 1], and one entry of `_SOURCES`.
Draws are keyed by ids: a row keeps its unwillingness however the log is sorted, filtered or cut. They are
below 1: only a person can say "never".
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from scipy.special import expit, ndtri

from assent.data.formats import kind_of
from assent.data.interactions import Interactions
from assent.data.readers import read_pairs
from assent.data.rules import EVERYTHING_ELSE, FILES, UNWILLINGNESS, Quantity, once_each, read_rules
from assent.support.arrays import Floats, Keys, slices, string_keys, uniforms
from assent.support.errors import AssentError

COLUMN: Final = "unwillingness"
RESTS: Final = "own-mean, mean, or a number such as 0.5"
"""What `rest` accepts."""
_WEIGHT: Final = 2.0
"""Everybody's mean counts as much as so many of a person's own interactions."""
Sensitivity = tuple[float, float, float]
"""(a1, a2, a3) of `simulated`."""
PAPER_SENSITIVITY: Final[Sensitivity] = (0.5, 1.0, 1.0)
FEATURE_SPREAD: Final = 0.97
"""Standard deviation of a feature; with it the simulator matches the paper's numbers of interactions."""
_AT_ONCE: Final = 2**20
"""Rows whose features are drawn at once, to bound memory."""


@dataclass(frozen=True)
class Request:
    """What a source is asked for: the unwillingness of each row of `log`."""

    log: Interactions
    argument: str
    """What stands after the colon; empty if there is nothing."""
    seed: int
    """Of draws."""
    is_partial: bool
    """Whether rows about which the source says nothing are null; else they are an error."""


@dataclass(frozen=True)
class UnwillingnessSource:
    """A source of unwillingness, by the name before the colon."""

    forms: tuple[str, ...]
    """How it is written, with an example of what it takes after the colon."""
    help: str
    values: Callable[[Request], pl.Series]
    record: Callable[[str], str] = str
    """What a run's record keeps of the argument: no id of a person, no folder of the machine."""

    @property
    def name(self) -> str:
        """What stands before the colon."""
        return self.forms[0].partition(":")[0]

    def accepts(self, argument: str) -> bool:
        """Whether the source can be written with this argument, which may be empty."""
        return any((":" in form) == bool(argument) for form in self.forms)


def assign(interactions: Interactions, source: str, seed: int = 0, rest: str | None = None) -> Interactions:
    """Return the log with the unwillingness of `source`, one of `SOURCES`; `seed` is for draws.

    `rest`, one of `RESTS`, is for interactions about which the source says nothing; without it they are an
    error. The column `given` of the log is false for them.
    """
    kind, _, argument = source.partition(":")
    known = REGISTRY.get(kind)
    if known is None or not known.accepts(argument):
        raise AssentError(f"unwillingness {source!r}: not a source; accepted: {SOURCES}")
    values = known.values(Request(interactions, argument, seed, is_partial=bool(rest)))
    filled = fill_rest(interactions.table["user"], values, rest)
    return interactions.with_unwillingness(filled, values.is_not_null() if values.null_count() else None)


def for_the_record(source: str) -> str:
    """A source as a run's record keeps it: of a file its name, of rules by user their number and a hash."""
    kind, _, argument = source.partition(":")
    return f"{kind}:{REGISTRY[kind].record(argument)}" if kind in REGISTRY and argument else source


def default_source(interactions: Interactions) -> str:
    """The source to use if none is named: the log's own column if it has one, else a draw."""
    return "column" if COLUMN in interactions.table.columns else "random"


def fill_rest(users: pl.Series, values: pl.Series, rest: str | None) -> pl.Series:
    """Fill the nulls of `values[Z]`, the unwillingness of interactions of `users[Z]`, by `rest`.

    With m the mean of all given values, and Σ_u the sum of the n_u values that user u gave, `rest` is:
        own-mean   (Σ_u + 2 m) / (n_u + 2): a person's own mean, shrunk towards everybody's
        mean       m
        a number   that number
    None raises if there is a null: who said nothing of an interaction did not say "use it freely". Means are
    kept below 1: only a person can say "never".
    """
    if rest not in (None, "mean", "own-mean"):
        values = values.fill_null(Quantity("unwillingness", 1, RESTS).parse(rest, "rest"))
    if not values.null_count():
        return values
    if rest is None:
        count = values.null_count()
        raise AssentError(
            f"unwillingness: {count} interactions have none; accepted: one each, or rest={RESTS}"
        )
    everybody = values.mean()
    if not isinstance(everybody, float):
        raise AssentError(f"rest={rest!r}: nobody gave any unwillingness; accepted: a number")
    if rest == "mean":
        filled = values.fill_null(everybody)
    else:
        table = pl.DataFrame({"user": users, "value": values})
        given, total = pl.col("value").count().over("user"), pl.col("value").sum().over("user")
        own = (total + _WEIGHT * everybody) / (given + _WEIGHT)
        filled = table.select(pl.col("value").fill_null(own))["value"]
    below = pl.Series(np.minimum(filled.to_numpy(), np.nextafter(1.0, 0.0)))
    return values.zip_with(values.is_not_null(), below)


def _column(log: Interactions) -> pl.Series:
    if COLUMN not in log.table.columns:
        raise AssentError(f"{log.name}: no column {COLUMN!r}; accepted: that, or another source: {SOURCES}")
    return log.table[COLUMN]


def _constant(request: Request) -> pl.Series:
    value = UNWILLINGNESS.parse(request.argument, f"unwillingness 'constant:{request.argument}'")
    return pl.repeat(value, len(request.log), dtype=pl.Float64, eager=True)


def _file(request: Request) -> pl.Series:
    """Unwillingness from a file with the columns user, item and unwillingness, read like a log.

    A row with user * and item * is for all pairs that the file does not name. Pairs that are not in the log
    are ignored, with a warning.
    """
    pair, path, log = ["user", "item"], request.argument, request.log.table.select("user", "item")
    side = once_each(read_pairs(path), path)
    is_for_others = (side["user"] == EVERYTHING_ELSE) & (side["item"] == EVERYTHING_ELSE)
    otherwise, named = side.filter(is_for_others)[COLUMN], side.filter(~is_for_others)
    unknown = named.join(log, on=pair, how="anti", maintain_order="left")
    if unknown.height:
        about = f"ignored {unknown.height} pairs not in {request.log.name}, first {_pair(unknown)}"
        warnings.warn(f"{path}: {about}", stacklevel=3)
    values = log.join(named, on=pair, how="left", maintain_order="left")[COLUMN]
    if otherwise.len():
        return values.fill_null(otherwise.item())
    missing = log.filter(values.is_null())
    if missing.height and not request.is_partial:
        rows = f"{missing.height} of the {log.height} rows of {request.log.name}, first {_pair(missing)}"
        accepted = "one for each row, or a row *,*,VALUE for all others"
        raise AssentError(f"{path}: no unwillingness for {rows}; accepted: {accepted}")
    return values


def _category(request: Request) -> pl.Series:
    """Unwillingness by the item's category; an item of several categories takes the largest of theirs.

    If the rules are partial, an item with a category that has no rule is null.
    """
    rules, log = read_rules(request.argument, "category"), request.log
    items = log.table.select("item")
    category = pl.when(pl.col("category").list.len() > 0).then("category").alias("category")
    pairs = (
        items.unique(maintain_order=True)
        .join(log.items.select("item", category), on="item", how="left", maintain_order="left")
        .explode("category")
    )
    values = rules.apply(pairs["category"], "category", log.name)
    pairs = pairs.with_columns(values.alias(COLUMN))
    unruled = pairs.filter(pl.col(COLUMN).is_null())
    if unruled.height and not request.is_partial:
        item, name, _ = unruled.row(0)
        has = "no category" if name is None else f"category {name!r}, which has no rule"
        accepted = "a rule for it, or * for everything else"
        raise AssentError(f"{rules.origin}: item {item!r} has {has}; accepted: {accepted}")
    known = pl.col(COLUMN).null_count() == 0
    largest = pairs.group_by("item").agg(pl.when(known).then(pl.col(COLUMN).max()))
    return items.join(largest, on="item", how="left", maintain_order="left")[COLUMN]


def _user(request: Request) -> pl.Series:
    """Unwillingness by user, the same for all rows of one; null without a rule if the rules are partial."""
    rules, users = read_rules(request.argument, "user"), request.log.table["user"]
    values = rules.apply(users, "user", request.log.name)
    if values.null_count() and not request.is_partial:
        unruled = users.filter(values.is_null()).unique(maintain_order=True)
        whom = f"{len(unruled)} users of {request.log.name}, first {unruled[0]!r}"
        accepted = "a rule for each of them, or * for everyone else"
        raise AssentError(f"{rules.origin}: no rule for {whom}; accepted: {accepted}")
    return values


def _pair(rows: pl.DataFrame) -> str:
    return "user {!r}, item {!r}".format(*rows.row(0)[:2])


def _random(request: Request) -> pl.Series:
    users, items = request.log.table["user"], request.log.table["item"]
    return _draw(_keys(users, "user", request.seed) ^ _keys(items, "item", request.seed))


def _random_category(request: Request) -> pl.Series:
    """A uniform draw per user and category: people hide whole categories.

    An item counts under the first of its categories; an item without any is a category of its own.
    """
    users, items, seed = request.log.table["user"], request.log.table["item"], request.seed
    categories = request.log.categories_of(items)
    alone, shared = _keys(items, "item", seed), _keys(categories.fill_null(""), "category", seed)
    return _draw(_keys(users, "user", seed) ^ np.where(categories.is_null(), alone, shared))


def _simulated(request: Request) -> pl.Series:
    if not request.argument:
        return simulated(request.log, request.seed)
    try:
        low, high, spread = map(float, request.argument.split(","))
    except ValueError:
        accepted = "three numbers, simulated:a1,a2,a3"
        raise AssentError(f"unwillingness 'simulated:{request.argument}': accepted: {accepted}") from None
    return simulated(request.log, request.seed, sensitivity=(low, high, spread))


def simulated(
    interactions: Interactions, seed: int, *, sensitivity: Sensitivity = PAPER_SENSITIVITY, features: int = 4
) -> pl.Series:
    """The paper's simulation: β = σ(s_u · g(e_u, e_v) + b_u).

    With sensitivity (a1, a2, a3): s_u ~ U[a1, a2] is how much a user's unwillingness differs between items,
    b_u ~ N(0, a3) is its level, with standard deviation a3. g is one fully connected layer,
    w · [e_u, e_v] + c, with w and c standard normal; e_u and e_v are `draw_features` of the ids.
    """
    low, high, spread = sensitivity
    if not (0 <= low <= high < np.inf and 0 <= spread < np.inf):
        accepted = "a1,a2,a3 with 0 <= a1 <= a2, a3 >= 0"
        raise AssentError(f"sensitivity {low:g},{high:g},{spread:g}: accepted: {accepted}")
    users, items = interactions.table["user"], interactions.table["item"]
    layer = ndtri(uniforms(_keys(pl.Series(["g"]), "layer", seed), 2 * features + 1)[0])
    kinds = ((users, "sensitivity"), (users, "user features"), (items, "item features"))
    of_user, user_keys, item_keys = (_keys(ids, kind, seed) for ids, kind in kinds)
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
    return _features(_keys(ids, f"{kind} features", seed), features)


def _features(keys: Keys, features: int) -> Floats:
    """Normal features of keys: [len(keys), features]."""
    return FEATURE_SPREAD * np.asarray(ndtri(uniforms(keys, features)))


def _keys(ids: pl.Series, kind: str, seed: int) -> Keys:
    """A number per row that depends on (seed, kind, id) alone: on no other row, no process, no machine."""
    distinct = ids.unique()
    numbers = pl.Series(string_keys(f"{seed}/{kind}/{name}" for name in distinct))
    return ids.replace_strict(distinct, numbers, return_dtype=pl.UInt64).to_numpy()


def _draw(keys: Keys) -> pl.Series:
    return pl.Series(uniforms(keys, 1)[:, 0])


def _file_name(argument: str) -> str:
    """The name of a rules file without its folder; other text as it is."""
    return Path(argument).name if kind_of(argument) in FILES else argument


def _anonymous(argument: str) -> str:
    """The name of a rules file, or the number of rules by user with a hash that tells them from others."""
    if kind_of(argument) in FILES:
        return _file_name(argument)
    count, mark = argument.count(",") + 1, blake2b(argument.encode(), digest_size=4).hexdigest()
    return f" {count} rule{'' if count == 1 else 's'} ({mark})"


_CATEGORY = "rules by the item's category; of several categories the largest value counts"
_SOURCES: Final = (
    UnwillingnessSource(("column",), "the log's own column", lambda asked: _column(asked.log)),
    UnwillingnessSource(("constant:0.3",), "one value for every interaction", _constant),
    UnwillingnessSource(
        ("file:PATH",),
        "a file with the columns user, item and unwillingness",
        _file,
        lambda path: Path(path).name,
    ),
    UnwillingnessSource(("category:PATH", "category:Action=0.9,*=0.2"), _CATEGORY, _category, _file_name),
    UnwillingnessSource(("user:PATH", "user:ann=1,*=0"), "rules by user", _user, _anonymous),
    UnwillingnessSource(("random",), "a uniform draw per interaction, for experiments", _random),
    UnwillingnessSource(
        ("random-category",), "a uniform draw per user and category, for experiments", _random_category
    ),
    UnwillingnessSource(
        ("simulated", "simulated:0.5,1,1"), "the paper's simulation with a1,a2,a3", _simulated
    ),
)
REGISTRY: Final = {source.name: source for source in _SOURCES}
"""All sources by name."""
SOURCES: Final = ", ".join(form for source in REGISTRY.values() for form in source.forms)
"""How the sources are written, for messages and help."""
