"""Models: what was trained, what is in service, publishing and rolling back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import time
from typing import Any

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.orm import Session

from assent.results.words import plural
from assent.service.database import ConflictError, NotFoundError
from assent.service.effective import Effective
from assent.service.interactions import ERASED
from assent.service.ledger import note, take_turn
from assent.service.settings import ServiceSettings
from assent.service.tables import Decision, Interaction, Item, Leaf, Model, Publication, Wish


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
    method, k, seconds; quality: `Run.quality`; frontier: flat records, empty where it was not measured."""


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
    what its owners have since said never to, closed or deleted, or if somebody was erased since: that would
    be used again. A step forward is not refused: what the next model ends, the one in service used as well.
    Wishes that the model does not know are no longer served; a later model serves them again.
    """
    take_turn(session)  # until the commit nobody says never, is erased, or publishes
    model = _kept(session, id)
    if (refusal := why_not(session, settings, id) or _whole_refusal(session, settings, model)) is not None:
        raise ConflictError(refusal)
    session.add(Publication(model_id=id, at=time(), by=by))
    taken_back = (Wish.id > model.trained_upto, Wish.served.is_not(None))
    session.execute(update(Wish).where(*taken_back).values(served=None))
    note(session, "model published", model=id, model_hash=model.model_hash, by=by)
    return get(session, id)


def why_not(session: Session, settings: ServiceSettings, id: int) -> str | None:
    """Return why a model may not be put into service, as far as that is soon told; None if nothing is known.

    Of what it used against wishes, that of people who said something since is counted; all else, such as
    what was deleted, only when it is tried (`publish`): that takes long where there are many interactions.
    """
    model, now = _model(session, id), in_service_id(session)
    if model.pruned is not None:
        return f"model {id}: its files were deleted; train a new one"
    if now is None or not is_step_back(model, _model(session, now)):
        return None
    if erased_after(session, model.trained_upto) is not None:
        return f"model {id}: somebody was erased since it was trained; train a new one"
    return _told(model, used_against_wishes(session, settings, model, since=model.trained_upto))


def _whole_refusal(session: Session, settings: ServiceSettings, model: Model) -> str | None:
    """Return why a step back is refused for what the model used, whoever minds it; None if it is not."""
    now = in_service_id(session)
    if now is None or not is_step_back(model, _model(session, now)):
        return None
    return _told(model, used_against_wishes(session, settings, model))


def _told(model: Model, used: int) -> str | None:
    if not used:
        return None
    these = plural(used, "interaction")
    return f"model {model.id}: it used {these} that may no longer be used; train a new one"


def previous(session: Session) -> int | None:
    """Return the model that was in service before the present one."""
    now = in_service_id(session)
    asked = select(Publication.model_id).where(Publication.model_id != now).order_by(Publication.id.desc())
    return None if now is None else session.scalar(asked.limit(1))


def roll_back(session: Session, settings: ServiceSettings, *, by: str) -> ModelView:
    """Put the model into service that was there before, under the same condition."""
    before = previous(session)
    if before is None:
        raise ConflictError("roll back: no other model has been in service")
    return publish(session, settings, before, by=by)


def is_step_back(model: Model, current: Model) -> bool:
    """Whether a model knows less than the one in service."""
    return model.upto < current.upto or model.trained_upto < current.trained_upto


def erased_after(session: Session, number: int) -> int | None:
    """Return the last event of the ledger after a number that erased somebody; None if there is none.

    Decisions went with whom they were on, so that only the ledger still knows of it.
    """
    return session.scalar(select(func.max(Leaf.number)).where(Leaf.number > number, Leaf.event == ERASED))


def needed(session: Session) -> set[int]:
    """Return the models whose files and decisions the service works with."""
    now, last = in_service_id(session), last_trained(session)
    working = [each for each in (None if now is None else _model(session, now), last) if each is not None]
    return {each.id for each in working} | rested_on(working)


def rested_on(models: Iterable[Model]) -> set[int]:
    """Return the models whose items' vectors these models have."""
    kept = (each.parent_id for each in models if each.trained_upto < each.upto)
    return {each for each in kept if each is not None}


def used_against_wishes(
    session: Session, settings: ServiceSettings, model: Model, *, since: int | None = None
) -> int:
    """Return how many interactions a model, or the training it rests on, used that may not be used now.

    They are never, closed or deleted since. `since` is an event of the ledger: those alone are counted of
    people who said something after it.
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
        .join(Item, Item.id == Decision.item_id)
    )
    is_away = or_(
        Interaction.id.is_(None),
        effective.unwillingness == 1,
        effective.unwillingness > limit,
    )
    rests = sorted({model.id} | rested_on([model]))
    asked = effective.joined(asked).where(Decision.model_id.in_(rests), Decision.state == "used", is_away)
    if since is not None:
        asked = asked.where(Decision.person_id.in_(select(Wish.person_id).where(Wish.id > since)))
    return session.scalars(asked).one()


def _model(session: Session, id: int) -> Model:
    found = session.get(Model, id)
    if found is None:
        raise NotFoundError(f"model {id}: there is none")
    return found


def _kept(session: Session, id: int) -> Model:
    """Return a model; neither it nor the one that it rests on is pruned until this transaction ends."""
    rests = (Model.id == id) | (Model.id == select(Model.parent_id).where(Model.id == id).scalar_subquery())
    locked = select(Model).where(rests).order_by(Model.id).with_for_update(key_share=True)
    session.scalars(locked.execution_options(populate_existing=True)).all()
    return _model(session, id)


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
