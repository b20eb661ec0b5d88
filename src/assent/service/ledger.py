"""The ledger: an append-only log of events without personal data, and the receipts that only owners hold.

A transaction appends all its events as one sealed batch (`ledger_check` says how). Writers take turns from
reading the last head to their commit, so that heads form one chain and numbers rise in the order of commits.
Many events cost one turn: whoever writes often collects them first (`recorder.Recorder`).
"""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from time import time
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from assent.service.database import NotFoundError, Query, Rows, insert_many, together
from assent.service.ledger_check import (
    FORMAT,
    Finding,
    canonical,
    check_receipt,
    digest_of_text,
    first_head,
    head_of,
    leaf_hash,
    levels_of,
    path_in,
)
from assent.service.receipts import receipt_of
from assent.service.tables import Leaf, Meta, Person, Receipt, Seal, Table
from assent.support.errors import AssentError

_APPENDING: Final = 7_263_002
"""The number of PostgreSQL's lock that a transaction holds from reading the last head to its commit."""
_CLOCK: Final = "%Y-%m-%dT%H:%M:%S.%fZ"
_DIGITS: Final = 18
"""Of a cursor: as many as a number of the database surely holds."""
NOTHING: Final = sha256(b"").hexdigest()
"""The digest of an event that has no receipt."""


@dataclass(frozen=True)
class Head:
    """A seal."""

    number: int
    first: int
    count: int
    at: str
    root: str
    head: str


@dataclass(frozen=True)
class Entry:
    """An event that anybody may read."""

    number: int
    at: str
    event: str
    facts: dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """The right to append the next batch, until the transaction ends."""

    ledger: str
    leaf: int
    seal: int
    previous: str


@dataclass(frozen=True)
class Event:
    """An event to append; with a consent record, if it concerns a person."""

    event: str
    facts: Mapping[str, Any]
    record: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Sealed:
    """An event that was appended, and the proof of it."""

    number: int
    salt: str
    content: str | None
    """The consent record as canonical JSON."""
    proof: dict[str, Any]


@dataclass(frozen=True)
class Batch:
    """Events that are sealed once their rows are inserted, in the transaction that took the turn."""

    sealed: list[Sealed]
    rows: dict[type[Table], Rows]


def moment_text(moment: float) -> str:
    """Return seconds since 1970 as a time in UTC, to the microsecond."""
    return datetime.fromtimestamp(moment, UTC).strftime(_CLOCK)


def moment_of(text: str) -> float:
    """Return the seconds since 1970 of a time as `moment_text` writes it."""
    return datetime.strptime(text, _CLOCK).replace(tzinfo=UTC).timestamp()


def take_turn(session: Session) -> Turn:
    """Wait until nobody else appends, and return where this transaction may."""
    with together(session):
        asked = ask_turn(session)
    return asked()


def ask_turn(session: Session) -> Callable[[], Turn]:
    """Do the same where other queries go `together` with it; they see what is there once it is its turn."""
    if session.get_bind().dialect.name == "postgresql":
        _ALONE.run(session, key=_APPENDING)
    last = _LAST.ask(session)

    def turn() -> Turn:
        [(ledger, number, first, size, head)] = last()
        if number is None:
            return Turn(ledger, 0, 0, first_head(ledger))
        return Turn(ledger, first + size, number + 1, head)

    return turn


_ALONE: Final = Query("SELECT pg_advisory_xact_lock(:key)")
_LAST: Final = Query(
    select(Meta.value, Seal.number, Seal.first, Seal.count, Seal.head)
    .select_from(Meta)
    .outerjoin(Seal, Seal.number == select(func.max(Seal.number)).scalar_subquery())
    .where(Meta.name == "ledger")
)


def append(turn: Turn, events: Sequence[Event], at: str) -> Batch:
    """Seal events as one batch: what proves each, and the rows to insert; a turn is good for one batch."""
    if not events:
        return Batch([], {})
    salts = [secrets.token_hex(32) for _ in events]
    contents = [None if each.record is None else canonical(each.record) for each in events]
    leaves = [
        {
            "leaf": turn.leaf + place,
            "at": at,
            "event": each.event,
            "digest": NOTHING if content is None else digest_of_text(content, salt),
            "facts": dict(each.facts),
        }
        for place, (each, salt, content) in enumerate(zip(events, salts, contents, strict=True))
    ]
    levels = levels_of([leaf_hash(each) for each in leaves])
    seal = {
        "seal": turn.seal,
        "first": turn.leaf,
        "count": len(leaves),
        "at": at,
        "root": levels[-1][0].hex(),
    }
    seal["head"] = head_of(turn.previous, seal)
    rows = [
        {
            "number": each["leaf"],
            "at": at,
            "event": each["event"],
            "digest": each["digest"],
            "facts": canonical(each["facts"]),
        }
        for each in leaves
    ]
    named = {"number": seal["seal"], **{key: value for key, value in seal.items() if key != "seal"}}
    sealed = [
        Sealed(
            turn.leaf + place,
            salt,
            content,
            {
                "ledger": turn.ledger,
                "salt": salt,
                "leaf": leaf,
                "path": path_in(levels, place),
                "previous": turn.previous,
                "seal": seal,
            },
        )
        for place, (leaf, salt, content) in enumerate(zip(leaves, salts, contents, strict=True))
    ]
    return Batch(sealed, {Leaf: rows, Seal: [named]})


def note(session: Session, event: str, **facts: Any) -> int:
    """Append an event that concerns no single person; return its number. `facts` hold no personal data."""
    batch = append(take_turn(session), [Event(event, facts)], moment_text(time()))
    insert_many(session, batch.rows)
    return batch.sealed[0].number


def last_number(session: Session) -> int:
    """Return the number of the last event; -1 if there is none."""
    found = session.scalar(select(func.max(Leaf.number)))
    return -1 if found is None else found


def receipts_of(
    session: Session, user: str, *, cursor: str | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of a person's receipts as JSON, latest first, and the next cursor."""
    asked = select(Receipt).join(Person).where(Person.user == user).order_by(Receipt.leaf.desc())
    if cursor is not None:
        asked = asked.where(Receipt.leaf < number_of(cursor))
    found = session.scalars(asked.limit(limit + 1)).all()
    return _receipts(session, found[:limit]), str(found[limit - 1].leaf) if len(found) > limit else None


def receipt(session: Session, id: str, *, user: str | None = None) -> dict[str, Any]:
    """Return a receipt as JSON; `NotFoundError` if there is none, or it is not of the `user` given."""
    asked = select(Receipt).where(Receipt.id == id)
    if user is not None:
        asked = asked.join(Person).where(Person.user == user)
    found = session.scalar(asked)
    if found is None:
        raise NotFoundError("receipt: there is none with this id")
    return _receipts(session, [found])[0]


@dataclass(frozen=True)
class _Batch:
    """A seal and what it sealed, as receipts prove it."""

    seal: Mapping[str, Any]
    previous: str
    leaves: list[dict[str, Any]]
    levels: list[list[bytes]]


def _receipts(session: Session, rows: Sequence[Receipt]) -> list[dict[str, Any]]:
    """Return receipts as JSON; the batch of neighbours is read once."""
    ledger, found, batch = _ledger_id(session), [], None
    for row in rows:
        if batch is None or not 0 <= row.leaf - batch.seal["first"] < batch.seal["count"]:
            batch = _batch(session, row.leaf)
        place = row.leaf - batch.seal["first"]
        proof = {
            "ledger": ledger,
            "salt": row.salt,
            "leaf": batch.leaves[place],
            "path": path_in(batch.levels, place),
            "previous": batch.previous,
            "seal": batch.seal,
        }
        found.append(receipt_of(row.id, json.loads(row.content), proof))
    return found


def _batch(session: Session, leaf: int) -> _Batch:
    """Return the batch that a leaf is in."""
    seal = session.scalars(select(Seal).where(Seal.first <= leaf).order_by(Seal.first.desc()).limit(1)).one()
    sealed = Leaf.number.between(seal.first, seal.first + seal.count - 1)
    rows = session.execute(select(Leaf.__table__).where(sealed).order_by(Leaf.number))
    leaves = [_leaf_line(each) for each in rows]
    levels = levels_of([leaf_hash(each) for each in leaves])
    return _Batch(_seal_line(seal), _head_before(session, seal.number), leaves, levels)


def verify_receipt(session: Session, receipt: Any) -> list[Finding]:
    """Return what is wrong with a receipt, by itself and against the ledger; empty if nothing is."""
    found = check_receipt(receipt)
    if found:
        return found
    proof = receipt["proof"]
    if proof["ledger"] != _ledger_id(session):
        return [Finding("receipt", "is of another ledger")]
    seal = session.get(Seal, proof["seal"]["seal"])
    if seal is None or _seal_line(seal) != proof["seal"]:
        return [Finding("receipt", "its seal is not in the ledger")]
    leaf = session.get(Leaf, proof["leaf"]["leaf"])
    if leaf is None or _leaf_line(leaf) != proof["leaf"]:
        return [Finding("receipt", "its event is not in the ledger")]
    return []


def heads(session: Session, *, cursor: int | None = None, limit: int = 50) -> tuple[list[Head], int | None]:
    """Return a page of seals, latest first, and the next cursor."""
    asked = select(Seal).order_by(Seal.number.desc())
    if cursor is not None:
        asked = asked.where(Seal.number < cursor)
    found = session.scalars(asked.limit(limit + 1)).all()
    page = [Head(s.number, s.first, s.count, s.at, s.root, s.head) for s in found[:limit]]
    return page, page[-1].number if len(found) > limit else None


def entries(
    session: Session, *, events: tuple[str, ...] = (), cursor: int | None = None, limit: int = 50
) -> tuple[list[Entry], int | None]:
    """Return a page of events, latest first, and the next cursor: the audit log."""
    asked = select(Leaf).order_by(Leaf.number.desc())
    if events:
        asked = asked.where(Leaf.event.in_(events))
    if cursor is not None:
        asked = asked.where(Leaf.number < cursor)
    found = session.scalars(asked.limit(limit + 1)).all()
    page = [Entry(each.number, each.at, each.event, json.loads(each.facts)) for each in found[:limit]]
    return page, page[-1].number if len(found) > limit else None


def export_lines(session: Session) -> Iterator[str]:
    """Yield the whole ledger as lines of JSON, which `assent verify` checks offline.

    The session has to see one moment (`Database.snapshot`).
    """
    ledger = _ledger_id(session)
    last = session.scalar(select(Seal).order_by(Seal.number.desc()).limit(1))
    yield canonical(
        {
            "assent_ledger": FORMAT,
            "ledger": ledger,
            "leaves": 0 if last is None else last.first + last.count,
            "seals": 0 if last is None else last.number + 1,
            "head": first_head(ledger) if last is None else last.head,
        }
    )
    seals = iter(
        session.execute(select(Seal.__table__).order_by(Seal.number).execution_options(yield_per=1000))
    )
    seal = next(seals, None)
    leaves = select(Leaf.__table__).order_by(Leaf.number).execution_options(yield_per=1000)
    for leaf in session.execute(leaves):
        while seal is not None and leaf.number >= seal.first + seal.count:
            yield canonical(_seal_line(seal))
            seal = next(seals, None)
        yield canonical(_leaf_line(leaf))
    while seal is not None:
        yield canonical(_seal_line(seal))
        seal = next(seals, None)


def number_of(cursor: str) -> int:
    """Return the number that a cursor holds."""
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= _DIGITS):
        raise AssentError("cursor: accepted: what the page before gave")
    return int(cursor)


def _ledger_id(session: Session) -> str:
    return session.scalars(select(Meta.value).where(Meta.name == "ledger")).one()


def _head_before(session: Session, seal: int) -> str:
    if seal == 0:
        return first_head(_ledger_id(session))
    return session.scalars(select(Seal.head).where(Seal.number == seal - 1)).one()


def _leaf_line(leaf: Any) -> dict[str, Any]:
    return {
        "leaf": leaf.number,
        "at": leaf.at,
        "event": leaf.event,
        "digest": leaf.digest,
        "facts": json.loads(leaf.facts),
    }


def _seal_line(seal: Any) -> dict[str, Any]:
    return {
        "seal": seal.number,
        "first": seal.first,
        "count": seal.count,
        "at": seal.at,
        "root": seal.root,
        "head": seal.head,
    }
