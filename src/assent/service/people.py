"""All that is known of a person, for themselves; counts of everybody, for operators."""

from datetime import datetime
from typing import Any, Final, Literal

from pydantic import Field
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from assent.service import entries, ledger, wishes
from assent.service.entries import Row
from assent.service.schemas import FiguresOut, InteractionOut, PastOut, StandingOut, source_of
from assent.service.settings import ServiceSettings
from assent.service.tables import (
    Decision,
    Interaction,
    Item,
    Leaf,
    Link,
    Model,
    Person,
    Receipt,
    Seal,
    Visit,
    Wish,
)
from assent.service.texts import Texts
from assent.service.wire import Wire, moment
from assent.service.wishes import Past

_SOME: Final = 1000


class ExportedInteractionOut(InteractionOut):
    """An interaction in the export of a person."""

    brought: float | None = Field(description="The unwillingness that the platform brought, if any.")


class KeptDecisionOut(Wire):
    """Which model that is kept decided on which interaction, and how."""

    model: int
    item: str
    state: Literal["used", "withheld", "never", "closed"]
    unwillingness: float = Field(description="When it was decided.")
    reason: str | None


class DecidedOut(FiguresOut, KeptDecisionOut):
    """What a model that is kept did with an interaction, with the figures."""


class VisitOut(Wire):
    """A visit of a person's pages."""

    began: datetime
    seen: datetime


class LinkMadeOut(Wire):
    """A personal link that was made, without its secret."""

    created: datetime
    used: datetime | None


class ExportOut(Wire):
    """All that is known of a person."""

    person: str
    pseudonym: str | None = Field(description="What receipts call them; null if nothing is known of them.")
    known_since: datetime | None
    interactions: list[ExportedInteractionOut]
    wishes_in_force: list[StandingOut]
    history: list[PastOut]
    decisions: list[DecidedOut] = Field(description="Of all models that are kept, the latest first.")
    receipts: list[dict[str, Any]]
    visits: list[VisitOut]
    links: list[LinkMadeOut]


def export(session: Session, settings: ServiceSettings, user: str) -> ExportOut:
    """Return all that is known of a person.

    The session has to see one moment (`Database.snapshot`).
    """
    rows: list[Row] = []
    cursor = None
    while True:
        page = entries.page(session, settings, user, cursor=cursor, limit=_SOME)
        rows += page.rows
        if (cursor := page.next) is None:
            break
    said: list[Past] = []
    while True:
        past = wishes.history(session, user, cursor=cursor, limit=_SOME)
        said += past.wishes
        if (cursor := past.next) is None:
            break
    receipts: list[dict[str, Any]] = []
    while True:
        some, cursor = ledger.receipts_of(session, user, cursor=cursor, limit=_SOME)
        receipts += some
        if cursor is None:
            break
    texts, brought = Texts(), entries.brought_by(session, user)
    person = session.scalar(select(Person).where(Person.user == user))
    visits = select(Visit.created, Visit.seen).where(Visit.person == user).order_by(Visit.created)
    links = select(Link.created, Link.used).where(Link.person == user).order_by(Link.created)
    return ExportOut(
        person=user,
        pseudonym=person.pseudonym if person else None,
        known_since=moment(person.added) if person else None,
        interactions=[
            ExportedInteractionOut(
                item=row.item,
                title=row.title,
                categories=list(row.categories),
                time=moment(row.at),
                unwillingness=row.unwillingness,
                because=source_of(row, texts.source(row, settings.controller.name)),
                state=row.state,
                brought=brought[row.item].unwillingness,
            )
            for row in rows
        ],
        wishes_in_force=[StandingOut.of(each) for each in wishes.standing(session, user)],
        history=[PastOut.of(each) for each in said],
        decisions=_decided(session, user),
        receipts=receipts,
        visits=[VisitOut(began=moment(began), seen=moment(seen)) for began, seen in session.execute(visits)],
        links=[LinkMadeOut(created=moment(made), used=moment(used)) for made, used in session.execute(links)],
    )


def _decided(session: Session, user: str) -> list[DecidedOut]:
    asked = (
        select(
            Decision.model_id.label("model"),
            Item.item,
            Decision.state,
            Decision.unwillingness,
            Decision.reason,
            Decision.value,
            Decision.cost,
            Decision.price.label("break_even"),
            Decision.worth_owner,
            Decision.worth_everybody,
            Decision.together,
        )
        .join(Person, Person.id == Decision.person_id)
        .join(Item, Item.id == Decision.item_id)
        .where(Person.user == user)
        .order_by(Decision.model_id.desc(), Item.item)
    )
    rows = session.execute(asked).mappings().all()
    facts = select(Model.id, Model.facts).where(Model.id.in_({row["model"] for row in rows}))
    prices = {id: of["price"] for id, of in session.execute(facts)}
    return [DecidedOut(**row, price=prices[row["model"]]) for row in rows]


def totals(session: Session) -> dict[str, int]:
    """Return counts of what the database holds, without ids."""
    asked = {
        "people": select(func.count()).select_from(Person),
        "items": select(func.count()).select_from(Item),
        "interactions": select(func.count()).select_from(Interaction),
        "wishes": select(func.count()).where(Wish.in_force),
        "wishes_open": select(func.count()).where(Wish.served.is_(None)),
        "wishes_never": select(func.count()).where(Wish.in_force, Wish.unwillingness == 1),
        "leaves": select(func.coalesce(func.max(Leaf.number) + 1, 0)),
        "seals": select(func.coalesce(func.max(Seal.number) + 1, 0)),
        "receipts": select(func.count()).select_from(Receipt),
        "models": select(func.count()).select_from(Model),
    }
    return {name: session.scalars(each).one() for name, each in asked.items()}
