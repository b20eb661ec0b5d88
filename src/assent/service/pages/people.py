"""A person's pages. Who that is comes from the visit alone: no address or field names a person."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import Response
from sqlalchemy.orm import Session

from assent.service import entries, ledger, models, people, security, wishes
from assent.service.access import Door, VisitOf, text_of
from assent.service.database import NotFoundError, together
from assent.service.entries import CHANGED, STATES, Row
from assent.service.pages import render
from assent.service.pages.forms import (
    LONGEST,
    changes_of,
    name_of,
    names_of,
    part_of,
    said_of,
    title_of,
    user_of,
)
from assent.service.pages.previews import SHOWN
from assent.service.pages.render import address, draw, go, options, sent
from assent.service.pages.shown import (
    about,
    before_shown,
    choice_of,
    entry_rows,
    how_trained,
    recommendation_shown,
    what_of,
    wish_shown,
)
from assent.service.routes.receipts import ledger_response
from assent.service.security import PERSON, Visitor
from assent.service.texts import Texts
from assent.service.wishes import WITHDRAW_EVERYTHING, Said

router = APIRouter(prefix="/me", include_in_schema=False)
Person = Annotated[Door, VisitOf(PERSON)]
ROWS: Final = 50
FILES: Final = {"most": 10, "seconds": 3600}
"""How many times a person may take the whole ledger, and how many times all that is known of them."""
_FIGURES: Final = ("value", "cost", "price", "break_even", "worth_owner", "worth_everybody", "together")


@router.get("")
def overview(door: Person) -> Response:
    """What is known, in numbers; one choice for everything; how far wishes are."""
    settings, texts = door.service.settings, render.texts_of(door.request)
    with door.reading() as (session, visitor):
        user = user_of(visitor)
        states = entries.counts(session, user)
        latest = wishes.history(session, user, limit=3, ended=False).wishes
        everything = _everything(session, user)
        changed = entries.states_before(session, user)
        model = models.in_service(session)
    counts = {
        "known": sum(states.values()),
        "used": states.get("used", 0),
        "withheld": states.get("withheld", 0),
        "never": states.get("never", 0) + states.get("closed", 0),
        "waiting": states.get("undecided", 0),
    }
    chosen = sent(everything)
    is_other = everything is not None and chosen not in [choice.value for choice in texts.choices]
    return draw(
        door.request,
        "overview.html",
        visitor=visitor,
        counts=counts,
        everything=None if everything is None else chosen,
        other=texts.choice(everything) if is_other and everything is not None else None,
        unsaid=texts(
            "overview.unsaid", platform=settings.controller.name, choice=texts.choice(settings.unsaid)
        ),
        wishes=[wish_shown(texts, each, address(door.request, "/me/receipts/")) for each in latest],
        changed=texts.counted("overview.changed", len(changed)) if changed else None,
        model=None if model is None else {"published": model.published, "hash": model.model_hash[:16]},
    )


@router.get("/entries")
def list_entries(door: Person) -> Response:
    """What is known, by time and category, with search."""
    settings, texts = door.service.settings, render.texts_of(door.request)
    search, category = door.asked("search").strip()[:LONGEST], door.asked("category")
    state, cursor = door.asked("state"), door.asked("cursor")
    with door.reading() as (session, visitor):
        user = user_of(visitor)
        with together(session):
            page = entries.ask_page(
                session,
                settings,
                user,
                category=category or None,
                search=search or None,
                state=state if state in (*STATES, CHANGED) else None,
                cursor=cursor or None,
                limit=ROWS,
            )
            names = entries.ask_category_names(session, user)
        found, categories = page(), names()
        before = entries.states_before(session, user) if state == CHANGED else {}
    asked: dict[str, Any] = {
        "search": search,
        "category": category,
        "state": state if state in (*STATES, CHANGED) else "",
    }
    return draw(
        door.request,
        "entries.html",
        visitor=visitor,
        rows=entry_rows(texts, address(door.request, "/me/entry?item="), found.rows, before),
        categories=categories,
        states=(*STATES, CHANGED),
        cursor=cursor,
        empty=texts("entries.nothing" if any(asked.values()) or cursor else "entries.empty"),
        first=address(door.request, "/me/entries", **asked) if cursor else None,
        next=address(door.request, "/me/entries", **asked, cursor=found.next) if found.next else None,
        **asked,
    )


@router.post("/entries")
def choose_entries(door: Person) -> Response:
    """Store the choices of a page that changed."""
    visitor, form = door.check(), door.posted
    changes = changes_of(form, "item")
    with door.reading() as (session, _):
        names_of(door, session, visitor, changes)
    return go(door.request, "/me/entries", **part_of(form), said=_say(door, visitor, changes))


@router.get("/entry")
def entry(door: Person) -> Response:
    """One entry: what it is, what the model did with it and why, and the choice."""
    settings, texts = door.service.settings, render.texts_of(door.request)
    with door.reading() as (session, visitor):
        row = entries.one(session, settings, user_of(visitor), door.asked("item"))
        before = entries.states_before(session, user_of(visitor)).get(row.item)
        model = models.in_service(session)
    is_own = row.source == "item"
    figures = _figures(texts, row, None if model is None else model.facts["price"])
    choice = texts.choice(row.unwillingness)
    return draw(
        door.request,
        "entry.html",
        visitor=visitor,
        item=row.item,
        name=row.title or row.item,
        about=about(texts, row),
        state=row.state,
        why=texts.why(row),
        before=None if before is None else before_shown(texts, before),
        figures=figures,
        chosen=sent(row.unwillingness) if is_own else None,
        counts_now=texts("entry.now", choice=choice, source=texts.source(row, settings.controller.name)),
        inherited=texts("entry.inherited"),
    )


def _figures(texts: Texts, row: Row, price: float | None) -> list[tuple[str, str]]:
    """Return what decided on an entry, each with its name; `price` is that of the model in service."""
    if row.value is None:
        return []
    known = {**row._asdict(), "price": price}
    return [(texts(f"entry.{name}"), f"{known[name]:.4g}") for name in _FIGURES if known[name] is not None]


@router.post("/entry")
def choose_entry(door: Person) -> Response:
    """Store the choice for one entry."""
    return _choose(door, "item", "/me/entry")


@router.post("/everything")
def choose_everything(door: Person) -> Response:
    """Store the choice for everything."""
    return _choose(door, "everything", "/me")


@router.get("/categories")
def categories(door: Person) -> Response:
    """The categories of what is known, with a choice for each."""
    texts = render.texts_of(door.request)
    with door.reading() as (session, visitor):
        found = entries.categories(session, user_of(visitor))
    rows = [
        {
            "name": each.category,
            "about": texts.counted("categories.count", each.count),
            "of": texts("categories.of", name=each.category),
            "address": address(door.request, "/me/category", category=each.category),
            "entries": address(door.request, "/me/entries", category=each.category),
            "label": texts("categories.label", name=each.category),
            "was": sent(each.unwillingness),
            "options": options(texts, each.unwillingness, "category", None),
        }
        for each in found
    ]
    return draw(door.request, "categories.html", visitor=visitor, rows=rows)


@router.post("/categories")
def choose_categories(door: Person) -> Response:
    """Store the choices for categories that changed."""
    visitor, form = door.check(), door.posted
    changes = changes_of(form, "category")
    with door.reading() as (session, _):
        names_of(door, session, visitor, changes)
    return go(door.request, "/me/categories", said=_say(door, visitor, changes))


@router.get("/category")
def category(door: Person) -> Response:
    """One category: how many entries, what counts, and the choice."""
    texts, name = render.texts_of(door.request), door.asked("category")
    with door.reading() as (session, visitor):
        found = [each for each in entries.categories(session, user_of(visitor)) if each.category == name]
    if not found:
        raise NotFoundError("category: there is none of this person")
    [theirs] = found
    return draw(
        door.request,
        "category.html",
        visitor=visitor,
        name=name,
        about=texts.counted("category", theirs.count),
        entries=address(door.request, "/me/entries", category=name),
        chosen=None if theirs.unwillingness is None else sent(theirs.unwillingness),
        inherited=texts("category.inherited"),
    )


@router.post("/category")
def choose_category(door: Person) -> Response:
    """Store the choice for one category."""
    return _choose(door, "category", "/me/categories")


@router.get("/recommendations")
def recommendations(door: Person) -> Response:
    """What is recommended, and why."""
    texts = render.texts_of(door.request)
    with door.reading() as (session, visitor):
        found = door.service.server.recommend(session, user_of(visitor), SHOWN)
    return draw(
        door.request,
        "recommendations.html",
        visitor=visitor,
        recommendations=[recommendation_shown(texts, each) for each in found.items],
        basis=texts("recommendations.own" if found.basis == "own" else "recommendations.general"),
    )


@router.get("/history")
def history(door: Person) -> Response:
    """All that was said, how far each wish is, and its receipts."""
    texts, cursor = render.texts_of(door.request), door.asked("cursor")
    with door.reading() as (session, visitor):
        found = wishes.history(session, user_of(visitor), cursor=cursor or None, limit=20)
    return draw(
        door.request,
        "history.html",
        visitor=visitor,
        wishes=[wish_shown(texts, each, address(door.request, "/me/receipts/")) for each in found.wishes],
        first=address(door.request, "/me/history") if cursor else None,
        next=address(door.request, "/me/history", cursor=found.next) if found.next else None,
    )


@router.get("/receipts/{receipt}")
def receipt_page(door: Person, receipt: UUID) -> Response:
    """A receipt in words, checked against the ledger."""
    texts = render.texts_of(door.request)
    with door.reading() as (session, visitor):
        found = ledger.receipt(session, str(receipt), user=user_of(visitor))
        findings = ledger.verify_receipt(session, found)
        shown = _receipt(door, session, visitor, texts, found)
    facts = [
        (texts("receipt.about"), shown["what"]),
        (texts("receipt.said"), shown["choice"]),
        (texts("receipt.when"), shown["when"]),
        (texts("receipt.id"), found["dct:identifier"]),
        (texts("receipt.leaf"), found["proof"]["leaf"]["leaf"]),
    ]
    return draw(
        door.request,
        "receipt.html",
        visitor=visitor,
        sentence=texts(f"receipt.{shown['state']}"),
        how=how_trained(texts, found),
        findings=[str(each) for each in findings],
        facts=facts,
        download=address(door.request, f"/me/receipts/{receipt}/receipt.json"),
    )


@router.get("/receipts/{receipt}/receipt.json")
def receipt_file(door: Person, receipt: UUID) -> Response:
    """A receipt, to be kept."""
    with door.reading() as (session, visitor):
        found = ledger.receipt(session, str(receipt), user=user_of(visitor))
    return _file(json.dumps(found, ensure_ascii=False, indent=2), "receipt.json")


@router.get("/ledger.jsonl")
def whole_ledger(door: Person) -> Response:
    """The whole ledger, to check receipts against. It has no personal data."""
    _count_file(door, "ledger")
    return ledger_response(door.service)


@router.get("/data")
def data(door: Person) -> Response:
    """Export, receipts, withdrawal."""
    texts, cursor = render.texts_of(door.request), door.asked("cursor")
    with door.reading() as (session, visitor):
        user = user_of(visitor)
        found, after = ledger.receipts_of(session, user, cursor=cursor or None, limit=20)
        receipts = [_receipt(door, session, visitor, texts, each) for each in found]
    return draw(
        door.request,
        "data.html",
        visitor=visitor,
        receipts=receipts,
        first=address(door.request, "/me/data") if cursor else None,
        next=address(door.request, "/me/data", cursor=after) if after else None,
    )


@router.get("/export.json")
def export(door: Person) -> Response:
    """All that is known, in one file."""
    _count_file(door, "export")
    with door.snapshot() as (session, visitor):
        found = people.export(session, door.service.settings, user_of(visitor))
    return _file(found.model_dump_json(indent=2), "my-data.json")


@router.get("/withdraw")
def ask_withdraw(door: Person) -> Response:
    """What withdrawing everything means, and a button."""
    with door.reading() as (session, visitor):
        known = sum(entries.counts(session, user_of(visitor)).values())
    contact = door.service.settings.controller.contact
    return draw(door.request, "withdraw.html", visitor=visitor, known=known, contact=contact)


@router.post("/withdraw")
def withdraw(door: Person) -> Response:
    """Withdraw everything."""
    visitor = door.check()
    door.service.recorder.submit(user_of(visitor), [WITHDRAW_EVERYTHING]).result()
    return go(door.request, "/me", said="withdrawn")


# What the routes share


def _count_file(door: Door, what: str) -> None:
    """Count a large file that somebody takes, over all their visits; refuse too many."""
    with door.writing() as (session, visitor):
        security.count_attempt(session, door.service.secret, f"{what} {user_of(visitor)}", **FILES)


def _choose(door: Door, scope: str, back: str) -> Response:
    visitor, form = door.check(), door.posted
    said = said_of(scope, text_of(form, "target"), text_of(form, "choice"))
    with door.reading() as (session, _):
        name_of(door, session, visitor, said)
        standing = {(each.scope, each.target): each for each in wishes.standing(session, user_of(visitor))}
    before = standing.get((said.scope, said.target))
    same = said.unwillingness == (None if before is None else before.unwillingness)
    outcome = _say(door, visitor, [] if same else [said])
    return go(door.request, back, item=said.target if scope == "item" else None, said=outcome)


def _say(door: Door, visitor: Visitor, said: list[Said]) -> str:
    """Store what is said, durably, and return the word for it."""
    if not said:
        return "same"
    door.service.recorder.submit(user_of(visitor), said).result()
    return "saved" if len(said) == 1 else "several"


def _everything(session: Session, user: str) -> float | None:
    found = [each for each in wishes.standing(session, user) if each.scope == "everything"]
    return found[0].unwillingness if found else None


def _receipt(
    door: Door, session: Session, visitor: Visitor, texts: Texts, receipt: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a receipt in words. What it is about may be gone by now; then its id is shown."""
    event = receipt["dpv:hasRecordOfActivity"]["events"][0]
    said = event["said"]
    what = what_of(texts, said["scope"], said["target"], said["withdrawal"])
    if said["scope"] == "item":
        with suppress(NotFoundError):
            what = title_of(door, session, visitor, said["target"])
    return {
        "what": what,
        "choice": choice_of(texts, said["unwillingness"]),
        "state": event["state"],
        "step": texts(f"step.{event['state']}"),
        "address": address(door.request, f"/me/receipts/{receipt['dct:identifier']}"),
        "at": event["dct:date"],
        "when": texts.when(datetime.fromisoformat(event["dct:date"]).timestamp()),
    }


def _file(body: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(body, media_type="application/json", headers=headers)
