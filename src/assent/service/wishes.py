"""What people say: of an item, of a category, of everything; and what follows for each interaction.

The most specific wish counts: one of the item before one of a category before one of everything; of an item's
categories the one that was said last. Without a wish, what the platform brought counts; without that, the
setting `unsaid`. A withdrawal is a wish of everything, never, and ends all wishes before it.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from time import time
from typing import Any, Final, Literal, NamedTuple, get_args
from uuid import uuid4

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from assent.service.database import (
    NotFoundError,
    find_by_index,
    given_rows,
    insert_many,
    is_given,
    query,
    together,
)
from assent.service.ledger import Event, Sealed, Turn, append, ask_turn, moment_text, number_of, take_turn
from assent.service.receipts import receipt_of, record_of
from assent.service.settings import ServiceSettings
from assent.service.tables import Item, Person, Receipt, Wish
from assent.support.errors import AssentError

Scope = Literal["item", "category", "everything"]
State = Literal["requested", "decided", "trained", "served"]


@dataclass(frozen=True)
class Said:
    """One thing that a person says."""

    scope: Scope
    target: str = ""
    """The item's id or the category's name; empty for everything."""
    unwillingness: float | None = None
    """From 0 to 1; None takes back what was said of the target."""
    withdrawal: bool = False
    """Withdraw everything: scope everything, unwillingness 1."""


WITHDRAW_EVERYTHING = Said("everything", "", 1.0, withdrawal=True)


@dataclass(frozen=True)
class Recorded:
    """A wish that is durably stored, and its receipt."""

    wish: int
    """Its id."""
    receipt: dict[str, Any]
    """The receipt of `requested`, as JSON."""


@dataclass(frozen=True)
class Standing:
    """A wish in force."""

    wish: int
    scope: Scope
    target: str
    title: str | None
    """Of the item."""
    unwillingness: float
    said: float
    withdrawal: bool


@dataclass(frozen=True)
class Past:
    """A wish of the history."""

    wish: int
    scope: Scope
    target: str
    title: str | None
    unwillingness: float | None
    before: float | None
    withdrawal: bool
    in_force: bool
    ended: float | None
    """When something else was said of the target, or everything was withdrawn; None as long as it counts."""
    requested: float
    decided: float | None
    trained: float | None
    served: float | None
    receipts: dict[str, str]
    """Ids of receipts by state."""


@dataclass(frozen=True)
class History:
    """A page of the history, latest first."""

    wishes: list[Past]
    next: str | None


@dataclass(frozen=True)
class Honoured:
    """How long it took from request to a state, in seconds."""

    state: State
    count: int
    median: float | None
    worst: float | None
    waiting: int
    """Wishes that have not got there."""


def check(said: Said) -> None:
    """Refuse what nobody can mean."""
    given = said.unwillingness
    if said.scope not in get_args(Scope):
        raise AssentError(f"scope {said.scope!r}: accepted: {', '.join(get_args(Scope))}")
    if (said.scope == "everything") != (said.target == ""):
        raise AssentError(f"target {said.target!r}: accepted: an item or a category; of everything, none")
    if given is not None and not (isfinite(given) and 0 <= given <= 1):
        raise AssentError(f"unwillingness {given!r}: accepted: a number from 0 to 1")
    if said.withdrawal and (said.scope, given) != ("everything", 1.0):
        raise AssentError("withdrawal: accepted: of everything, with unwillingness 1")


def record(
    session: Session, settings: ServiceSettings, asked: Sequence[tuple[str, Sequence[Said]]]
) -> list[list[Recorded] | Exception]:
    """Store what several people say, `asked` as (user, what they say), in one batch of the ledger.

    What is refused (an unknown person, item or category; a number out of range) is returned as an exception
    in its place, and nothing of that request is stored.
    """
    with together(session):
        find_by_index(session)
        turn = ask_turn(session)  # first: nobody of these is erased between being looked up and the commit
        known = _known(session, asked)
    found: list[list[Recorded] | Exception] = []
    heard: list[_Heard] = []
    told = iter(known())
    for place, (_, all_said) in enumerate(asked):
        try:
            found.append([])
            rows = list(islice(told, len(all_said)))
            heard += [_heard(place, said, row) for said, row in zip(all_said, rows, strict=True)]
        except AssentError as error:
            found[place] = error
    for place, recorded in _store(session, settings, turn(), heard):
        found[place].append(recorded)  # type: ignore[union-attr]
    return found


@dataclass(frozen=True)
class _Who:
    id: int
    pseudonym: str


@dataclass(frozen=True)
class _Heard:
    """Something that a person says, and what is in force for its target so far."""

    place: int
    """Of the request."""
    who: _Who
    said: Said
    earlier: int | None
    """The wish in force."""
    before: float | None
    """Its unwillingness."""


def _heard(place: int, said: Said, row: "_Known") -> _Heard:
    """Return something that is said, or refuse it."""
    if row.person is None:
        raise NotFoundError("person: nothing is known of them")
    check(said)
    # What a person has a wish on they can change, even if by now nothing is called so.
    if not row.is_known and row.wish is None:
        raise AssentError(f"{said.scope} {said.target!r}: nobody has it; accepted: one that is known")
    return _Heard(place, _Who(row.person, row.pseudonym), said, row.wish, row.unwillingness)


class _Known(NamedTuple):
    """What is known of a thing that is said."""

    place: int
    person: int | None
    pseudonym: str
    is_known: bool
    """Whether there is such a target."""
    wish: int | None
    """In force for the target."""
    unwillingness: float | None


def _known(session: Session, asked: Sequence[tuple[str, Sequence[Said]]]) -> Callable[[], Iterator[_Known]]:
    """Ask in one statement what is known of each thing that is said, and return what reads it, in order."""
    kinds = {"place": "bigint", "user": "text", "scope": "text", "target": "text"}
    # Each target is looked up by itself: for an EXISTS, PostgreSQL reads all items first, and keeps them.
    sql = (
        "SELECT given.place, person.id, person.pseudonym, CASE given.scope "
        "WHEN 'item' THEN (SELECT 1 FROM item WHERE item.item = given.target) IS NOT NULL "
        "WHEN 'category' THEN "
        "(SELECT 1 FROM item_category WHERE category = given.target LIMIT 1) IS NOT NULL "
        f"ELSE true END, wish.id, wish.unwillingness FROM {given_rows(session, kinds)} "
        'LEFT JOIN person ON person."user" = given."user" '
        "LEFT JOIN wish ON wish.person_id = person.id AND wish.scope = given.scope "
        "AND wish.target = given.target AND wish.in_force ORDER BY given.place"
    )
    rows = [
        {"user": user, "scope": said.scope, "target": said.target}
        for user, all_said in asked
        for said in all_said
    ]
    numbered = json.dumps([{"place": place, **row} for place, row in enumerate(rows)])
    found = query(sql).ask(session, rows=numbered)
    return lambda: map(_Known._make, found())


def _store(
    session: Session, settings: ServiceSettings, turn: Turn, heard: Sequence[_Heard]
) -> list[tuple[int, Recorded]]:
    """Write wishes in their order, with events and receipts; return each with its request's place."""
    if not heard:
        return []
    now = time()
    at = moment_text(now)
    stored = {_target(each): each.earlier for each in heard if each.earlier is not None}
    in_force = {_target(each): _InForce(each.before, None) for each in heard if each.before is not None}
    wishes: list[dict[str, Any]] = []
    events: list[Event] = []
    for number, each in enumerate(heard, turn.leaf):
        key, who, said = _target(each), each.who, each.said
        before = in_force.get(key)
        wish = {
            "id": number,
            "person_id": who.id,
            "scope": said.scope,
            "target": said.target,
            "unwillingness": said.unwillingness,
            "withdrawal": said.withdrawal,
            "before": None if before is None else before.unwillingness,
            "in_force": said.unwillingness is not None,
            "requested": now,
        }
        if said.withdrawal:
            in_force = {other: held for other, held in in_force.items() if other[0] != who.id}
            for earlier in wishes:
                earlier["in_force"] &= earlier["person_id"] != who.id
        elif before is not None and before.place is not None:
            wishes[before.place]["in_force"] = False
        in_force.pop(key, None)
        if said.unwillingness is not None:
            in_force[key] = _InForce(said.unwillingness, len(wishes))
        wishes.append(wish)
        events.append(_event(settings, who, wish, at, "requested", {}))
    batch = append(turn, events, at)
    kept = [
        _kept(event, each.who, wish["id"], "requested", done)
        for event, each, wish, done in zip(events, heard, wishes, batch.sealed, strict=True)
    ]
    with together(session):
        _end_earlier(session, heard, stored)
        insert_many(session, {**batch.rows, Wish: wishes, Receipt: kept})
        touch(session, {each.who.id for each in heard})
    return [
        (each.place, Recorded(done.number, receipt_of(row["id"], event.record or {}, done.proof)))
        for each, event, row, done in zip(heard, events, kept, batch.sealed, strict=True)
    ]


_Target = tuple[int, str, str]
"""Of a person's id: the scope and the target of a wish."""


def _target(each: _Heard) -> _Target:
    return each.who.id, each.said.scope, each.said.target


@dataclass(frozen=True)
class _InForce:
    unwillingness: float
    place: int | None
    """Among the wishes of this batch; None if it was stored before."""


def _end_earlier(session: Session, heard: Sequence[_Heard], stored: Mapping[_Target, int]) -> None:
    """Let stored wishes that are spoken of again, or withdrawn, no longer be in force."""
    withdrawn = {each.who.id for each in heard if each.said.withdrawal}
    replaced = [{"id": wish} for (person, _, _), wish in stored.items() if person not in withdrawn]
    for column, ids in (("person_id", [{"id": each} for each in withdrawn]), ("id", replaced)):
        if ids:
            these = is_given(session, column)
            sql = f"UPDATE wish SET in_force = false WHERE in_force AND {these}"
            query(sql).run(session, rows=json.dumps(ids))


def touch(session: Session, people: Iterable[int]) -> None:
    """Count a change of each of these people: what was made of an older version is stale."""
    changed = [{"id": each} for each in sorted(people)]
    if not changed:
        return
    given = given_rows(session, {"id": "bigint"})
    mine = f"SELECT person.id FROM person JOIN {given} ON given.id = person.id"
    if session.get_bind().dialect.name == "postgresql":
        # Whoever changes several people locks them in the same order: nobody waits in a circle.
        mine = f"{mine} ORDER BY person.id FOR NO KEY UPDATE OF person"
    these = "WHERE id IN (SELECT id FROM mine)"
    counted = f"WITH mine AS ({mine}) UPDATE person SET version = version + 1 {these}"
    query(counted).run(session, rows=json.dumps(changed))


def _event(
    settings: ServiceSettings,
    who: _Who,
    wish: Mapping[str, Any],
    at: str,
    state: State,
    outcome: Mapping[str, Any],
) -> Event:
    """Return the event of a wish that reaches a state, with its consent record."""
    said = {key: wish[key] for key in ("scope", "target", "unwillingness", "withdrawal")}
    record = record_of(
        settings,
        id=str(uuid4()),
        pseudonym=who.pseudonym,
        at=at,
        state=state,
        said={"wish": wish["id"], **said},
        before=wish["before"],
        outcome=outcome,
    )
    facts = {key: value for key, value in outcome.items() if key in _PUBLIC}
    return Event(f"wish {state}", facts, record)


_PUBLIC: Final = ("model", "model_hash", "values_of_model", "values_of_model_hash")
"""What of an outcome anybody may read in the ledger."""


def _kept(event: Event, who: _Who, wish: int, state: State, done: Sealed) -> dict[str, Any]:
    """Return the row of a receipt."""
    assert event.record is not None
    return {
        "id": event.record["dct:identifier"],
        "leaf": done.number,
        "person_id": who.id,
        "wish_id": wish,
        "state": state,
        "salt": done.salt,
        "content": done.content,
    }


def advance(
    session: Session, settings: ServiceSettings, state: State, outcomes: Mapping[int, Mapping[str, Any]]
) -> None:
    """Let wishes reach a state, each with its outcome by the wish's id; those that were there before stay."""
    column = {"decided": Wish.decided, "trained": Wish.trained, "served": Wish.served}[state]
    waiting = sorted(outcomes)
    turn, now = take_turn(session), time()
    at = moment_text(now)
    rows = session.execute(
        select(Wish.__table__, Person.pseudonym)
        .join(Person, Person.id == Wish.person_id)
        .where(Wish.id.in_(waiting), column.is_(None))
        .order_by(Wish.id)
    ).all()
    events, people = [], []
    for row in rows:
        who = _Who(row.person_id, row.pseudonym)
        people.append(who)
        events.append(_event(settings, who, dict(row._mapping), at, state, outcomes[row.id]))
    if not events:
        return
    batch = append(turn, events, at)
    kept = [_kept(each, who, row.id, state, done)
            for each, who, row, done in zip(events, people, rows, batch.sealed, strict=True)]  # fmt: skip
    insert_many(session, {**batch.rows, Receipt: kept})
    session.execute(update(Wish).values({column: now}).where(Wish.id.in_([row.id for row in rows])))


def standing(session: Session, user: str) -> list[Standing]:
    """Return a person's wishes in force: everything first, then categories, then items, each by target."""
    rows = session.execute(
        select(Wish, Item.title)
        .join(Person, Person.id == Wish.person_id)
        .outerjoin(Item, and_(Wish.scope == "item", Item.item == Wish.target))
        .where(Person.user == user, Wish.in_force)
    )
    found = [
        Standing(w.id, w.scope, w.target, title, w.unwillingness, w.requested, w.withdrawal)  # type: ignore[arg-type]
        for w, title in rows
    ]
    order = ("everything", "category", "item")
    return sorted(found, key=lambda each: (order.index(each.scope), each.target))


def history(
    session: Session, user: str, *, cursor: str | None = None, limit: int = 50, ended: bool = True
) -> History:
    """Return a page of all that a person said, latest first; unless left out, `ended` wishes too."""
    later = aliased(Wish)
    same = and_(later.scope == Wish.scope, later.target == Wish.target)
    replaced = select(func.min(later.requested)).where(
        later.person_id == Wish.person_id, later.id > Wish.id, or_(later.withdrawal, same)
    )
    end = replaced.correlate(Wish).scalar_subquery()
    asked = (
        select(Wish, Item.title, end)
        .join(Person, Person.id == Wish.person_id)
        .outerjoin(Item, and_(Wish.scope == "item", Item.item == Wish.target))
        .where(Person.user == user)
        .order_by(Wish.id.desc())
        .limit(limit + 1)
    )
    if cursor is not None:
        asked = asked.where(Wish.id < number_of(cursor))
    if not ended:
        asked = asked.where(end.is_(None))
    found = session.execute(asked).all()
    rows = found[:limit]
    ids: dict[int, dict[str, str]] = defaultdict(dict)
    shown = select(Receipt.wish_id, Receipt.state, Receipt.id).where(
        Receipt.wish_id.in_([wish.id for wish, _, _ in rows])
    )
    for row in session.execute(shown.order_by(Receipt.leaf)):  # served again after a roll-back: the last one
        ids[row.wish_id][row.state] = row.id
    past = [
        Past(
            wish=wish.id,
            scope=wish.scope,
            target=wish.target,
            title=title,
            unwillingness=wish.unwillingness,
            before=wish.before,
            withdrawal=wish.withdrawal,
            in_force=wish.in_force,
            ended=until,
            requested=wish.requested,
            decided=wish.decided,
            trained=wish.trained,
            served=wish.served,
            receipts=ids[wish.id],
        )
        for wish, title, until in rows
    ]
    return History(past, str(past[-1].wish) if len(found) > limit else None)


def times_to_honour(session: Session, *, days: float | None = None) -> list[Honoured]:
    """Return the time from request to decided, trained and served, of wishes of the last `days`."""
    since = 0.0 if days is None else time() - days * 86_400
    found: list[Honoured] = []
    states: tuple[tuple[State, Any], ...] = (
        ("decided", Wish.decided),
        ("trained", Wish.trained),
        ("served", Wish.served),
    )
    for state, column in states:
        took = (column - Wish.requested).label("took")
        recent = select(
            took, func.row_number().over(order_by=took).label("place"), func.count().over().label("n")
        )
        ordered = recent.where(column.is_not(None), Wish.requested >= since).subquery()
        # The median is the mean of the one or two in the middle; both databases can say that.
        middle = ordered.c.place.between(ordered.c.n / 2.0, ordered.c.n / 2.0 + 1)
        median = session.scalar(select(func.avg(ordered.c.took)).where(middle))
        count, worst = session.execute(
            select(func.count(), func.max(ordered.c.took)).select_from(ordered)
        ).one()
        waiting = session.scalar(select(func.count()).where(column.is_(None), Wish.requested >= since))
        found.append(Honoured(state, count, median, worst, waiting or 0))
    return found
