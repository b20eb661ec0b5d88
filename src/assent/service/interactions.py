"""What people did: adding, deleting, and the pages that people see of it."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from time import time
from typing import Any, Final, NamedTuple
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    bindparam,
    cast,
    func,
    select,
    text,
    tuple_,
)
from sqlalchemy import delete as deleting
from sqlalchemy.orm import Session, aliased

from assent.service.database import NotFoundError, Query, given_rows, query
from assent.service.effective import Brought, Effective
from assent.service.items import Changed, add_items
from assent.service.ledger import note, take_turn
from assent.service.security import hashed
from assent.service.settings import ServiceSettings
from assent.service.tables import (
    Decision,
    Interaction,
    Item,
    ItemCategory,
    Link,
    Model,
    Person,
    Publication,
    Reply,
    Visit,
    Wish,
)
from assent.service.wishes import touch
from assent.support.errors import AssentError

LONGEST: Final = 1024
"""Most characters of an id, a title or a category."""
CONTROL: Final = re.compile("[\\x00-\\x1f\\x7f]")
"""Characters that no id, title or category has."""
_UPLOADING: Final = 7_263_003
"""The number of PostgreSQL's lock that uploads hold."""
_SOME: Final = 10_000
"""Rows in one statement."""
DELETED: Final = "interaction deleted"
ERASED: Final = "person erased"
CONSENT: Final = "consent changed"
"""Events of the ledger. The last: the platform brought what is minded more, or otherwise, from then on."""
STATES: Final = ("used", "withheld", "never", "closed", "undecided")
CHANGED: Final = "changed"
"""What `page` takes as a state, too: another one than in the model that was in service before."""


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
    """Pairs of a person and an item that were there already: their time stays as it is."""
    consents: int = 0
    """Known ones for which the platform brought another unwillingness than before, which counts now."""


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


def add(session: Session, interactions: Sequence[NewInteraction]) -> Added:
    """Add interactions, with people and items that are new; return how many were new.

    Of a known one, its item's title and categories and its unwillingness are replaced where they are given.
    """
    for place, each in enumerate(interactions, 1):
        _check(each, f"interaction {place}")
    _take_turn(session, alone=len(interactions) > 1)
    now, added, touched, differing, consents = time(), 0, set[int](), 0, 0
    parts = [interactions[start : start + _SOME] for start in range(0, len(interactions), _SOME)]
    for some in parts:  # first what may take the ledger's turn: others hold it while they wait for rows
        _add_people(session, {each.user for each in some}, now)
        changed = _add_items(session, some)
        touched |= changed.people
        differing += changed.interactions
        owners = _set_consents(session, some)
        touched |= set(owners)
        consents += len(owners)
    if differing := differing + consents:
        note(session, CONSENT, interactions=differing)
    for some in parts:
        new = _add_new(session, some, now)
        touched |= set(new)
        added += len(new)
    touch(session, touched)
    return Added(added, len(interactions) - added, consents)


def _take_turn(session: Session, *, alone: bool) -> None:
    """Let uploads of several rows, which could wait for each other's rows in a circle, take turns."""
    if session.get_bind().dialect.name == "postgresql":
        how = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
        query(f"SELECT {how}(:key)").run(session, key=_UPLOADING)


def _check(each: NewInteraction, place: str) -> None:
    texts = {"user": each.user, "item": each.item, "title": each.title}
    texts |= {f"category {number}": name for number, name in enumerate(each.categories or (), 1)}
    for name, said in texts.items():
        if said is None and name == "title":
            continue
        if not isinstance(said, str) or not 0 < len(said) <= LONGEST or CONTROL.search(said):
            raise AssentError(f"{place}: {name}: accepted: a printable text of 1 to {LONGEST} characters")
    if not isfinite(each.at) or abs(each.at) > 1e11:
        raise AssentError(f"{place}: at {each.at!r}: accepted: seconds since 1970")
    if each.unwillingness is not None and not 0 <= each.unwillingness <= 1:
        raise AssentError(f"{place}: unwillingness {each.unwillingness!r}: accepted: a number from 0 to 1")


def _add_people(session: Session, users: Iterable[str], now: float) -> None:
    given = given_rows(session, {"user": "text", "pseudonym": "text"})
    known = 'SELECT 1 FROM person WHERE person."user" = given."user"'
    asked = (
        'INSERT INTO person ("user", pseudonym, added, version) '
        f'SELECT given."user", given.pseudonym, :now, 0 FROM {given} '
        f"WHERE NOT EXISTS ({known}) ON CONFLICT DO NOTHING"
    )
    rows = [{"user": user, "pseudonym": str(uuid4())} for user in sorted(users)]
    query(asked).run(session, rows=json.dumps(rows), now=now)


def _add_items(session: Session, some: Sequence[NewInteraction]) -> Changed:
    """Add items that are new; given titles and categories replace."""
    titles: dict[str, str | None] = {}
    categories: dict[str, Sequence[str]] = {}
    for each in some:
        titles[each.item] = each.title or titles.get(each.item)
        if each.categories is not None:
            categories[each.item] = list(dict.fromkeys(each.categories))
    return add_items(session, titles, categories)


def _set_consents(session: Session, some: Sequence[NewInteraction]) -> list[int]:
    """Set what is brought of the consent to known interactions; return whose they are, once for each."""
    said = {
        (each.user, each.item): each.unwillingness for each in some if each.unwillingness is not None
    }  # the last, of a pair that comes twice
    if not said:
        return []
    kinds = {"user": "text", "item": "text", "unwillingness": "double precision"}
    other = (
        "(interaction.unwillingness IS NULL OR interaction.unwillingness <> given.unwillingness) "
        "AND interaction.person_id = person.id AND interaction.item_id = item.id"
    )
    known = (
        f'{given_rows(session, kinds)} JOIN person ON person."user" = given."user" '
        "JOIN item ON item.item = given.item"
    )
    rows = json.dumps([{"user": user, "item": item, "unwillingness": minded}
                       for (user, item), minded in said.items()])  # fmt: skip
    if not query(f"SELECT 1 FROM {known} JOIN interaction ON {other} LIMIT 1").rows(session, rows=rows):
        return []
    take_turn(session)  # before rows are changed that somebody who has it may want to delete
    asked = (
        f"UPDATE interaction SET unwillingness = given.unwillingness FROM {known} WHERE {other} "
        "RETURNING person_id"
    )
    return [person for (person,) in query(asked).rows(session, rows=rows)]


def _add_new(session: Session, some: Sequence[NewInteraction], now: float) -> list[int]:
    """Add interactions that are new; return whose they are, once for each."""
    kinds = {"user": "text", "item": "text", "at": "double precision", "unwillingness": "double precision"}
    asked = (
        "INSERT INTO interaction (person_id, item_id, at, unwillingness, added) "
        "SELECT person.id, item.id, given.at, given.unwillingness, :now "
        f"FROM {given_rows(session, kinds)} "
        'JOIN person ON person."user" = given."user" JOIN item ON item.item = given.item '
        "WHERE true ORDER BY person.id, item.id ON CONFLICT DO NOTHING RETURNING person_id"
    )
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for each in some:  # of a pair that comes twice, the first time and the last unwillingness count
        row = {name: getattr(each, name) for name in kinds}
        there = rows.setdefault((each.user, each.item), row)
        if each.unwillingness is not None:
            there["unwillingness"] = each.unwillingness
    given = json.dumps(list(rows.values()))
    return [person for (person,) in query(asked).rows(session, rows=given, now=now)]


def delete(session: Session, user: str, item: str) -> None:
    """Delete an interaction; `NotFoundError` if there is none. It is no longer served from, at once."""
    if not delete_many(session, [(user, item)]):
        raise NotFoundError("interaction: there is none of this person and item")


def delete_many(session: Session, pairs: Sequence[tuple[str, str]]) -> int:
    """Delete interactions, given as user and item; return how many there were."""
    given = given_rows(session, {"user": "text", "item": "text"})
    asked = (
        f'SELECT interaction.id FROM {given} JOIN person ON person."user" = given."user" '
        "JOIN item ON item.item = given.item "
        "JOIN interaction ON interaction.person_id = person.id AND interaction.item_id = item.id"
    )
    rows = json.dumps([{"user": user, "item": item} for user, item in pairs])
    found = sorted(set(session.scalars(text(asked), {"rows": rows})))
    if not found:
        return 0
    note(session, DELETED)  # first: whoever writes wishes takes the ledger before people, too
    these = f"SELECT given.id FROM {given_rows(session, {'id': 'bigint'})}"
    gone = text(f"DELETE FROM interaction WHERE id IN ({these}) RETURNING person_id")
    people = list(session.scalars(gone, {"rows": json.dumps([{"id": each} for each in found])}))
    touch(session, set(people))
    return len(people)


def exists(session: Session, user: str) -> bool:
    """Return whether anything is known of a person."""
    return session.scalar(select(Person.id).where(Person.user == user)) is not None


def erase(session: Session, user: str) -> None:
    """Delete all that is known of a person: what they did and said, decisions, receipts, links, replies.

    The ledger keeps that there were events; nobody can link them to the person any more. Models that were
    trained on what the person disclosed stay until the next one is trained.
    """
    person = session.scalar(select(Person.id).where(Person.user == user))
    if person is None:
        raise NotFoundError("person: nothing is known of them")
    note(session, ERASED)
    for table in (Link, Visit):
        session.execute(deleting(table).where(table.person == user))
    session.execute(deleting(Reply).where(Reply.person == hashed(user)))
    session.execute(deleting(Person).where(Person.id == person))  # the rest goes with it


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
    wanted = [Person.user == bindparam("user"), *(_FILTERS[each] for each in narrowed)]
    latest_first = (Interaction.at.desc(), Interaction.id.desc())
    if not {*narrowed} - {"after_id"}:  # then what is shown is known before anything is joined to it
        ids = select(Interaction.id).join(Person, Person.id == Interaction.person_id).where(*wanted)
        wanted = [Interaction.id.in_(ids.order_by(*latest_first).limit(bindparam("most")))]
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
        .join(Person, Person.id == Interaction.person_id)
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


def _found(session: Session, settings: ServiceSettings, **given: Any) -> list[tuple[Any, ...]]:
    narrowed = tuple(each for each in _FILTERS if each in given)
    return _rows(settings, session.get_bind().dialect.name, narrowed).rows(session, **given)


@lru_cache(maxsize=10_000)
def categories_in(listed: str | None) -> tuple[str, ...]:
    """Return the categories that `categories_of_row` listed."""
    return tuple(json.loads(listed or "[]"))


def _shown(row: tuple[Any, ...]) -> Row:
    """Return a row of the query as people see it."""
    item, title, categories, *rest = row[:-1]
    return Row(item, title, categories_in(categories), *rest)


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
    rows = _found(session, settings, user=user, most=limit + 1, **given)
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
    found = _found(session, settings, user=user, item=item, most=1)
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


_WHO = select(Person.id).where(Person.user == bindparam("user")).scalar_subquery()
_counts = (
    select(_state, func.count())
    .select_from(Interaction)
    .outerjoin(Decision, _DECIDED)
    .where(Interaction.person_id == _WHO)
    .group_by(_state)
)
_counts_of_categories: Final = Query(
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


def states_before(session: Session, user: str) -> dict[str, str]:
    """Return the items whose state was another in the model that was in service before, with that state."""
    asked = (
        select(Item.item, _state_before)
        .select_from(Interaction)
        .join(Item, Item.id == Interaction.item_id)
        .outerjoin(Decision, _DECIDED)
        .where(Interaction.person_id == _WHO, _HAS_CHANGED)
    )
    return dict(session.execute(asked, {"user": user}).all())


def category_names(session: Session, user: str) -> list[str]:
    """Return the categories of a person's interactions, most frequent first."""
    counted = _counts_of_categories.rows(session, user=user)
    return [name for name, _ in sorted(counted, key=lambda each: (-each[1], each[0]))]


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
