"""All that is known of a person, for themselves; counts of everybody, for operators."""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from assent.service import interactions, ledger, wishes
from assent.service.interactions import Row
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
from assent.service.wishes import Past, Standing

_SOME: Final = 1000


@dataclass(frozen=True)
class Decided:
    """What a model that is kept did with an interaction of a person."""

    model: int
    item: str
    state: str
    unwillingness: float
    """When it was decided."""
    reason: str | None
    value: float | None
    cost: float | None
    price: float | None
    """Of one unit of unwillingness, in that model."""
    break_even: float | None
    """The price up to which its use would have paid."""
    worth_owner: float | None
    worth_everybody: float | None
    together: int | None


@dataclass(frozen=True)
class Export:
    """All that is known of a person."""

    user: str
    pseudonym: str | None
    """What receipts call them; None if they are unknown."""
    added: float | None
    interactions: list[Row]
    brought: dict[str, float]
    """The unwillingness that the platform brought with interactions, by item."""
    standing: list[Standing]
    history: list[Past]
    decided: list[Decided]
    receipts: list[dict[str, Any]]
    visits: list[tuple[float, float]]
    """When they began, and were last used."""
    links: list[tuple[float, float | None]]
    """When they were made, and used."""


def export(session: Session, settings: ServiceSettings, user: str) -> Export:
    """Return all that is known of a person.

    The session has to see one moment (`Database.snapshot`).
    """
    rows: list[Row] = []
    cursor = None
    while True:
        page = interactions.page(session, settings, user, cursor=cursor, limit=_SOME)
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
    person = session.scalar(select(Person).where(Person.user == user))
    visits = select(Visit.created, Visit.seen).where(Visit.person == user).order_by(Visit.created)
    links = select(Link.created, Link.used).where(Link.person == user).order_by(Link.created)
    brought = interactions.brought_by(session, user).items()
    return Export(
        user=user,
        pseudonym=person.pseudonym if person else None,
        added=person.added if person else None,
        interactions=rows,
        brought={item: each.unwillingness for item, each in brought if each.unwillingness is not None},
        standing=wishes.standing(session, user),
        history=said,
        decided=_decided(session, user),
        receipts=receipts,
        visits=[(began, seen) for began, seen in session.execute(visits)],
        links=[(made, used) for made, used in session.execute(links)],
    )


def _decided(session: Session, user: str) -> list[Decided]:
    asked = (
        select(
            Decision.model_id,
            Item.item,
            Decision.state,
            Decision.unwillingness,
            Decision.reason,
            Decision.value,
            Decision.cost,
            Decision.price,
            Decision.worth_owner,
            Decision.worth_everybody,
            Decision.together,
        )
        .join(Person, Person.id == Decision.person_id)
        .join(Item, Item.id == Decision.item_id)
        .where(Person.user == user)
        .order_by(Decision.model_id.desc(), Item.item)
    )
    rows = session.execute(asked).all()
    models = select(Model.id, Model.facts).where(Model.id.in_({row[0] for row in rows}))
    prices = {id: facts["price"] for id, facts in session.execute(models)}
    return [Decided(*row[:7], prices[row[0]], *row[7:]) for row in rows]


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
