"""The states that wishes reach after they were requested: decided, trained, served.

A wish is *decided* once a decision was made that knows it. It is *trained* once a model was trained from
nothing on what is disclosed by that decision: by a whole training, or by an update that trains anew. An
update takes what entries are worth, and the settings of the model, from the last whole training; its receipts
name that. An update that keeps the items' vectors trains nothing. A wish is *served* once such a model is in
service, and no longer when an operator rolls back to one that does not know it. Each state comes with a
receipt.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.orm import Session

from assent.service import models, wishes
from assent.service.database import Database
from assent.service.ledger import take_turn
from assent.service.settings import ServiceSettings
from assent.service.tables import Decision, Item, ItemCategory, Model, Wish

_SOME: Final = 2000
"""Wishes that reach a state in one transaction: others wait for their turn in the ledger meanwhile."""


def honour(database: Database, settings: ServiceSettings, model: int) -> None:
    """Let all wishes that a model knows be `decided`, and `trained`, each with what became of it."""
    with database.reading() as session:
        found = session.get_one(Model, model)
        told = _told(session, found)
        steps = (("decided", Wish.decided, found.upto), ("trained", Wish.trained, found.trained_upto))
    for state, column, upto in steps:
        while True:
            with database.writing() as session:
                open_ = (
                    select(Wish.id).where(Wish.id <= upto, column.is_(None)).order_by(Wish.id).limit(_SOME)
                )
                waiting = list(session.scalars(open_))
                if not waiting:
                    break
                outcomes = {each: {**told, **became} for each, became in _outcomes(session, model, waiting)}
                wishes.advance(session, settings, state, outcomes)  # type: ignore[arg-type]
                if state == "trained":
                    session.execute(update(Wish).values(model_id=model).where(Wish.id.in_(waiting)))


def _told(session: Session, model: Model) -> dict[str, Any]:
    """Return what receipts say of a model: which it is, and which training its values and settings are of."""
    told = {"model": model.id, "model_hash": model.model_hash}
    if model.parent_id is not None:
        before = session.get_one(Model, model.parent_id)
        told |= {"values_of_model": before.id, "values_of_model_hash": before.model_hash}
    return told


def _outcomes(session: Session, model: int, waiting: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each wish with how many of its interactions are used, withheld, never and closed."""
    ids = list(waiting)
    here = and_(Decision.model_id == model, Decision.person_id == Wish.person_id)
    in_category = select(ItemCategory.item_id).where(ItemCategory.category == Wish.target).correlate(Wish)
    about = or_(
        Wish.scope == "everything",
        and_(Wish.scope == "item", Item.item == Wish.target),
        and_(Wish.scope == "category", Item.id.in_(in_category)),
    )
    asked = (
        select(Wish.id, Decision.state, func.count())
        .join(Decision, here)
        .join(Item, Item.id == Decision.item_id)
        .where(Wish.id.in_(ids), about)
        .group_by(Wish.id, Decision.state)
    )
    found: dict[int, dict[str, Any]] = {each: {} for each in ids}
    for wish, state, number in session.execute(asked):
        found[wish][state] = number
    ended = select(Wish.id).where(Wish.id.in_(ids), ~Wish.in_force, Wish.unwillingness.is_not(None))
    for wish in session.scalars(ended):
        found[wish] = {"superseded": True}
    yield from found.items()


def settle(database: Database, settings: ServiceSettings) -> None:
    """Let wishes be `served` that the model in service was trained to honour."""
    while True:
        with database.reading() as session:
            if not _unserved(session):
                return
        with database.writing() as session:
            take_turn(session)  # from here on no other model is put into service
            wishes.advance(session, settings, "served", _unserved(session))


def _unserved(session: Session) -> dict[int, dict[str, Any]]:
    """Return some wishes that the model in service honours and that are not `served`, with what it is."""
    now = session.scalar(select(Model).where(Model.id == models.in_service_id(session)))
    if now is None:
        return {}
    known = and_(Wish.id <= now.trained_upto, Wish.trained.is_not(None), Wish.served.is_(None))
    waiting = session.scalars(select(Wish.id).where(known).order_by(Wish.id).limit(_SOME)).all()
    return dict.fromkeys(waiting, _told(session, now)) if waiting else {}
