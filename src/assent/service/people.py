"""All that is known of a person, for themselves; counts of everybody, for operators."""

from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from assent.service import interactions, ledger, wishes
from assent.service.settings import ServiceSettings
from assent.service.tables import Interaction, Item, Leaf, Model, Person, Receipt, Seal, Wish

_SOME: Final = 1000


def export(session: Session, settings: ServiceSettings, user: str) -> dict[str, Any]:
    """Return all that is known of a person as JSON: interactions with decisions, wishes, receipts.

    The session has to see one moment (`Database.snapshot`).
    """
    rows: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = interactions.page(session, settings, user, cursor=cursor, limit=_SOME)
        rows += [each._asdict() for each in page.rows]
        if (cursor := page.next) is None:
            break
    said: list[dict[str, Any]] = []
    while True:
        past = wishes.history(session, user, cursor=cursor, limit=_SOME)
        said += [asdict(each) for each in past.wishes]
        if (cursor := past.next) is None:
            break
    receipts: list[dict[str, Any]] = []
    while True:
        some, cursor = ledger.receipts_of(session, user, cursor=cursor, limit=_SOME)
        receipts += some
        if cursor is None:
            break
    return {
        "person": user,
        "interactions": rows,
        "wishes_in_force": [asdict(each) for each in wishes.standing(session, user)],
        "history": said,
        "receipts": receipts,
    }


def totals(session: Session) -> dict[str, int]:
    """Return counts of what the database holds, without ids."""
    asked = {
        "people": select(func.count()).select_from(Person),
        "items": select(func.count()).select_from(Item),
        "interactions": select(func.count()).select_from(Interaction),
        "wishes": select(func.count()).select_from(Wish),
        "wishes_open": select(func.count()).where(Wish.served.is_(None)),
        "never": select(func.count()).where(Wish.in_force, Wish.unwillingness == 1),
        "leaves": select(func.coalesce(func.max(Leaf.number) + 1, 0)),
        "seals": select(func.coalesce(func.max(Seal.number) + 1, 0)),
        "receipts": select(func.count()).select_from(Receipt),
        "models": select(func.count()).select_from(Model),
    }
    return {name: session.scalars(each).one() for name, each in asked.items()}
