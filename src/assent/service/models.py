"""Models: what was trained, what is in service, publishing and rolling back."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import time
from typing import Any

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session

from assent.service.database import ConflictError, NotFoundError
from assent.service.effective import Effective
from assent.service.ledger import note
from assent.service.settings import ServiceSettings
from assent.service.tables import Decision, Interaction, Model, Publication


@dataclass(frozen=True)
class ModelView:
    """A model as operators see it."""

    id: int
    kind: str
    """`train` or `update`."""
    parent: int | None
    created: float
    published: float | None
    """When it last went into service."""
    in_service: bool
    pruned: float | None
    """When its run folder and decisions were deleted."""
    folder: str
    model_hash: str
    manifest_hash: str
    decisions_hash: str
    upto: int
    """The ledger's last event that its decisions know."""
    trained_upto: int
    """The same of all its vectors."""
    facts: dict[str, Any]
    """people, items, interactions, disclosed, never, closed, violation_share, budget, price, keep_quality,
    method, seconds; quality: `Run.quality`; frontier: flat records, empty where it was not measured."""


def page(
    session: Session, *, cursor: int | None = None, limit: int = 50
) -> tuple[list[ModelView], int | None]:
    """Return a page of models, latest first, and the next cursor."""
    asked = select(Model).order_by(Model.id.desc())
    if cursor is not None:
        asked = asked.where(Model.id < cursor)
    found = session.scalars(asked.limit(limit + 1)).all()
    return _views(session, found[:limit]), found[limit - 1].id if len(found) > limit else None


def get(session: Session, id: int) -> ModelView:
    """Return a model; `NotFoundError` if there is none."""
    return _views(session, [_model(session, id)])[0]


def in_service(session: Session) -> ModelView | None:
    """Return the model in service; None before the first was published."""
    found = in_service_id(session)
    return None if found is None else get(session, found)


def in_service_id(session: Session) -> int | None:
    """Return the id of the model in service."""
    return session.scalar(select(Publication.model_id).order_by(Publication.id.desc()).limit(1))


def last_trained(session: Session) -> Model | None:
    """Return the model of the last whole training, whose files are there."""
    asked = select(Model).where(Model.kind == "train", Model.pruned.is_(None)).order_by(Model.id.desc())
    return session.scalar(asked.limit(1))


def publish(session: Session, settings: ServiceSettings, id: int, *, by: str) -> ModelView:
    """Put a model into service, and note it.

    A model that knows less than the one in service is a step back. It is refused (`ConflictError`) if it used
    what its owners have since said never to, closed or deleted: that would be used again.
    """
    model, now = _model(session, id), in_service_id(session)
    if model.pruned is not None:
        raise ConflictError(f"model {id}: its files were deleted; train a new one")
    current = None if now is None else _model(session, now)
    if current is not None and (model.upto < current.upto or model.trained_upto < current.trained_upto):
        used = used_against_wishes(session, settings, model)
        if used:
            raise ConflictError(
                f"model {id}: it used {used} interactions that may no longer be used; train a new one"
            )
    session.add(Publication(model_id=id, at=time(), by=by))
    note(session, "model published", model=id, model_hash=model.model_hash, by=by)
    return get(session, id)


def roll_back(session: Session, settings: ServiceSettings, *, by: str) -> ModelView:
    """Put the model into service that was there before, under the same condition."""
    last = session.scalars(select(Publication.model_id).order_by(Publication.id.desc())).all()
    before = next((each for each in last if each != last[0]), None) if last else None
    if before is None:
        raise ConflictError("roll back: no other model has been in service")
    return publish(session, settings, before, by=by)


def used_against_wishes(session: Session, settings: ServiceSettings, model: Model) -> int:
    """Return how many interactions a model, or the training it rests on, used that may not be used now.

    They are never, closed or deleted since.
    """
    effective = Effective(settings)
    limit = 1.0 if settings.closed is None else settings.closed
    asked = (
        select(func.count())
        .select_from(Decision)
        .outerjoin(
            Interaction,
            and_(Interaction.person_id == Decision.person_id, Interaction.item_id == Decision.item_id),
        )
    )
    is_away = or_(
        Interaction.id.is_(None),
        effective.unwillingness == 1,
        effective.unwillingness > limit,
    )
    rests = [model.id]
    if model.parent_id is not None and model.trained_upto < model.upto:  # its items' vectors are kept
        rests.append(model.parent_id)
    asked = effective.joined(asked).where(Decision.model_id.in_(rests), Decision.state == "used", is_away)
    return session.scalars(asked).one()


def _model(session: Session, id: int) -> Model:
    found = session.get(Model, id)
    if found is None:
        raise NotFoundError(f"model {id}: there is none")
    return found


def _views(session: Session, found: Sequence[Model]) -> list[ModelView]:
    ids = [each.id for each in found]
    last = select(Publication.model_id, func.max(Publication.at)).group_by(Publication.model_id)
    published = dict(session.execute(last.where(Publication.model_id.in_(ids))).all())
    now = in_service_id(session)
    return [
        ModelView(
            id=each.id,
            kind=each.kind,
            parent=each.parent_id,
            created=each.created,
            published=published.get(each.id),
            in_service=each.id == now,
            pruned=each.pruned,
            folder=each.folder,
            model_hash=each.model_hash,
            manifest_hash=each.manifest_hash,
            decisions_hash=each.decisions_hash,
            upto=each.upto,
            trained_upto=each.trained_upto,
            facts=dict(each.facts),
        )
        for each in found
    ]
