"""What people did, as platforms bring it: adding, deleting, and erasing people."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from time import time
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import delete as deleting
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from assent.service.database import NotFoundError, given_rows, query
from assent.service.items import Changed, add_items
from assent.service.ledger import note, take_turn
from assent.service.security import hashed
from assent.service.tables import Link, Person, Reply, Visit
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
