"""What is known of a person, as they see it: pages of their interactions, counts, and their categories."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Text, and_, bindparam, cast, func, select, tuple_
from sqlalchemy.orm import Session, aliased

from assent.service.database import NotFoundError, Query, at_once
from assent.service.effective import Brought, Effective
from assent.service.settings import ServiceSettings
from assent.service.tables import Decision, Interaction, Item, ItemCategory, Model, Person, Publication, Wish
from assent.support.errors import AssentError

STATES: Final = ("used", "withheld", "never", "closed", "undecided")
CHANGED: Final = "changed"
"""What `page` takes as a state, too: another one than in the model that was in service before."""


class Row(NamedTuple):
    """An interaction as its owner sees it."""

    item: str
    title: str | None
    categories: tuple[str, ...]
    at: float
    unwillingness: float
    """In force now."""
    source: str
    """Who said so: a wish on the `item`, `category` or `everything`; the `platform`; or nobody, `unsaid`.
    `kept`: so it was when the platform changed the item's categories."""
    source_target: str | None
    """The category that it was said of, where it was one."""
    said: float | None
    """When the wish was made."""
    state: str
    """In the model in service: `used`, `withheld`, `never`, `closed`; `undecided` if it is newer."""
    decided_unwillingness: float | None
    """What was in force when that was decided; where that changed, a new decision is due."""
    reason: str | None
    """One of `assent.game.reasons.Reason`, for used and withheld ones."""
    value: float | None
    cost: float | None
    break_even: float | None
    """The price of one unit of unwillingness up to which its use would pay."""
    worth_owner: float | None
    worth_everybody: float | None
    together: int | None


@dataclass(frozen=True)
class Rows:
    """A page of interactions, latest first."""

    rows: list[Row]
    next: str | None
    """The cursor of the next page."""


@dataclass(frozen=True)
class CategoryCount:
    """A category of a person's interactions."""

    category: str
    count: int
    unwillingness: float | None
    """What they said of the category; None if nothing."""
    said: float | None


WHO = select(Person.id).where(Person.user == bindparam("user")).scalar_subquery()
"""The number of the person `user`. It is compared, not joined, so that wishes are found by it, too."""
_IN_SERVICE = select(Publication.model_id).order_by(Publication.id.desc()).limit(1).scalar_subquery()
_state: ColumnElement[str] = func.coalesce(Decision.state, "undecided")
_DECIDED = and_(
    Decision.model_id == _IN_SERVICE,
    Decision.person_id == Interaction.person_id,
    Decision.item_id == Interaction.item_id,
)
_BEFORE = (
    select(Publication.model_id)
    .join(Model, Model.id == Publication.model_id)
    .where(Publication.model_id != _IN_SERVICE, Model.pruned.is_(None))
    .order_by(Publication.id.desc())
    .limit(1)
    .scalar_subquery()
)
"""The model that was in service before, if its decisions are kept."""
_earlier = aliased(Decision)
_decided_before = (
    select(_earlier.state)
    .where(
        _earlier.model_id == _BEFORE,
        _earlier.person_id == Interaction.person_id,
        _earlier.item_id == Interaction.item_id,
    )
    .correlate(Interaction)
    .scalar_subquery()
)
_state_before: ColumnElement[str] = func.coalesce(_decided_before, "undecided")
_HAS_CHANGED = and_(_BEFORE.is_not(None), _state_before != _state)
_CATEGORIES = (
    select(ItemCategory.category).where(ItemCategory.item_id == Interaction.item_id).correlate(Interaction)
)


_FILTERS: Final[Mapping[str, ColumnElement[bool]]] = {
    "category": bindparam("category").in_(_CATEGORIES),
    "search": func.lower(func.coalesce(Item.title, "") + " " + Item.item).contains(
        bindparam("search"), autoescape=False, escape="/"
    ),
    "state": _state == bindparam("state"),
    CHANGED: _HAS_CHANGED,
    "after_id": tuple_(Interaction.at, Interaction.id) < tuple_(bindparam("after"), bindparam("after_id")),
    "item": Item.item == bindparam("item"),
}
"""What a page of interactions can be narrowed by, each with the value of its name."""


@lru_cache(maxsize=100)
def _rows(settings: ServiceSettings, dialect: str, narrowed: tuple[str, ...]) -> Query:
    """Return the query of the interactions of the person `user`, in the order of `Row`, and their ids."""
    effective = Effective(settings)
    wanted = [Interaction.person_id == WHO, *(_FILTERS[each] for each in narrowed)]
    latest_first = (Interaction.at.desc(), Interaction.id.desc())
    if not {*narrowed} - {"after_id"}:  # then what is shown is known before anything is joined to it
        ids = select(Interaction.id).where(*wanted).order_by(*latest_first).limit(bindparam("most"))
        wanted = [Interaction.person_id == WHO, Interaction.id.in_(ids)]
    asked = (
        select(
            Item.item,
            Item.title,
            categories_of_row(dialect),
            Interaction.at,
            effective.unwillingness,
            effective.source,
            effective.target,
            effective.said,
            _state,
            Decision.unwillingness,
            Decision.reason,
            Decision.value,
            Decision.cost,
            Decision.price,
            Decision.worth_owner,
            Decision.worth_everybody,
            Decision.together,
            Interaction.id,
        )
        .select_from(Interaction)
        .join(Item, Item.id == Interaction.item_id)
        .outerjoin(Decision, _DECIDED)
        .where(*wanted)
        .order_by(*latest_first)
        .limit(bindparam("most"))
    )
    return Query(effective.joined(asked))


def categories_of_row(dialect: str) -> ColumnElement[str]:
    """Return the categories of an interaction's item as a list in JSON, null if there are none."""
    named = _CATEGORIES.order_by(ItemCategory.place).subquery()
    listed = func.json_group_array if dialect == "sqlite" else func.json_agg
    return select(cast(listed(named.c.category), Text)).scalar_subquery()


def _found(session: Session, settings: ServiceSettings, **given: Any) -> Callable[[], list[tuple[Any, ...]]]:
    narrowed = tuple(each for each in _FILTERS if each in given)
    return _rows(settings, session.get_bind().dialect.name, narrowed).ask(session, **given)


@lru_cache(maxsize=10_000)
def categories_in(listed: str | None) -> tuple[str, ...]:
    """Return the categories that `categories_of_row` listed."""
    return tuple(json.loads(listed or "[]"))


def _shown(row: tuple[Any, ...]) -> Row:
    """Return a row of the query as people see it."""
    item, title, categories, *rest = row[:-1]
    return Row(item, title, categories_in(categories), *rest)


def ask_page(
    session: Session,
    settings: ServiceSettings,
    user: str,
    *,
    category: str | None = None,
    search: str | None = None,
    state: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Callable[[], Rows]:
    """Ask for a page, `together` with other queries; return what reads it."""
    given: dict[str, Any] = {}
    if category is not None:
        given["category"] = category
    if search:
        given["search"] = re.sub("[/%_]", r"/\g<0>", search.lower())
    if state is not None:
        if state not in (*STATES, CHANGED):
            raise AssentError(f"state {state!r}: accepted: {', '.join((*STATES, CHANGED))}")
        given[CHANGED if state == CHANGED else "state"] = state
    if cursor is not None:
        given["after"], given["after_id"] = _place(cursor)
    found = _found(session, settings, user=user, most=limit + 1, **given)

    def read() -> Rows:
        rows = found()
        shown = [_shown(row) for row in rows[:limit]]
        return Rows(shown, f"{shown[-1].at!r}~{rows[limit - 1][-1]}" if len(rows) > limit else None)

    return read


page = at_once(ask_page)
"""Return a page of a person's interactions, latest first; empty for somebody unknown."""


def _place(cursor: str) -> tuple[float, int]:
    at, _, id = cursor.partition("~")
    try:
        moment, number = float(at), int(id)
        if isfinite(moment) and 0 <= number < 2**63:
            return moment, number
    except ValueError:
        pass
    raise AssentError("cursor: accepted: what the page before gave")


def one(session: Session, settings: ServiceSettings, user: str, item: str) -> Row:
    """Return one interaction of a person; `NotFoundError` if there is none."""
    found = _found(session, settings, user=user, item=item, most=1)()
    if not found:
        raise NotFoundError("interaction: there is none of this person and item")
    return _shown(found[0])


def brought_by(session: Session, user: str) -> dict[str, Brought]:
    """Return what the platform brought of each item of a person, and what is kept of it."""
    listed = categories_of_row(session.get_bind().dialect.name)
    asked = (
        select(Item.item, Interaction.unwillingness, listed, Interaction.kept, Interaction.kept_upto)
        .select_from(Interaction)
        .join(Person, Person.id == Interaction.person_id)
        .join(Item, Item.id == Interaction.item_id)
        .where(Person.user == user)
    )
    return {item: Brought(minded, categories_in(listed), kept, upto)
            for item, minded, listed, kept, upto in session.execute(asked)}  # fmt: skip


_counts = (
    select(_state, func.count())
    .select_from(Interaction)
    .outerjoin(Decision, _DECIDED)
    .where(Interaction.person_id == WHO)
    .group_by(_state)
)
_counts_of_categories: Final = Query(
    select(ItemCategory.category, func.count())
    .join(Interaction, Interaction.item_id == ItemCategory.item_id)
    .where(Interaction.person_id == WHO)
    .group_by(ItemCategory.category)
)
_said_of_categories = select(Wish.target, Wish.unwillingness, Wish.requested).where(
    Wish.person_id == WHO, Wish.in_force, Wish.scope == "category"
)


def counts(session: Session, user: str) -> dict[str, int]:
    """Return how many interactions a person has in each state, by the names of `Row.state`."""
    return dict.fromkeys(STATES, 0) | dict(session.execute(_counts, {"user": user}).all())


def states_before(session: Session, user: str) -> dict[str, str]:
    """Return the items whose state was another in the model that was in service before, with that state."""
    asked = (
        select(Item.item, _state_before)
        .select_from(Interaction)
        .join(Item, Item.id == Interaction.item_id)
        .outerjoin(Decision, _DECIDED)
        .where(Interaction.person_id == WHO, _HAS_CHANGED)
    )
    return dict(session.execute(asked, {"user": user}).all())


def ask_category_names(session: Session, user: str) -> Callable[[], list[str]]:
    """Ask for the categories of a person's interactions; what reads them has the most frequent first."""
    counted = _counts_of_categories.ask(session, user=user)
    return lambda: [name for name, _ in sorted(counted(), key=lambda each: (-each[1], each[0]))]


def categories(session: Session, user: str) -> list[CategoryCount]:
    """Return the categories of a person's interactions, most frequent first, and those they wished about."""
    counted = dict(_counts_of_categories.rows(session, user=user))
    said = {row.target: row for row in session.execute(_said_of_categories, {"user": user})}
    found = [
        CategoryCount(
            name,
            counted.get(name, 0),
            said[name].unwillingness if name in said else None,
            said[name].requested if name in said else None,
        )
        for name in {*counted, *said}
    ]
    return sorted(found, key=lambda each: (-each.count, each.category))
