"""Simulated logs: the paper's simulation, and one with preferences that a recommender can learn.

Without `rows`, every pair of user and item is scored. With `rows`, logs may be large: time and memory are
linear in the rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count, pairwise
from typing import Final, Literal, get_args

import numpy as np
import polars as pl
from scipy.special import expit

from assent.data.draws import PAPER_SENSITIVITY, Sensitivity, draw_features, simulated
from assent.data.interactions import Interactions
from assent.support.arrays import Bools, Floats, Ints, mix, slices, uniform, uniforms
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
ACTIVITY: Final = 1.2
"""With `rows`: standard deviation of the logarithm of how much a user does beyond FEWEST."""
CELLS: Final = 512
"""With `rows`: most cells of items with about the same taste."""
ATTEMPTS: Final = 16
"""With `rows`: most draws by taste for a slot, if they are repeated or not liked. Then as many times any item
is drawn that is liked, and then any item."""


def simulate(
    *,
    preference: Preference = "learnable",
    users: int = 1000,
    items: int = 1000,
    features: int = 4,
    eta: float = 0.5,
    noise: float = 0.2,
    sensitivity: Sensitivity = PAPER_SENSITIVITY,
    rows: int | None = None,
    seed: int = 0,
) -> Interactions:
    """Simulate a log, with unwillingness `simulated` from the features e_u, e_v that also make preferences.

    Each user is shown 5 to 20 items; with `rows`, 5 or more, of a heavy-tailed distribution, and exactly
    `rows` in all:

    - "paper": they are drawn uniformly, and the user interacts with those where σ(e_u · e_v) >= `eta`. There
      is next to nothing to learn, since what users see is chance. `noise` is not used.
    - "learnable": they are drawn with weights exp(TASTE · cos(e_u, e_v) + popularity_v), where those with
      σ(e_u · e_v) < `eta` come last, and the user interacts with all of them. A share `noise` is drawn
      uniformly from all items instead. With `rows`, cos(e_u, e_v) is taken at the centre of the cell of
      items around v, so that a draw costs the same whatever the number of items.

    Time counts the interactions of a user. The category of an item is the largest of its features.
    """
    how = _How(preference, users, items, features, eta, noise, sensitivity, rows, seed)
    met = how.met_by_score() if rows is None else how.met_by_cell(slice(0, users))
    if not len(met[0]):
        accepted = "a smaller eta or more users"
        raise AssentError(f"simulation with eta {eta:g} has no interaction; accepted: {accepted}")
    return how.log(*met)


def simulate_parts(
    parts: int,
    *,
    users: int,
    items: int,
    rows: int,
    features: int = 4,
    eta: float = 0.5,
    noise: float = 0.2,
    sensitivity: Sensitivity = PAPER_SENSITIVITY,
    seed: int = 0,
) -> Iterator[Interactions]:
    """Simulate the log of `simulate` with `rows`, in parts of whole users and about equally many rows.

    One part is in memory at a time. Together they have the rows of the log that is not cut.
    """
    how = _How("learnable", users, items, features, eta, noise, sensitivity, rows, seed)
    if not 1 <= parts <= users:
        raise AssentError(f"{parts} parts of {users} users; accepted: from 1 to {users}")
    ends = np.cumsum(how.counts)
    inner = np.searchsorted(ends, np.linspace(0, rows, parts + 1)[1:-1]) + 1
    cuts = np.maximum.accumulate([0, *inner, users])
    for start, end in pairwise(cuts.tolist()):
        if start < end:
            yield how.log(*how.met_by_cell(slice(start, end)))


class _Cells:
    """Items in cells of about the same direction of e_v, to be drawn by popularity within a cell."""

    def __init__(self, e_v: Floats, popularity: Floats) -> None:
        self.features, direction = e_v, _direction(e_v)
        # Features are independent between items, so that the first items are a random choice of centres.
        self.centres = direction[: max(1, min(CELLS, len(e_v) // MOST))]
        cell = np.concatenate(
            [_products(direction[some], self.centres).argmax(axis=1) for some in slices(len(e_v), 2**12)]
        )
        self.order = np.argsort(cell, kind="stable")
        self.starts = np.searchsorted(cell[self.order], np.arange(len(self.centres) + 1))
        self.sums = np.concatenate([[0.0], np.cumsum(np.exp(popularity[self.order]))])
        """[items + 1], cumulative weights of the items in order of their cells."""

    def chances(self, e_u: Floats) -> Ints:
        """Cumulative chances of the cells out of 2³², plus n · 2³² for user n: [users · cells], rising.

        They are integers, so that rounding does not depend on n.
        """
        weights = np.exp(TASTE * (_products(_direction(e_u), self.centres) - 1))
        sums = np.cumsum(weights * np.diff(self.sums[self.starts]), axis=1)
        chances = np.rint(2.0**32 * (sums / sums[:, -1:])).astype(np.int64)
        return np.ravel(chances + (np.arange(len(e_u)) << 32)[:, None])

    def draw(self, chances: Ints, users: Ints, lots: Floats) -> Ints:
        """One item for each of `users[n]`, with `chances` and random numbers `lots[n, 2]`: [n]."""
        drawn = (users << 32) + (2.0**32 * lots[:, 0]).astype(np.int64)
        cell = np.searchsorted(chances, drawn, side="right") - users * len(self.centres)
        first, end = self.starts[cell], self.starts[cell + 1]
        low, high = self.sums[first], self.sums[end]
        place = np.searchsorted(self.sums, low + lots[:, 1] * (high - low), side="right") - 1
        items: Ints = self.order[np.clip(place, first, end - 1)]
        return items


@dataclass(frozen=True)
class _How:
    """What is simulated, and what its parts have in common."""

    preference: Preference
    users: int
    items: int
    features: int
    eta: float
    noise: float
    sensitivity: Sensitivity
    rows: int | None
    seed: int

    def __post_init__(self) -> None:
        _refuse_impossible(
            self.preference,
            users=self.users,
            items=self.items,
            features=self.features,
            eta=self.eta,
            noise=self.noise,
            rows=self.rows,
        )

    @cached_property
    def user_ids(self) -> pl.Series:
        return _ids("u", self.users)

    @cached_property
    def item_ids(self) -> pl.Series:
        return _ids("i", self.items)

    @cached_property
    def e_v(self) -> Floats:
        return draw_features(self.item_ids, "item", self.seed, self.features)

    @cached_property
    def _drawn(self) -> tuple[Floats, np.random.Generator]:
        """The popularity of items, and the generator that comes after it."""
        rng = np.random.default_rng(self.seed)
        return POPULARITY * rng.standard_normal(self.items), rng

    @cached_property
    def counts(self) -> Ints:
        """With `rows`: how many interactions each user has."""
        assert self.rows is not None
        return _activity(self.users, self.items, self.rows, self._drawn[1])

    @cached_property
    def _cells(self) -> _Cells:
        return _Cells(self.e_v, self._drawn[0])

    def met_by_score(self) -> tuple[Ints, Ints]:
        """The user and the item of each interaction, by scores of all pairs: [rows] each."""
        e_u = draw_features(self.user_ids, "user", self.seed, self.features)
        popularity, rng = self._drawn
        return _met_by_score(
            self.preference, e_u, self.e_v, popularity, eta=self.eta, noise=self.noise, rng=rng
        )

    def met_by_cell(self, some: slice) -> tuple[Ints, Ints]:
        """The user and the item of each interaction of some users, by cells of items: [rows] each."""
        e_u = draw_features(self.user_ids[some], "user", self.seed, self.features)
        counts, first = self.counts[some], int(self.counts[: some.start].sum())
        owners = np.repeat(np.arange(some.start, some.stop), counts)
        about = {"eta": self.eta, "noise": self.noise}
        return owners, _met_by_cell(counts, e_u, self._cells, first=first, seed=self.seed, **about)

    def log(self, owners: Ints, chosen: Ints) -> Interactions:
        """The log of these interactions."""
        table = pl.DataFrame({"user": self.user_ids[owners], "item": self.item_ids[chosen]})
        table = table.with_columns(time=pl.int_range(pl.len()).over("user").cast(pl.Float64))
        known = {
            "item": self.item_ids,
            "title": [f"item {number}" for number in range(1, self.items + 1)],
            "category": [[f"genre-{largest + 1}"] for largest in self.e_v.argmax(axis=1)],
        }
        log = Interactions(f"simulated-{self.preference}", table, pl.DataFrame(known))
        minded = simulated(
            table["user"], table["item"], self.seed, sensitivity=self.sensitivity, features=self.features
        )
        return log.with_unwillingness(minded, "simulated:{:g},{:g},{:g}".format(*self.sensitivity))


def _met_by_score(
    preference: Preference,
    e_u: Floats,
    e_v: Floats,
    popularity: Floats,
    *,
    eta: float,
    noise: float,
    rng: np.random.Generator,
) -> tuple[Ints, Ints]:
    """The user and the item of each interaction, by scores of all pairs: [rows] each."""
    met = []
    for some in np.array_split(e_u, -(-len(e_u) * len(e_v) // BLOCK)):
        match = some @ e_v.T
        is_liked = expit(match) >= eta
        if preference == "paper":
            met.append(_met_by_chance(is_liked, rng))
        else:
            cosine = match / np.linalg.norm(some, axis=1)[:, None] / np.linalg.norm(e_v, axis=1)
            met.append(_met_by_taste(TASTE * cosine + popularity - LAST * ~is_liked, noise, rng))
    shown = np.vstack(met)
    owners, slots = np.nonzero(shown >= 0)
    return owners, shown[owners, slots]


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


def _activity(users: int, items: int, rows: int, rng: np.random.Generator) -> Ints:
    """How many interactions each user has, `rows` in all: FEWEST, and a log-normal number: [users].

    Nobody has more than half of the items.
    """
    room, left = items // 2 - FEWEST, float(rows - FEWEST * users)
    shares = rng.lognormal(sigma=ACTIVITY, size=users)
    extra = left * shares / shares.sum()
    while (is_full := extra > room).any():  # what is beyond the limit goes to the others
        shares[is_full] = 0.0
        extra[is_full] = room
        open_to_more = shares > 0
        spare = left - float(extra[~open_to_more].sum())
        extra[open_to_more] = spare * shares[open_to_more] / shares.sum()
    numbers: Ints = FEWEST + np.diff(np.rint(np.cumsum(extra)), prepend=0.0).astype(np.int64)
    return numbers


def _met_by_cell(
    counts: Ints, e_u: Floats, cells: _Cells, *, eta: float, noise: float, seed: int, first: int
) -> Ints:
    """The items that each user interacts with, `counts[users]` each, in order of time: [rows].

    `first` is the number of rows of users before these.
    Users are taken in blocks to bound memory. Random numbers belong to slots, so that blocks do not matter.
    """
    ends = np.cumsum(counts)
    parts = np.flatnonzero(np.diff(np.cumsum(counts + len(cells.centres)) // BLOCK)) + 1
    chosen = np.empty(ends[-1], dtype=np.int64)
    for start, end in pairwise([0, *parts.tolist(), len(counts)]):
        here = slice(ends[start] - counts[start], ends[end - 1])
        slots = first + np.arange(here.start, here.stop)
        owners = np.repeat(np.arange(end - start), counts[start:end])
        items = _filled(slots, owners, e_u[start:end], cells, eta=eta, noise=noise, seed=seed)
        chosen[here] = items[np.lexsort((uniform(mix(seed, 1, slots)), owners))]
    return chosen


def _filled(
    slots: Ints, owners: Ints, e_u: Floats, cells: _Cells, *, eta: float, noise: float, seed: int
) -> Ints:
    """An item for each of `slots[n]` of the users `owners[n]`, none twice for a user: [n].

    Slots whose item is repeated or not liked draw again.
    """
    chances, n_items, items = cells.chances(e_u), len(cells.order), np.full(len(slots), -1)
    is_accident = uniform(mix(seed, 2, slots)) < noise
    empty = here = np.arange(len(slots))
    for attempt in count():
        lots = uniforms(mix(seed, 3, attempt, slots[empty]), 2)
        items[empty] = (lots[:, 0] * n_items).astype(np.int64)
        by_taste = ~is_accident[empty]
        chosen, users = empty[by_taste], owners[empty[by_taste]]
        if attempt < ATTEMPTS:
            items[chosen] = cells.draw(chances, users, lots[by_taste])
        if attempt < 2 * ATTEMPTS:
            match = (e_u[users] * cells.features[items[chosen]]).sum(axis=1)
            items[chosen[expit(match) < eta]] = -1
        # `here` are the slots of users who had empty ones.
        order = here[np.lexsort((items[here], owners[here]))]
        is_repeated = (np.diff(owners[order]) == 0) & (np.diff(items[order]) == 0)
        empty = np.union1d(here[items[here] < 0], order[1:][is_repeated])
        if not len(empty):
            break
        here = here[np.isin(owners[here], owners[empty])]
    return items


def _direction(features: Floats) -> Floats:
    """`features[n, p]` with length 1: [n, p]."""
    direction: Floats = features / np.linalg.norm(features, axis=1)[:, None]
    return direction


def _products(some: Floats, others: Floats) -> Floats:
    """Inner products of `some[n, p]` with `others[m, p]`: [n, m].

    Not a matrix product: its rounding would depend on the number of rows.
    """
    found = np.zeros((len(some), len(others)))
    for feature in range(some.shape[1]):
        found += some[:, feature, None] * others[:, feature]
    return found


def _ids(letter: str, count: int) -> pl.Series:
    """Ids from 1 on, padded with zeros so that text and numbers have the same order."""
    width = len(str(count))
    return pl.Series([f"{letter}{number:0{width}}" for number in range(1, count + 1)])


def _refuse_impossible(
    preference: str,
    *,
    users: int,
    items: int,
    features: int,
    eta: float,
    noise: float,
    rows: int | None,
) -> None:
    accepted = {
        f"preference {preference!r}": (preference in get_args(Preference), " or ".join(get_args(Preference))),
        f"{users} users": (users >= 1, "1 or more"),
        f"{items} items": (items >= MOST, f"{MOST} or more"),
        f"{features} features": (features >= 1, "1 or more"),
        f"eta {eta:g}": (0 <= eta < 1, "from 0 to below 1"),
        f"noise {noise:g}": (0 <= noise <= 1, "from 0 to 1"),
    }
    if rows is not None:
        least, most = FEWEST * users, items // 2 * users
        accepted[f"{rows} rows of {users} users and {items} items"] = (
            least <= rows <= most,
            f"from {least} to {most}: {FEWEST} to items / 2 per user",
        )
        accepted[f"rows and preference {preference!r}"] = (preference == "learnable", "learnable")
    for setting, (is_possible, what) in accepted.items():
        if not is_possible:
            raise AssentError(f"simulation with {setting}; accepted: {what}")
