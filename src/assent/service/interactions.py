"""What people did: adding, deleting, and the pages that people see of it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from time import time
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy import delete as deleting
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from assent.service.database import NotFoundError
from assent.service.effective import Effective, Query
from assent.service.ledger import note
from assent.service.settings import ServiceSettings
from assent.service.tables import (
    Decision,
    Interaction,
    Item,
    ItemCategory,
    Link,
    Person,
    Publication,
    Visit,
    Wish,
)
from assent.service.wishes import touch
from assent.support.errors import AssentError

LONGEST: Final = 1024
"""Most characters of an id, a title or a category."""
_UPLOADING: Final = 7_263_003
"""The number of PostgreSQL's lock that uploads hold."""
_SOME: Final = 500
"""Rows in one statement: SQLite takes a bounded number of values."""
DELETED: Final = "interaction deleted"
ERASED: Final = "person erased"
"""Events of the ledger."""
STATES: Final = ("used", "withheld", "never", "closed", "undecided")


@dataclass(frozen=True)
class NewInteraction:
    """An interaction as the platform brings it."""

    user: str
    item: str
    at: float
    """Seconds since 1970, UTC."""
    title: str | None = None
    categories: Sequence[str] | None = None
    """None leaves those of a known item as they are; so does a title of None."""
    unwillingness: float | None = None
    """What the platform knows of its owner's consent."""


@dataclass(frozen=True)
class Added:
    """What became of interactions that the platform brought."""

    added: int
    known: int
    """Pairs of a person and an item that were there already; they stay as they are."""


@dataclass(frozen=True)
class Row:
    """An interaction as its owner sees it."""

    item: str
    title: str | None
    categories: tuple[str, ...]
    at: float
    unwillingness: float
    """In force now."""
    source: str
    """Who said so: a wish on the `item`, `category` or `everything`; the `platform`; or nobody, `unsaid`."""
    source_target: str | None
    """The category, where the source is one."""
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
    price: float | None
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


def add(session: Session, interactions: Sequence[NewInteraction]) -> Added:
    """Add interactions, with people and items that are new; return how many were new."""
    for place, each in enumerate(interactions, 1):
        _check(each, f"interaction {place}")
    _take_turn(session, alone=len(interactions) > 1)
    now, added, changed = time(), 0, set[int]()
    for start in range(0, len(interactions), _SOME):
        some = interactions[start : start + _SOME]
        people = _people(session, {each.user for each in some}, now)
        items = _items(session, some, changed)
        rows: dict[tuple[int, int], dict[str, Any]] = {
            (people[each.user], items[each.item]): {
                "person_id": people[each.user],
                "item_id": items[each.item],
                "at": each.at,
                "unwillingness": each.unwillingness,
                "added": now,
            }
            for each in reversed(some)  # of a pair that comes twice, the first counts
        }
        pairs = tuple_(Interaction.person_id, Interaction.item_id)
        asked = select(Interaction.person_id, Interaction.item_id).where(pairs.in_(sorted(rows)))
        known = {tuple(row) for row in session.execute(asked)}
        new = [row for pair, row in sorted(rows.items()) if pair not in known]
        if new:
            _insert_new(session, Interaction, new)
            changed |= {row["person_id"] for row in new}
        added += len(new)
    touch(session, changed)
    return Added(added, len(interactions) - added)


def _take_turn(session: Session, *, alone: bool) -> None:
    """Let uploads of several rows, which could wait for each other's rows in a circle, take turns."""
    if session.get_bind().dialect.name == "postgresql":
        how = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
        session.execute(text(f"SELECT {how}(:key)"), {"key": _UPLOADING})


def _check(each: NewInteraction, place: str) -> None:
    texts = {"user": each.user, "item": each.item, "title": each.title}
    texts |= {f"category {number}": name for number, name in enumerate(each.categories or (), 1)}
    for name, said in texts.items():
        if said is None and name == "title":
            continue
        if not isinstance(said, str) or not 0 < len(said) <= LONGEST or "\0" in said:
            raise AssentError(f"{place}: {name}: accepted: a text of 1 to {LONGEST} characters")
    if not isfinite(each.at) or abs(each.at) > 1e11:
        raise AssentError(f"{place}: at {each.at!r}: accepted: seconds since 1970")
    if each.unwillingness is not None and not 0 <= each.unwillingness <= 1:
        raise AssentError(f"{place}: unwillingness {each.unwillingness!r}: accepted: a number from 0 to 1")


def _insert_new(session: Session, table: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows; those that another process has inserted meanwhile are left as they are."""
    of = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
    session.execute(of.insert(table.__table__).on_conflict_do_nothing(), list(rows))


def _people(session: Session, users: Iterable[str], now: float) -> dict[str, int]:
    """Return the ids of people, who are added if they are new."""
    asked = select(Person.user, Person.id).where(Person.user.in_(sorted(users)))
    found = dict(session.execute(asked).all())
    new = [{"user": user, "pseudonym": str(uuid4()), "added": now, "version": 0}
           for user in sorted(set(users) - set(found))]  # fmt: skip
    if new:
        _insert_new(session, Person, new)
        found = dict(session.execute(asked).all())
    return found


def _items(session: Session, some: Sequence[NewInteraction], changed: set[int]) -> dict[str, int]:
    """Return the ids of items, which are added if they are new; given titles and categories replace.

    People for whom other categories change something are added to `changed`.
    """
    titles: dict[str, str | None] = {}
    categories: dict[str, Sequence[str]] = {}
    for each in some:
        titles[each.item] = each.title or titles.get(each.item)
        if each.categories is not None:
            categories[each.item] = list(dict.fromkeys(each.categories))
    asked = select(Item.item, Item.id, Item.title).where(Item.item.in_(sorted(titles)))
    found = {row.item: row for row in session.execute(asked)}
    new = [{"item": item, "title": title} for item, title in sorted(titles.items()) if item not in found]
    if new:
        _insert_new(session, Item, new)
        found = {row.item: row for row in session.execute(asked)}
    for item, title in sorted(titles.items()):
        if title is not None and found[item].title != title:
            session.execute(update(Item).values(title=title).where(Item.id == found[item].id))
    _set_categories(session, {found[item].id: given for item, given in categories.items()}, changed)
    return {item: row.id for item, row in found.items()}


def _set_categories(session: Session, given: Mapping[int, Sequence[str]], people: set[int]) -> None:
    if not given:
        return
    there: dict[int, list[str]] = {item: [] for item in given}
    asked = select(ItemCategory).where(ItemCategory.item_id.in_(sorted(given))).order_by(ItemCategory.place)
    for each in session.scalars(asked):
        there[each.item_id].append(each.category)
    changed = {item: names for item, names in given.items() if there[item] != list(names)}
    if not changed:
        return
    session.execute(deleting(ItemCategory).where(ItemCategory.item_id.in_(sorted(changed))))
    rows = [
        {"item_id": item, "place": place, "category": name}
        for item, names in sorted(changed.items())
        for place, name in enumerate(names)
    ]
    if rows:
        _insert_new(session, ItemCategory, rows)
    owners = select(Interaction.person_id).where(Interaction.item_id.in_(sorted(changed)))
    people.update(session.scalars(owners))


def delete(session: Session, user: str, item: str) -> None:
    """Delete an interaction; `NotFoundError` if there is none. It is no longer served from, at once."""
    found = session.execute(
        select(Interaction.id, Interaction.person_id)
        .join(Person, Person.id == Interaction.person_id)
        .join(Item, Item.id == Interaction.item_id)
        .where(Person.user == user, Item.item == item)
    ).first()
    if found is None:
        raise NotFoundError("interaction: there is none of this person and item")
    note(session, DELETED)  # first: whoever writes wishes takes the ledger before people, too
    session.execute(deleting(Interaction).where(Interaction.id == found.id))
    touch(session, [found.person_id])


def exists(session: Session, user: str) -> bool:
    """Return whether anything is known of a person."""
    return session.scalar(select(Person.id).where(Person.user == user)) is not None


def erase(session: Session, user: str) -> None:
    """Delete all that is known of a person: interactions, wishes, decisions, receipts, links, visits.

    The ledger keeps that there were events; nobody can link them to the person any more. Models that were
    trained on what the person disclosed stay until the next one is trained.
    """
    person = session.scalar(select(Person.id).where(Person.user == user))
    if person is None:
        raise NotFoundError("person: nothing is known of them")
    note(session, ERASED)
    for table in (Link, Visit):
        session.execute(deleting(table).where(table.person == user))
    session.execute(deleting(Person).where(Person.id == person))  # the rest goes with it


_IN_SERVICE = select(Publication.model_id).order_by(Publication.id.desc()).limit(1).scalar_subquery()
_state: ColumnElement[str] = func.coalesce(Decision.state, "undecided")
_DECIDED = and_(
    Decision.model_id == _IN_SERVICE,
    Decision.person_id == Interaction.person_id,
    Decision.item_id == Interaction.item_id,
)
_CATEGORIES = (
    select(ItemCategory.category).where(ItemCategory.item_id == Interaction.item_id).correlate(Interaction)
)


@lru_cache(maxsize=8)
def _rows(settings: ServiceSettings, dialect: str) -> Query:
    """Return the query of the interactions of the person `user`, in the order of `Row`, and their ids.

    Making a query takes longer than asking it, so it is made once.
    """
    effective = Effective(settings)
    asked = (
        select(
            Item.item,
            Item.title,
            categories_of_row(dialect),
            Interaction.at,
            effective.unwillingness,
            effective.source,
            case((Wish.scope == "category", Wish.target)),
            Wish.requested,
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
        .join(Person, Person.id == Interaction.person_id)
        .join(Item, Item.id == Interaction.item_id)
        .outerjoin(Decision, _DECIDED)
        .where(Person.user == bindparam("user"))
        .order_by(Interaction.at.desc(), Interaction.id.desc())
        .limit(bindparam("most"))
    )
    return effective.joined(asked)


def categories_of_row(dialect: str) -> ColumnElement[str]:
    """Return the categories of an interaction's item as a list in JSON, null if there are none."""
    named = _CATEGORIES.order_by(ItemCategory.place).subquery()
    listed = func.json_group_array if dialect == "sqlite" else func.json_agg
    return select(cast(listed(named.c.category), Text)).scalar_subquery()


def _asked(session: Session, settings: ServiceSettings) -> Query:
    return _rows(settings, session.get_bind().dialect.name)


def _shown(row: Any) -> Row:
    """Return a row of the query as people see it."""
    item, title, categories, *rest = row[:-1]
    return Row(item, title, tuple(json.loads(categories or "[]")), *rest)


def page(
    session: Session,
    settings: ServiceSettings,
    user: str,
    *,
    category: str | None = None,
    search: str | None = None,
    state: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Rows:
    """Return a page of a person's interactions, latest first; empty for somebody unknown."""
    asked = _asked(session, settings)
    if category is not None:
        asked = asked.where(literal(category).in_(_CATEGORIES))
    if search:
        found = func.lower(func.coalesce(Item.title, "") + " " + Item.item)
        asked = asked.where(found.contains(search.lower(), autoescape=True))
    if state is not None:
        if state not in STATES:
            raise AssentError(f"state {state!r}: accepted: {', '.join(STATES)}")
        asked = asked.where(_state == state)
    if cursor is not None:
        asked = asked.where(tuple_(Interaction.at, Interaction.id) < tuple_(*_place(cursor)))
    # On the connection itself: a session makes objects, which this page, the one asked most, does not need.
    rows = session.connection().execute(asked, {"user": user, "most": limit + 1}).all()
    shown = [_shown(row) for row in rows[:limit]]
    return Rows(shown, f"{shown[-1].at!r}~{rows[limit - 1][-1]}" if len(rows) > limit else None)


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
    asked = _asked(session, settings).where(Item.item == item)
    row = session.execute(asked, {"user": user, "most": 1}).first()
    if row is None:
        raise NotFoundError("interaction: there is none of this person and item")
    return _shown(row)


_WHO = select(Person.id).where(Person.user == bindparam("user")).scalar_subquery()
_counts = (
    select(_state, func.count())
    .select_from(Interaction)
    .outerjoin(Decision, _DECIDED)
    .where(Interaction.person_id == _WHO)
    .group_by(_state)
)
_counts_of_categories = (
    select(ItemCategory.category, func.count())
    .join(Interaction, Interaction.item_id == ItemCategory.item_id)
    .where(Interaction.person_id == _WHO)
    .group_by(ItemCategory.category)
)
_said_of_categories = select(Wish.target, Wish.unwillingness, Wish.requested).where(
    Wish.person_id == _WHO, Wish.in_force, Wish.scope == "category"
)


def counts(session: Session, user: str) -> dict[str, int]:
    """Return how many interactions a person has in each state, by the names of `Row.state`."""
    return dict.fromkeys(STATES, 0) | dict(session.execute(_counts, {"user": user}).all())


def category_names(session: Session, user: str) -> list[str]:
    """Return the categories of a person's interactions, most frequent first."""
    counted = session.connection().execute(_counts_of_categories, {"user": user}).all()
    return [name for name, _ in sorted(counted, key=lambda each: (-each[1], each[0]))]


def categories(session: Session, user: str) -> list[CategoryCount]:
    """Return the categories of a person's interactions, most frequent first, and those they wished about."""
    counted = dict(session.execute(_counts_of_categories, {"user": user}).all())
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
