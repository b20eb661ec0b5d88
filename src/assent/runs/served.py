"""A finished live run in memory: it takes changes of mind at once, and serves from what is disclosed now.

    served = Served.of(open_run("run"))
    served.apply(Changes.of(minds=[("ann", "f17", 0.2, 1.0)], withdrawn=["bob"]))
    served.recommend("ann", k=5)

What was measured is kept: the values of rows and the items' vectors are those of the last exact run.
Decisions are made anew in closed form, and people's own vectors are folded in from what they disclose now,
which is exact given the items. Whoever withdraws or says never is out of the vectors with the same call.

Readers are never shown half a change: `apply` builds all that is new beside what is served, and swaps both at
the end. A change that is refused leaves everything as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Final

import numpy as np
import polars as pl
import torch

from assent.data.interactions import CLOSED, NEVER, NO_ROWS
from assent.data.wishes import PLAIN, Wishes
from assent.game.players import Players
from assent.game.prices import break_even_prices
from assent.game.reasons import reasons_of
from assent.models import IALS
from assent.results.words import number, plural
from assent.runs.changes import PAIR, Changes
from assent.runs.folder import DISCLOSED, KINDS, WITHHELD, Run
from assent.runs.plan import plan_of
from assent.runs.recommend import GENERAL, OWN
from assent.runs.standing import (
    ERROR_OWN,
    ERROR_SOCIAL,
    SOCIAL,
    WORTHS,
    Ask,
    Decision,
    OperatingPoint,
    Standing,
    changed,
    decide,
)
from assent.runs.standing import OWN as OWN_WORTH
from assent.support.arrays import Bools, Floats, Ints, Strings, positions
from assent.support.errors import AssentError
from assent.support.ridge import Array
from assent.support.runtime import one_thread
from assent.training import Trained
from assent.training.ranking import best_items

GONE: Final = "gone"
WITHDRAWN: Final = "withdrawn"
"""Reasons of rows that are there no more."""
_NUMBERS: Final = ("value", "uncertainty", *WORTHS, "price", "cost")


@dataclass(frozen=True)
class Applied:
    """What changes led to."""

    changed: pl.DataFrame
    """One row per interaction of which something else became: user, item, what it was `before` and is
    `after` (disclosed, withheld, never, closed; null if it was not, or is not, there), and the reason: what
    decided (`game.reasons`), never, closed, gone or withdrawn."""
    price_before: float | None
    price: float | None
    """The price that decides now; None for methods that know none."""
    folded: int
    """How many people's vectors were made anew."""

    @property
    def found_anew(self) -> bool:
        """Whether the price that was kept did not hold, or holds again."""
        return self.price != self.price_before

    def summary(self) -> str:
        """Two sentences for people."""
        rows, people = self.changed.height, self.changed["user"].n_unique()
        told = f"{plural(rows, 'interaction')} of {plural(people, 'person', 'people')} changed."
        if self.price is None or self.price_before is None or not self.found_anew:
            return told
        return f"{told} The price was found anew: {number(self.price_before)} became {number(self.price)}."


@dataclass(frozen=True)
class _State:
    """All that is served at a time; nothing of it changes."""

    rows: Standing
    decision: Decision
    places: Ints
    """[C], the place of each item of the catalogue among the model's; their number for others."""
    vectors: Array
    """[N, d], people's vectors; 0 for those who disclose nothing that the model knows."""
    is_known: Bools
    """[N], who discloses something that the model knows."""

    @cached_property
    def counts(self) -> Ints:
        """How many people disclose each item of the catalogue: [C]."""
        disclosed = self.rows.items[self.decision.selection]
        return np.bincount(disclosed, minlength=len(self.rows.catalogue))

    @cached_property
    def disclosing(self) -> int:
        """How many people disclose anything."""
        return len(np.unique(self.rows.owners[self.decision.selection]))


class Served:
    """A live run in memory, with all changes that were applied to it."""

    def __init__(self, run: Run, point: OperatingPoint) -> None:
        """Use `Served.of`."""
        trained = run.trained
        assert isinstance(trained.model, IALS)
        self.point = point
        self._epochs, self._monitor, self._seed = trained.epochs, trained.monitor, trained.seed
        self._side = trained.model.with_people(trained.model.user_table[:0].detach(), 0)
        self._model_items = trained.item_ids
        self._lock = Lock()
        rows, selection = _standing(run, trained.item_ids)
        decision = decide(rows, point)
        if not np.array_equal(decision.selection, selection):
            raise AssentError(
                f"{run.folder}: {point.method.name} decided otherwise than by value against price; accepted: "
                "grade exact"
            )
        places = positions(trained.item_ids, rows.catalogue)
        vectors = np.zeros((len(rows.users), self._side.settings.dimension), np.float32)
        at = positions(trained.user_ids, rows.users)
        is_known = at < len(trained.user_ids)
        vectors[is_known] = trained.model.user_table.detach().numpy()[at[is_known]]
        self._state = _State(rows, decision, places, vectors, is_known)

    @classmethod
    def of(cls, run: Run, wishes: Ask | None = None) -> "Served":
        """Hold a finished live run in memory.

        `wishes` reads people's own limits, which a run folder does not hold, for a log and its problem:
        `partial(read_wishes, user_budget="ann=2,*=5")`. It is needed for a run that had some.

        Refused are experiments, models without fold-in, and methods whose decisions do not follow from kept
        values and a price (several anchors, drawn strategies). Methods that estimate nothing are accepted:
        they decide by ids, counts and unwillingness alone, as an exact update would.
        """
        if not run.is_live:
            raise AssentError(f"{run.folder}: an experiment; accepted: a live run")
        if run.settings["shards"] is not None:
            raise AssentError(f"{run.folder}: in shards, each with a price of its own; accepted: grade exact")
        if not isinstance(run.trained.model, IALS):
            name = run.trained.model.name
            raise AssentError(
                f"{run.folder}: people cannot be folded into model {name}; accepted: grade exact, or "
                f"model {IALS.name}"
            )
        if wishes is None and run.settings["wishes"] != PLAIN.summary():
            raise AssentError(
                f"{run.folder}: people have limits, which the run does not hold; accepted: wishes=, what "
                "reads them"
            )
        return cls(run, operating_point(run, wishes))

    @property
    def price(self) -> float | None:
        """The price that decides now."""
        return self._state.decision.price

    @property
    def people(self) -> list[str]:
        """The ids of all who have a row, also of those who said never to all they have."""
        rows = self._state.rows
        return sorted({*rows.users.tolist(), *rows.sealed["user"]})

    @property
    def sealed(self) -> pl.DataFrame:
        """What was turned away at the door, for its owners alone."""
        return self._state.rows.sealed

    @property
    def trained(self) -> Trained:
        """The model with the people and the vectors of now, as run folders hold it."""
        state = self._state
        rows = int(state.decision.selection.sum())
        with one_thread():  # the mean of the vectors depends on the number of threads
            model = self._side.with_people(torch.from_numpy(state.vectors[state.is_known]), rows)
        users = state.rows.users[state.is_known]
        return Trained(model, users, self._model_items, self._seed, self._epochs, self._monitor)

    def apply(self, changes: Changes) -> Applied:
        """Take changes of any number of people, and return what they led to; all or nothing."""
        with self._lock:
            state, found = self._after(self._state, changes)
            self._state = state
        return found

    def preview(self, user: str, changes: Changes, k: int = 10) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return what a person is recommended before and after changes of theirs; nothing is applied."""
        if others := [each for each in changes.people if each != user]:
            raise AssentError(f"preview: changes of {plural(len(others), 'other person', 'other people')}; "
                              f"accepted: of {user} alone")  # fmt: skip
        before = self._state
        after, _ = self._after(before, changes)
        return self._recommended(before, user, k), self._recommended(after, user, k)

    def recommend(self, user: str, k: int = 10, *, include: Sequence[str] = ()) -> pl.DataFrame:
        """Return the k best items for a person, from what is disclosed now; as `Run.recommend`."""
        return self._recommended(self._state, user, k, include)

    def explain(self, user: str) -> pl.DataFrame:
        """Return a person's interactions, what became of each, and why.

        The columns are those of `table`, and `decision`: disclosed, withheld, never or closed. Nobody else's
        are among them, and of an unknown person there is none.
        """
        state = self._state
        at = Standing.places(pl.Series([user]), state.rows.users)
        found = self._rows(state, at[at < len(state.rows.users)])
        decision = pl.when("disclosed").then(pl.lit(DISCLOSED)).otherwise(pl.lit(WITHHELD))
        sealed = state.rows.sealed.filter(pl.col("user") == user)
        unread = sealed.select(*PAIR, "title", "unwillingness", "reason", decision="reason")
        return pl.concat([found.with_columns(decision=decision), unread], how="diagonal")

    def table(self) -> pl.DataFrame:
        """Return all rows that may be read, with what was decided on each and why.

        The columns are those of a run's selection that do not come from the log, and `expected`: whether the
        value was not measured, but is what those of other rows lead one to expect.
        """
        state = self._state
        return self._rows(state, np.arange(len(state.rows.users)))

    def _after(self, before: _State, changes: Changes) -> tuple[_State, Applied]:
        """The state after changes, and what they led to."""
        after_them = changed(before.rows, changes, self._model_items, self.point.closed)
        rows, came_from = after_them.standing, after_them.came_from
        decision = decide(rows, self.point)
        is_old = came_from >= 0
        was = np.zeros(len(came_from), dtype=np.bool_)
        was[is_old] = before.decision.selection[came_from[is_old]]
        moved = decision.selection != was
        left = np.ones(len(before.rows.owners), dtype=np.bool_)
        left[came_from[is_old]] = False
        is_same = rows.users is before.rows.users
        now = np.arange(len(rows.users)) if is_same else positions(rows.users, before.rows.users)
        poorer = now[np.unique(before.rows.owners[left & before.decision.selection])]
        people = np.unique(np.concatenate([rows.owners[moved], poorer[poorer < len(rows.users)]]))
        places = before.places
        if rows.catalogue is not before.rows.catalogue:
            places = positions(self._model_items, rows.catalogue)
        vectors = np.zeros((len(rows.users), before.vectors.shape[1]), before.vectors.dtype)
        is_known, stays = np.zeros(len(rows.users), dtype=np.bool_), now < len(rows.users)
        vectors[now[stays]], is_known[now[stays]] = before.vectors[stays], before.is_known[stays]
        vectors[people], is_known[people] = self._folded(rows, decision, places, people)
        after = _State(rows, decision, places, vectors, is_known)
        table = self._moves(before, after, np.flatnonzero(left), np.flatnonzero(moved | ~is_old), came_from)
        table = table.with_columns(
            reason=pl.when(pl.col("after").is_null() & pl.col("user").is_in(changes.withdrawn))
            .then(pl.lit(WITHDRAWN))
            .otherwise("reason")
        )
        return after, Applied(table, before.decision.price, decision.price, len(people))

    def _folded(self, rows: Standing, decision: Decision, places: Ints, people: Ints) -> tuple[Array, Bools]:
        """Vectors of people from what they disclose, [m, d], and who has one, [m]; the others have 0."""
        here = rows.rows_of(people)
        here = here[decision.selection[here]]
        here = here[places[rows.items[here]] < len(self._model_items)]
        items = torch.from_numpy(places[rows.items[here]])
        sizes = np.bincount(positions(people, rows.owners[here]), minlength=len(people))
        with one_thread():  # sums of the Gram matrix depend on the number of threads
            found = self._side.fold_in(list(torch.split(items, sizes.tolist()))).numpy()
        found[sizes == 0] = 0
        return found, sizes > 0

    def _moves(self, before: _State, after: _State, left: Ints, moved: Ints, came_from: Ints) -> pl.DataFrame:
        """What became of rows that `left`, places before, and of those that `moved`, places after."""
        were = np.concatenate([left, came_from[moved][came_from[moved] >= 0]])
        sealed = [each.rows.sealed.select(*PAIR, kind="reason") for each in (before, after)]
        then = pl.concat([_kinds(before, were), sealed[0].join(sealed[1], on=[*PAIR, "kind"], how="anti")])
        now = pl.concat([_kinds(after, moved), sealed[1].join(sealed[0], on=[*PAIR, "kind"], how="anti")])
        both = then.rename({"kind": "before"}).join(
            now.rename({"kind": "after"}), on=PAIR, how="full", coalesce=True
        )
        why = self._rows(after, np.unique(after.rows.owners[moved])).select(*PAIR, "reason")
        found = both.filter(pl.col("before").ne_missing(pl.col("after"))).join(why, on=PAIR, how="left")
        away = pl.when(pl.col("after").is_in([NEVER, CLOSED])).then("after")
        gone = pl.when(pl.col("after").is_null()).then(pl.lit(GONE))
        return found.with_columns(reason=pl.coalesce(away, "reason", gone)).sort(PAIR)

    def _rows(self, state: _State, people: Ints) -> pl.DataFrame:
        """The rows of `people[m]`, places among the users, with what was decided on each and why."""
        rows, decision, here = state.rows, state.decision, state.rows.rows_of(people)
        minded, selection = rows.unwillingness[here], decision.selection[here]
        numbers: dict[str, Any] = dict.fromkeys(_NUMBERS)
        reason, together = None, None
        if self.point.objective is not None:
            worth = decision.worth[:, here]
            is_own = self.point.objective == "nash"
            values = worth[OWN_WORTH if is_own else SOCIAL]
            errors = worth[ERROR_OWN if is_own else ERROR_SOCIAL]
            owners = positions(people, rows.owners[here])
            wishes = _of_some(decision.wishes, here, people)
            players = Players(owners, len(people), minded, decision.price or 0.0, wishes)
            why = reasons_of(players, values, selection, filled=self.point.budget is not None)
            reason, together = why.reasons, why.together
            prices = break_even_prices(values, minded)
            found = (values, errors, *worth, prices, why.costs)
            numbers = dict(zip(_NUMBERS, found, strict=True))
        schema = {**dict.fromkeys(_NUMBERS, pl.Float64), "reason": pl.String, "together": pl.Int64}
        table = pl.DataFrame(
            {
                "user": rows.users[rows.owners[here]],
                "item": rows.catalogue[rows.items[here]],
                "unwillingness": minded,
                "disclosed": selection,
                **{name: _column(each, len(here)) for name, each in numbers.items()},
                "reason": _column(reason, len(here)),
                "together": _column(together, len(here)),
                "expected": rows.is_new[here],
            },
            schema_overrides={"user": pl.String, "item": pl.String, **schema},
            nan_to_null=True,
        )
        return table.join(rows.about, on="item", how="left", maintain_order="left")

    def _recommended(self, state: _State, user: str, k: int, include: Sequence[str] = ()) -> pl.DataFrame:
        if wrong := [kind for kind in include if kind not in KINDS]:
            raise AssentError(f"include={wrong[0]!r}: accepted: {', '.join(KINDS)}")
        rows, person = state.rows, pl.Series("user", [user], dtype=pl.String)
        [at] = Standing.places(person, rows.users).tolist()
        is_known = at < len(rows.users) and bool(state.is_known[at])
        if is_known:
            ids = self._model_items
            with torch.no_grad(), one_thread():
                scores = self._side.score_vectors(torch.from_numpy(state.vectors[at : at + 1])).numpy()
            shown = state.places < len(ids)
            # An item that nobody discloses any more does not exist for anybody.
            scores[0, state.places[shown & (state.counts == 0)]] = -np.inf
        else:
            ids, scores = rows.catalogue[state.counts > 0], state.counts[state.counts > 0][None]
            scores = scores / max(1, state.disclosing)
        had = rows.rows_of(np.array([at])) if at < len(rows.users) else np.zeros(0, np.int64)
        kinds = pl.concat(
            [_kinds(state, had), rows.sealed.filter(pl.col("user") == user)
             .select(*PAIR, kind="reason")]
        )  # fmt: skip
        hidden = kinds.filter(~pl.col("kind").is_in(list(include)))
        found = best_items(person, ids, k, lambda here: scores[here], hidden)
        titles = rows.about.select("item", "title")
        return (
            found.join(titles, on="item", how="left", maintain_order="left")
            .with_columns(basis=pl.lit(OWN if is_known else GENERAL))
            .select("user", "item", "title", "rank", "score", "basis")
        )


def operating_point(run: Run, wishes: Ask | None = None) -> OperatingPoint:
    """Return how the last exact run decided; a prompt update keeps that in its settings."""
    settings, now = run.settings, run.quality["operating_point"]
    base = settings.get("base")
    return OperatingPoint(
        method=plan_of(run).method,
        name=settings["dataset"],
        seed=settings["seed"],
        price=now["price"] if base is None else base["price"],
        budget=now["budget"],
        closed=settings["closed"],
        ask=wishes,
    )


def _standing(run: Run, model_items: Strings) -> tuple[Standing, Bools]:
    """The rows of a run, and what it discloses of them: [Z]."""
    table = run.selection
    if "expected" not in table.columns:
        table = table.with_columns(expected=pl.lit(value=False))
    new = pl.when("expected").then("item")
    table = table.sort("user", "expected", new, maintain_order=True)
    users = table["user"].unique().sort()
    named = pl.concat([table["item"], pl.Series(model_items, dtype=pl.String)]).unique().sort()
    worth = np.stack([table[name].fill_null(np.nan).to_numpy() for name in WORTHS])
    worth[:, table["expected"].to_numpy()] = np.nan
    return Standing(
        users=users.to_numpy().astype(np.str_),
        catalogue=named.to_numpy().astype(np.str_),
        owners=(table["user"].rank("dense") - 1).cast(pl.Int64).to_numpy(),
        items=_indices(table["item"], named),
        unwillingness=table["unwillingness"].to_numpy(),
        is_new=table["expected"].to_numpy(),
        worth=worth,
        sealed=run.sealed.select(NO_ROWS.columns).sort(PAIR),
        about=table.select("item", "title", "category").unique("item", keep="first").sort("item"),
    ), table["disclosed"].to_numpy()


def _indices(ids: pl.Series, known: pl.Series) -> Ints:
    """The place of each id in `known`, which has them all: [n]."""
    places = pl.DataFrame({"id": known}).with_row_index("place")
    found = pl.DataFrame({"id": ids}).join(places, on="id", how="left", maintain_order="left")
    return found["place"].cast(pl.Int64).to_numpy()


def _kinds(state: _State, rows: Ints) -> pl.DataFrame:
    """The user, item and kind of rows that may be read."""
    standing = state.rows
    kinds = np.where(state.decision.selection[rows], DISCLOSED, WITHHELD)
    names = standing.users[standing.owners[rows]], standing.catalogue[standing.items[rows]]
    columns = dict(zip((*PAIR, "kind"), (*names, kinds), strict=True))
    return pl.DataFrame(columns, dict.fromkeys(columns, pl.String))


def _of_some(wishes: Wishes, rows: Ints, people: Ints) -> Wishes:
    """The wishes of some people, `people[m]`, with these rows."""
    return Wishes(
        groups=None if wishes.groups is None else wishes.groups[rows],
        budget=None if wishes.budget is None else wishes.budget[people],
        floor=None if wishes.floor is None else wishes.floor[people],
        power=wishes.power,
    )


def _column(values: Floats | Strings | Ints | None, length: int) -> Any:
    return np.full(length, None) if values is None else values
